import { setImmediate } from 'node:timers/promises';
import { errorText } from '../../../base/errors.ts';
import { isJsonObject, type JsonObject, type JsonValue } from '../../../base/json.ts';
import type { McpServerRecord } from '../../../server/records/server.ts';
import { McpArgumentsError, McpSchemaError } from './errors.ts';
import { type HeaderParameter, headerParameters } from './header-parameters.ts';
import { SchemaCheck, type SchemaEngine, type SchemaStrikes, type ValidationResult } from './schema/checks.ts';

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
  /** What is odd about the list as a whole; null: nothing. */
  readonly notice: string | null;
  /** What the server says about how to use it, without secrets; nobody else vouches for it. Null: nothing. */
  readonly instructions: string | null;
}

export interface CheckedTool {
  readonly tool: ToolDescriptor;
  readonly input: SchemaCheck;
  /** Null where the tool declares nothing, or nothing that can be used. */
  readonly output: SchemaCheck | null;
  /** What is sent as headers besides. */
  readonly headers: readonly HeaderParameter[];
}

export interface CompiledToolList {
  readonly list: ToolList;
  readonly tools: ReadonlyMap<string, CheckedTool>;
  /** The tools as the server sent them, to see whether a new listing says anything new. */
  readonly source: string;
  readonly mirrorsHeaders: boolean;
}

const MAX_NAME_CHARS = 256;
const controlCharacter = /\p{Cc}/u;

/** What is wrong with a tool that can be called all the same. */
export type ToolWarning = { readonly name: string; readonly detail: string };

/** How long the host is held at a time: a list may have thousands of schemas. */
const TURN_MS = 5;

/**
 * Turns what a server listed into tools that can be called. One that nobody could call, or whose schema is made to do
 * harm, is left out with its reason; one whose output schema cannot be used is a tool without one.
 */
export async function compileToolList(
  listed: readonly JsonValue[],
  source: string,
  details: {
    readonly serverId: string;
    readonly version: number;
    readonly notice: string | null;
    readonly instructions: string | null;
    /** Whether parameters are sent as headers too, where a tool wants it. */
    readonly mirrorsHeaders: boolean;
    readonly engine: SchemaEngine;
    readonly strikes: SchemaStrikes;
    readonly onWarning: (warning: ToolWarning) => void;
  },
): Promise<CompiledToolList> {
  const tools = new Map<string, CheckedTool>();
  const dropped: DroppedTool[] = [];
  let turnBegan = performance.now();
  for (const entry of listed) {
    if (performance.now() - turnBegan > TURN_MS) {
      await setImmediate();
      turnBegan = performance.now();
    }
    const name = isJsonObject(entry) ? nameOf(entry) : null;
    if (name === null) {
      dropped.push({ name: '', reason: 'schema_invalid', detail: 'an entry without a valid name' });
      continue;
    }
    if (tools.has(name)) {
      dropped.push({ name, reason: 'name_collision', detail: 'the server lists this name twice' });
      continue;
    }
    try {
      tools.set(name, checkedTool(name, entry as JsonObject, details));
    } catch (error) {
      dropped.push({ name, reason: 'schema_invalid', detail: errorText(error) });
    }
  }
  const list = Object.freeze({
    serverId: details.serverId,
    version: details.version,
    tools: Object.freeze([...tools.values()].map(({ tool }) => tool)),
    dropped: Object.freeze(dropped),
    notice: details.notice,
    instructions: details.instructions,
  });
  return { list, tools, source, mirrorsHeaders: details.mirrorsHeaders };
}

function nameOf({ name }: JsonObject): string | null {
  if (typeof name !== 'string' || name === '' || name.length > MAX_NAME_CHARS) return null;
  return controlCharacter.test(name) || !name.isWellFormed() ? null : name;
}

function checkedTool(
  name: string,
  entry: JsonObject,
  { mirrorsHeaders, engine, strikes, onWarning }: Parameters<typeof compileToolList>[2],
): CheckedTool {
  const { title, description, inputSchema = { type: 'object' }, outputSchema, annotations } = entry;
  if (!isJsonObject(inputSchema)) throw new Error('inputSchema is not an object');
  if (!describesObject(inputSchema.type)) {
    throw new Error('inputSchema does not describe an object');
  }
  const input = named('inputSchema', () => new SchemaCheck(inputSchema, 'arguments', engine, strikes));
  const headers = mirrorsHeaders ? named('inputSchema', () => headerParameters(inputSchema)) : [];
  let output: SchemaCheck | null = null;
  if (outputSchema !== undefined) {
    try {
      if (!isJsonObject(outputSchema)) throw new Error('it is not an object');
      output = new SchemaCheck(outputSchema, 'structuredContent', engine, strikes);
    } catch (error) {
      onWarning({ name, detail: `its outputSchema is ignored: ${(error as Error).message}` });
    }
  }
  const tool = Object.freeze({
    name,
    title: typeof title === 'string' ? title : null,
    description: typeof description === 'string' ? description : '',
    inputSchema,
    outputSchema: isJsonObject(outputSchema) && output !== null ? outputSchema : null,
    annotations: isJsonObject(annotations) ? annotations : null,
  });
  return { tool, input, output, headers };
}

/** OpenAPI's `nullable` becomes a list with null in it, and some write `any`. */
function describesObject(type: JsonValue | undefined): boolean {
  return type === undefined || [type].flat().some((one) => one === 'object' || one === 'any');
}

function named<T>(field: string, make: () => T): T {
  try {
    return make();
  } catch (error) {
    throw new Error(`${field}: ${errorText(error)}`);
  }
}

export interface ToolChecksDeps {
  record(): McpServerRecord;
  /** Told once of a tool whose arguments or results go unchecked. */
  unchecked(message: string): void;
}

/** Whether what is sent to the tools of one server, and what comes back, is what they describe. */
export class ToolChecks {
  readonly #deps: ToolChecksDeps;
  readonly #told = new Set<string>();

  constructor(deps: ToolChecksDeps) {
    this.#deps = deps;
  }

  /** @throws McpError where the server has no such tool, or none that can be used */
  find(toolName: string, { list, tools }: CompiledToolList): CheckedTool {
    const found = tools.get(toolName);
    if (found !== undefined) return found;
    const dropped = list.dropped.find(({ name }) => name === toolName);
    if (dropped !== undefined) throw new McpSchemaError(list.serverId, toolName, `cannot be used: ${dropped.detail}`);
    throw new McpArgumentsError(list.serverId, toolName, `server "${list.serverId}" has no tool "${toolName}"`);
  }

  /**
   * Nothing, or the promise of it, where the arguments may be sent: at once for a cheap schema and small arguments. What
   * cannot be checked is the server's to check, unless its record is strict. @throws McpError where they may not
   */
  arguments(found: CheckedTool, args: JsonObject): undefined | Promise<void> {
    const checked = found.input.check(args);
    if (checked instanceof Promise) return checked.then((verdict) => this.#judge(found, verdict));
    this.#judge(found, checked);
    return undefined;
  }

  /** What is wrong with a result; null: nothing, or nobody could tell. At once where arguments would be. */
  outputProblem(
    { tool, output }: Pick<CheckedTool, 'tool' | 'output'>,
    result: JsonObject,
  ): string | null | Promise<string | null> {
    const { isError, structuredContent } = result;
    if (output === null || structuredContent === undefined || isError === true) return null;
    const checked = output.check(structuredContent);
    if (checked instanceof Promise) return checked.then((verdict) => this.#problem(tool.name, verdict));
    return this.#problem(tool.name, checked);
  }

  #judge({ tool }: CheckedTool, verdict: ValidationResult): void {
    if (verdict === null) return;
    const { server_id: serverId, strict_schemas: strict } = this.#deps.record();
    if ('problem' in verdict) {
      throw new McpArgumentsError(serverId, tool.name, `tool "${tool.name}": ${verdict.problem}`);
    }
    if (strict) {
      const why = `its arguments cannot be validated (strict_schemas): ${verdict.unchecked}`;
      throw new McpSchemaError(serverId, tool.name, `cannot be used: ${why}`);
    }
    this.#tellUnchecked(tool.name, 'arguments', verdict.unchecked);
  }

  #problem(name: string, verdict: ValidationResult): string | null {
    if (verdict === null) return null;
    if ('problem' in verdict) return verdict.problem;
    this.#tellUnchecked(name, 'results', verdict.unchecked);
    return null;
  }

  #tellUnchecked(name: string, what: 'arguments' | 'results', why: string): void {
    const key = `${what} ${name}`;
    if (this.#told.has(key)) return;
    this.#told.add(key);
    this.#deps.unchecked(`the ${what} of tool "${name}" are not validated: ${why}`);
  }
}
