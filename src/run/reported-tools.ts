import type { ToolList } from '../agent/mcp/client/tool-list.ts';
import { hashDefinition } from '../agent/policy/definition-hash.ts';
import { type ToolListReport, toolListReport } from '../registry-client/tool-list-report.ts';

/** Definitions that are hashed for one report: the host's thread has other things to do. The rest follows in the next. */
const MAX_HASHED = 2_000;
/** Tools that one report tells of. */
const MAX_TOLD = 10_000;

/** What the registry is told of the tools that servers listed: each list once, and again where the registry asks. */
export class ReportedTools {
  readonly #made = new WeakMap<ToolList, ToolListReport>();
  readonly #told = new Set<string>();

  /** Of these lists, those to be told now; `hashes` names the list of each server. */
  collect(lists: readonly ToolList[]): {
    readonly hashes: ReadonlyMap<string, string>;
    readonly told: readonly ToolListReport[];
    /** Not everything had a place. */
    readonly hasMore: boolean;
  } {
    const hashes = new Map<string, string>();
    const told = new Map<string, ToolListReport>();
    let hasMore = false;
    let hashed = 0;
    let tools = 0;
    for (const list of lists) {
      if (!this.#made.has(list) && hashed > 0 && hashed + list.tools.length > MAX_HASHED) {
        hasMore = true;
        continue;
      }
      if (!this.#made.has(list)) hashed += list.tools.length;
      const report = this.#reportOf(list);
      hashes.set(list.serverId, report.hash);
      if (this.#told.has(report.hash) || told.has(report.hash)) continue;
      if (tools > 0 && tools + report.tools.length > MAX_TOLD) {
        hasMore = true;
        continue;
      }
      tools += report.tools.length;
      told.set(report.hash, report);
    }
    return { hashes, told: [...told.values()], hasMore };
  }

  /** The registry has these now, and misses those. */
  answered(told: readonly ToolListReport[], wanted: readonly string[]): void {
    for (const { hash } of told) this.#told.add(hash);
    for (const hash of wanted) this.#told.delete(hash);
  }

  #reportOf(list: ToolList): ToolListReport {
    const known = this.#made.get(list);
    if (known !== undefined) return known;
    const made = toolListReport(
      list.tools.map((tool) => ({ name: tool.name, definitionSha256: hashDefinition(tool) })),
    );
    this.#made.set(list, made);
    return made;
  }
}
