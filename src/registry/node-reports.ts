import { Listeners } from '../base/listeners.ts';
import type { NodeReport, ServerReport, ToolListReport, ToolReport } from '../registry-client/node-report.ts';
import { ALL_NAMESPACES } from '../server/records/permissions.ts';

export interface NodeReportLimits {
  /** A node that says nothing for longer is forgotten. @default 60 s */
  readonly expiresAfterMs: number;
  /** Machines. @default 1,000 */
  readonly maxNodes: number;
  /** Processes of one machine; the report of the one that is silent for longest makes room. @default 100 */
  readonly maxProcesses: number;
  /** Servers in all reports together. @default 100,000 */
  readonly maxEntries: number;
  /** Tools in all lists together; lists beyond that are not kept. @default 250,000 */
  readonly maxTools: number;
}

export const defaultReportLimits: NodeReportLimits = Object.freeze({
  expiresAfterMs: 60_000,
  maxNodes: 1_000,
  maxProcesses: 100,
  maxEntries: 100_000,
  maxTools: 250_000,
});

export interface NodeView extends NodeReport {
  /** That of its token, or `*`. */
  readonly namespace: string;
  readonly ageMs: number;
}

export interface ServerView extends ServerReport {
  readonly nodeId: string;
  readonly snapshotRevision: number;
  readonly ageMs: number;
}

/** There is no room for the report. */
export class ReportRefused extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'ReportRefused';
  }
}

/** Every process on a machine reports by itself, as `MACHINE:PROCESS`; a node is the machine. */
export function machineOf(nodeId: string): string {
  return nodeId.split(':', 1)[0] ?? nodeId;
}

/** The last report of each process, in memory alone: after a restart they soon say it again. */
export class NodeReports {
  readonly limits: NodeReportLimits;
  readonly #now: () => number;
  /** By namespace and node id, oldest first: a node of one namespace cannot replace the report of another's. */
  readonly #reports = new Map<
    string,
    { readonly report: NodeReport; readonly namespace: string; readonly atMs: number }
  >();
  /** The processes of each machine, those that were silent for longest first. */
  readonly #machines = new Map<string, Set<string>>();
  readonly #toolLists: ToolLists;
  readonly #changed = new Listeners<null>();
  #entries = 0;

  constructor(limits: NodeReportLimits = defaultReportLimits, now: () => number = () => performance.now()) {
    this.limits = limits;
    this.#now = now;
    this.#toolLists = new ToolLists(limits.maxTools);
  }

  /** `reporter`: the namespace of the node's token. Gives the lists of tools that it names and that are missing here. */
  accept(report: NodeReport, reporter: string = ALL_NAMESPACES): readonly string[] {
    this.#forgetExpired();
    const nodeId = `${reporter} ${report.nodeId}`;
    const processes = this.#machines.get(machineOf(nodeId)) ?? new Set();
    if (processes.size === 0 && this.#machines.size >= this.limits.maxNodes) {
      throw new ReportRefused(`${this.limits.maxNodes} nodes already report to this registry, the maximum`);
    }
    const [silent] = processes;
    const leaving = processes.has(nodeId) || processes.size < this.limits.maxProcesses ? nodeId : (silent ?? nodeId);
    const entries = this.#entries - (this.#reports.get(leaving)?.report.servers.length ?? 0) + report.servers.length;
    if (entries > this.limits.maxEntries) {
      throw new ReportRefused(`the node reports together have more than ${this.limits.maxEntries} server entries`);
    }
    // Before the one that leaves: most of its lists are those of the new one.
    this.#toolLists.use(report);
    this.#forget(leaving);
    this.#entries += report.servers.length;
    const { toolLists: _, ...kept } = report;
    this.#reports.set(nodeId, { report: kept, namespace: reporter, atMs: this.#now() });
    this.#machines.set(machineOf(nodeId), processes.add(nodeId));
    this.#changed.notify(null);
    return this.#toolLists.missing(report);
  }

  /** Called after every report. Returns the way to stop it. */
  onReport(listener: () => void): () => void {
    return this.#changed.add(listener);
  }

  /** Machines with a process that reported lately. */
  get count(): number {
    this.#forgetExpired();
    return this.#machines.size;
  }

  /** Processes that reported lately. */
  get processCount(): number {
    this.#forgetExpired();
    return this.#reports.size;
  }

  /** Ordered by id. */
  nodes(): NodeView[] {
    this.#forgetExpired();
    const now = this.#now();
    const views = [...this.#reports.values()].map(({ report, namespace, atMs }) => ({
      ...report,
      namespace,
      ageMs: Math.max(0, now - atMs),
    }));
    return views.sort((a, b) => (a.nodeId < b.nodeId ? -1 : 1));
  }

  /** What all nodes say of each server that one of them has used. */
  byServer(): ReadonlyMap<string, readonly ServerView[]> {
    const servers = new Map<string, ServerView[]>();
    for (const { nodeId, snapshotRevision, ageMs, servers: reported } of this.nodes()) {
      for (const server of reported) {
        const views = servers.get(server.serverId) ?? [];
        views.push({ ...server, nodeId, snapshotRevision, ageMs });
        servers.set(server.serverId, views);
      }
    }
    return servers;
  }

  ofServer(serverId: string): readonly ServerView[] {
    return this.nodes().flatMap(({ nodeId, snapshotRevision, ageMs, servers }) => {
      const server = servers.find((candidate) => candidate.serverId === serverId);
      return server === undefined ? [] : [{ ...server, nodeId, snapshotRevision, ageMs }];
    });
  }

  /** The tools that a server gave to the process of this view; null: not known. */
  toolsOf({ toolsHash }: Pick<ServerReport, 'toolsHash'>): readonly ToolReport[] | null {
    return this.#toolLists.get(toolsHash);
  }

  #forgetExpired(): void {
    const oldest = this.#now() - this.limits.expiresAfterMs;
    for (const [nodeId, { atMs }] of this.#reports) {
      if (atMs >= oldest) return;
      this.#forget(nodeId);
    }
  }

  #forget(nodeId: string): void {
    const known = this.#reports.get(nodeId);
    if (known === undefined) return;
    this.#reports.delete(nodeId);
    this.#entries -= known.report.servers.length;
    this.#toolLists.leave(known.report);
    const processes = this.#machines.get(machineOf(nodeId));
    processes?.delete(nodeId);
    if (processes?.size === 0) this.#machines.delete(machineOf(nodeId));
  }
}

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
