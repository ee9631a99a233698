import type { NodeReport } from '../registry-client/node-report.ts';
import type { ToolListReport, ToolReport } from '../registry-client/tool-list-report.ts';

/** The lists of tools that reports name, each kept once for as long as one of them does. */
export class ToolLists {
  readonly #maxTools: number;
  readonly #lists = new Map<string, readonly ToolReport[]>();
  readonly #uses = new Map<string, number>();
  #tools = 0;

  constructor(maxTools: number) {
    this.#maxTools = maxTools;
  }

  /** Null: it was not told, or had no place. */
  get(hash: string | undefined): readonly ToolReport[] | null {
    return hash === undefined ? null : (this.#lists.get(hash) ?? null);
  }

  /** A report is kept from now on. */
  use({ servers, toolLists = [] }: NodeReport): void {
    for (const { toolsHash } of servers) {
      if (toolsHash !== undefined) this.#uses.set(toolsHash, (this.#uses.get(toolsHash) ?? 0) + 1);
    }
    for (const list of toolLists) this.#keep(list);
  }

  /** It is kept no more. */
  leave({ servers }: NodeReport): void {
    for (const { toolsHash } of servers) {
      if (toolsHash === undefined) continue;
      const left = (this.#uses.get(toolsHash) ?? 1) - 1;
      if (left > 0) this.#uses.set(toolsHash, left);
      else this.#forget(toolsHash);
    }
  }

  /** What a report names and is not here, as far as there would be a place for it. */
  missing({ servers }: NodeReport): string[] {
    let places = this.#maxTools - this.#tools;
    const missing = new Set<string>();
    for (const { toolsHash, toolCount } of servers) {
      if (toolsHash === undefined || this.#lists.has(toolsHash) || missing.has(toolsHash)) continue;
      places -= toolCount ?? 0;
      if (places < 0) break;
      missing.add(toolsHash);
    }
    return [...missing];
  }

  #keep({ hash, tools }: ToolListReport): void {
    if (!this.#uses.has(hash) || this.#lists.has(hash) || this.#tools + tools.length > this.#maxTools) return;
    this.#lists.set(hash, tools);
    this.#tools += tools.length;
  }

  #forget(hash: string): void {
    this.#uses.delete(hash);
    this.#tools -= this.#lists.get(hash)?.length ?? 0;
    this.#lists.delete(hash);
  }
}
