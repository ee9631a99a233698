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
  /** Hints of the server about the tool. Untrusted: never the basis of a decision. */
  readonly annotations: JsonObject | null;
}

export interface DroppedTool {
  readonly name: string;
  readonly reason: 'schema_invalid' | 'name_collision';
  readonly detail: string;
}

export interface ToolList {
  readonly serverId: string;
  /** Changes whenever the list may have changed; unique in a pool. */
  readonly version: number;
  readonly tools: readonly ToolDescriptor[];
  readonly dropped: readonly DroppedTool[];
  /** Anomaly of the list as a whole; null: none. */
  readonly notice: string | null;
  /** The server's instructions, without secrets. Untrusted. Null: none. */
  readonly instructions: string | null;
}

export interface CheckedTool {
  readonly tool: ToolDescriptor;
  readonly input: SchemaCheck;
  /** Null: the tool declares no usable output schema. */
  readonly output: SchemaCheck | null;
  /** Parameters that are mirrored in headers. */
  readonly headers: readonly HeaderParameter[];
}

export interface CompiledToolList {
  readonly list: ToolList;
  readonly tools: ReadonlyMap<string, CheckedTool>;
  /** The tools as the server sent them, to detect changes. */
  readonly source: string;
  readonly mirrorsHeaders: boolean;
}

const MAX_NAME_CHARS = 256;
const controlCharacter = /\p{Cc}/u;

/** Problem of a tool that can still be called. */
export type ToolWarning = { readonly name: string; readonly detail: string };

/** Yield interval while compiling: a list may have thousands of schemas. */
const YIELD_MS = 5;

/**
 * Compiles listed tools. A tool with an invalid name or a harmful input schema is dropped with a reason; an unusable output
 * schema is ignored with a warning.
 */
export async function compileToolList(
  listed: readonly JsonValue[],
  source: string,
  details: {
    readonly serverId: string;
    readonly version: number;
    readonly notice: string | null;
    readonly instructions: string | null;
    /** Whether annotated parameters are mirrored in headers. */
    readonly mirrorsHeaders: boolean;
    readonly engine: SchemaEngine;
    readonly strikes: SchemaStrikes;
    readonly onWarning: (warning: ToolWarning) => void;
  },
): Promise<CompiledToolList> {
  const tools = new Map<string, CheckedTool>();
  const dropped: DroppedTool[] = [];
  let lastYield = performance.now();
  for (const entry of listed) {
    if (performance.now() - lastYield > YIELD_MS) {
      await setImmediate();
      lastYield = performance.now();
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

/** OpenAPI's `nullable` becomes a list with null, and some servers write `any`. */
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
  /** Called once for a tool whose arguments or results are not validated. */
  unchecked(message: string): void;
}

/** Validates arguments and results of one server's tools against their schemas. */
export class ToolChecks {
  readonly #deps: ToolChecksDeps;
  /** Tools that were reported as unchecked. */
  readonly #reported = new Set<string>();

  constructor(deps: ToolChecksDeps) {
    this.#deps = deps;
  }

  /** @throws McpError if the server has no such usable tool */
  find(toolName: string, { list, tools }: CompiledToolList): CheckedTool {
    const found = tools.get(toolName);
    if (found !== undefined) return found;
    const dropped = list.dropped.find(({ name }) => name === toolName);
    if (dropped !== undefined) throw new McpSchemaError(list.serverId, toolName, `cannot be used: ${dropped.detail}`);
    throw new McpArgumentsError(list.serverId, toolName, `server "${list.serverId}" has no tool "${toolName}"`);
  }

  /**
   * Validates arguments: synchronously for a cheap schema and small arguments. Arguments that cannot be validated are sent
   * unless the record is strict. @throws McpError if the arguments are refused
   */
  arguments(found: CheckedTool, args: JsonObject): undefined | Promise<void> {
    const checked = found.input.check(args);
    if (checked instanceof Promise) return checked.then((verdict) => this.#judge(found, verdict));
    this.#judge(found, checked);
    return undefined;
  }

  /** Schema violation of a result; null: none, or not validated. */
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
    this.#reportUnchecked(tool.name, 'arguments', verdict.unchecked);
  }

  #problem(name: string, verdict: ValidationResult): string | null {
    if (verdict === null) return null;
    if ('problem' in verdict) return verdict.problem;
    this.#reportUnchecked(name, 'results', verdict.unchecked);
    return null;
  }

  #reportUnchecked(name: string, what: 'arguments' | 'results', why: string): void {
    const key = `${what} ${name}`;
    if (this.#reported.has(key)) return;
    this.#reported.add(key);
    this.#deps.unchecked(`the ${what} of tool "${name}" are not validated: ${why}`);
  }
}
