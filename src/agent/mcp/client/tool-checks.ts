import type { JsonObject } from '../../../base/json.ts';
import type { McpServerRecord } from '../../../server/records/record.ts';
import { McpArgumentsError, McpSchemaError } from './errors.ts';
import type { Verdict } from './schema/checks.ts';
import type { CheckedTool, CompiledToolList } from './tool-list.ts';

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

  #judge({ tool }: CheckedTool, verdict: Verdict): void {
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

  #problem(name: string, verdict: Verdict): string | null {
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
