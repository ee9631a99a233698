import type { NodeReport, ServerReport } from '../registry/node-report.ts';

export interface NodeReportLimits {
  /** A node that says nothing for longer is forgotten. @default 60 s */
  readonly expiresAfterMs: number;
  /** @default 1,000 */
  readonly maxNodes: number;
  /** Servers in all reports together. @default 100,000 */
  readonly maxEntries: number;
}

export const defaultReportLimits: NodeReportLimits = Object.freeze({
  expiresAfterMs: 60_000,
  maxNodes: 1_000,
  maxEntries: 100_000,
});

export interface NodeView extends NodeReport {
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

/** The last report of each node, in memory alone: after a restart the nodes soon say it again. */
export class NodeReports {
  readonly limits: NodeReportLimits;
  readonly #now: () => number;
  /** Oldest first. */
  readonly #reports = new Map<string, { readonly report: NodeReport; readonly atMs: number }>();
  #entries = 0;

  constructor(limits: NodeReportLimits = defaultReportLimits, now: () => number = () => performance.now()) {
    this.limits = limits;
    this.#now = now;
  }

  accept(report: NodeReport): void {
    this.#forgetExpired();
    const before = this.#reports.get(report.nodeId);
    const entries = this.#entries - (before?.report.servers.length ?? 0) + report.servers.length;
    if (before === undefined && this.#reports.size >= this.limits.maxNodes) {
      throw new ReportRefused(`${this.limits.maxNodes} nodes report already; more are not kept`);
    }
    if (entries > this.limits.maxEntries) {
      throw new ReportRefused(`the reports of all nodes name more than ${this.limits.maxEntries} servers`);
    }
    this.#entries = entries;
    this.#reports.delete(report.nodeId);
    this.#reports.set(report.nodeId, { report, atMs: this.#now() });
  }

  get count(): number {
    this.#forgetExpired();
    return this.#reports.size;
  }

  /** Ordered by id. */
  nodes(): NodeView[] {
    this.#forgetExpired();
    const now = this.#now();
    const views = [...this.#reports.values()].map(({ report, atMs }) => ({
      ...report,
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

  #forgetExpired(): void {
    const oldest = this.#now() - this.limits.expiresAfterMs;
    for (const [nodeId, { report, atMs }] of this.#reports) {
      if (atMs >= oldest) return;
      this.#reports.delete(nodeId);
      this.#entries -= report.servers.length;
    }
  }
}
