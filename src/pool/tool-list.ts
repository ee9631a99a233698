import { isJsonObject, type JsonObject, type JsonValue } from '../base/json.ts';
import type { SchemaCompiler, Validator } from './validate.ts';

export interface ToolDescriptor {
  readonly name: string;
  readonly title: string | null;
  readonly description: string;
  readonly inputSchema: JsonObject;
  readonly outputSchema: JsonObject | null;
  /** Hints of the server about itself; not to be trusted for any decision. */
  readonly annotations: JsonObject | null;
}

export interface DroppedTool {
  readonly name: string;
  readonly reason: 'schema_invalid' | 'name_collision';
  readonly detail: string;
}

export interface ToolList {
  readonly serverId: string;
  /** Another number whenever the list may have changed; unique in a pool. */
  readonly version: number;
  readonly tools: readonly ToolDescriptor[];
  readonly dropped: readonly DroppedTool[];
}

export interface ToolValidators {
  readonly tool: ToolDescriptor;
  readonly input: Validator;
  readonly output: Validator | null;
}

export interface CompiledToolList {
  readonly list: ToolList;
  readonly validators: ReadonlyMap<string, ToolValidators>;
  /** The tools as the server sent them, to see whether a new listing says anything new. */
  readonly source: string;
}

const MAX_NAME_CHARS = 256;
const controlCharacter = /\p{Cc}/u;

/** Turns what a server listed into tools that can be called. A tool that cannot be used is left out with its reason. */
export function compileToolList(
  listed: readonly JsonValue[],
  source: string,
  details: { serverId: string; version: number; compiler: SchemaCompiler },
): CompiledToolList {
  const tools: ToolDescriptor[] = [];
  const dropped: DroppedTool[] = [];
  const validators = new Map<string, ToolValidators>();
  for (const entry of listed) {
    const name = isJsonObject(entry) ? nameOf(entry) : null;
    if (name === null) {
      dropped.push({ name: '', reason: 'schema_invalid', detail: 'an entry without a usable name' });
      continue;
    }
    if (validators.has(name)) {
      dropped.push({ name, reason: 'name_collision', detail: 'the server lists this name twice' });
      continue;
    }
    try {
      const tool = describeTool(name, entry as JsonObject);
      validators.set(name, compileSchemas(tool, details.compiler));
      tools.push(tool);
    } catch (error) {
      dropped.push({ name, reason: 'schema_invalid', detail: error instanceof Error ? error.message : String(error) });
    }
  }
  const list = Object.freeze({
    serverId: details.serverId,
    version: details.version,
    tools: Object.freeze(tools),
    dropped: Object.freeze(dropped),
  });
  return { list, validators, source };
}

function nameOf({ name }: JsonObject): string | null {
  if (typeof name !== 'string' || name === '' || name.length > MAX_NAME_CHARS) return null;
  return controlCharacter.test(name) || !name.isWellFormed() ? null : name;
}

function describeTool(name: string, entry: JsonObject): ToolDescriptor {
  const { title, description, inputSchema = { type: 'object' }, outputSchema, annotations } = entry;
  if (!isJsonObject(inputSchema)) throw new Error('inputSchema is not an object');
  if (inputSchema.type !== undefined && inputSchema.type !== 'object') {
    throw new Error('inputSchema does not describe an object');
  }
  if (outputSchema !== undefined && !isJsonObject(outputSchema)) throw new Error('outputSchema is not an object');
  return Object.freeze({
    name,
    title: typeof title === 'string' ? title : null,
    description: typeof description === 'string' ? description : '',
    inputSchema,
    outputSchema: outputSchema ?? null,
    annotations: isJsonObject(annotations) ? annotations : null,
  });
}

function compileSchemas(tool: ToolDescriptor, compiler: SchemaCompiler): ToolValidators {
  return {
    tool,
    input: named('inputSchema', () => compiler.compile(tool.inputSchema, 'arguments')),
    output:
      tool.outputSchema === null
        ? null
        : named('outputSchema', () => compiler.compile(tool.outputSchema, 'structuredContent')),
  };
}

function named(field: string, compile: () => Validator): Validator {
  try {
    return compile();
  } catch (error) {
    throw new Error(`${field}: ${error instanceof Error ? error.message : String(error)}`);
  }
}
