import { hostname } from 'node:os';
import type { McpPool } from '../agent/mcp/client/pool.ts';
import type { ToolList } from '../agent/mcp/client/tool-list.ts';
import { hashDefinition } from '../agent/policy/definition-hash.ts';
import { version } from '../base/version.ts';
import type { RegistryStatus } from '../registry-client/kind-cache.ts';
import { NodeReporter, type ProcessLoad, type ToolListReport, toolListReport } from '../registry-client/node-report.ts';
import type { RunRegistry } from './open-registry.ts';

/** Maximum length of the host name in a node id. */
const MAX_HOST_CHARS = 64;

/** Reports the state of the servers to the registry until it is closed. Null: the registry takes no reports. */
export function reportNode(
  { cache, reports }: RunRegistry,
  pool: McpPool,
  id: string,
  onFailure: (error: Error) => void,
): Pick<NodeReporter, 'changed' | 'close'> | null {
  if (reports === null) return null;
  const tools = new ReportedTools();
  const meter = new ProcessLoadMeter();
  let hasMore = false;
  const reporter = new NodeReporter({
    target: reports,
    answered: (report, { wantedToolLists = [] }) => {
      tools.answered(report.toolLists ?? [], wantedToolLists);
      return hasMore || wantedToolLists.length > 0;
    },
    onFailure: (error) => onFailure(error as Error),
    collect: () => {
      const status = cache.status();
      const listed = tools.collect(pool.listed());
      ({ hasMore } = listed);
      return {
        nodeId: nodeId(id),
        registryState: status.state,
        epoch: status.epoch ?? '',
        snapshotRevision: status.revision ?? 0,
        servers: pool.health().map(({ serverId, state, lastError, toolCount, reconnects, latencyMs }) => {
          const toolsHash = listed.hashes.get(serverId);
          return {
            serverId,
            health: state,
            lastError,
            toolCount,
            reconnects,
            ...(latencyMs === null ? {} : { latencyMs }),
            ...(toolsHash === undefined ? {} : { toolsHash }),
          };
        }),
        version,
        ...(cache.stops === null ? {} : confirmed(cache.stops.status())),
        load: meter.take(pool),
        toolLists: listed.reports,
      };
    },
  });
  reporter.start();
  const stops = [
    cache.onStatus(() => reporter.changed()),
    cache.onChange(() => reporter.changed()),
    cache.stops?.onChange(() => reporter.now()),
  ];
  return {
    changed: () => reporter.changed(),
    close: () => {
      for (const stop of stops) stop?.();
      return reporter.close();
    },
  };
}

const confirmed = ({ epoch, revision }: RegistryStatus) => ({ stopsEpoch: epoch ?? '', stopsRevision: revision ?? 0 });

/** Id of a node: host name and name. */
export const nodeId = (id: string) =>
  `${hostname()
    .replaceAll(/[^A-Za-z0-9._-]/g, '-')
    .slice(0, MAX_HOST_CHARS)}:${id}`;

/** Measures this process from one report to the next. */
export class ProcessLoadMeter {
  #cpu = process.cpuUsage();
  #atMs = performance.now();

  take(pool: McpPool): ProcessLoad {
    const now = performance.now();
    const { user, system } = process.cpuUsage(this.#cpu);
    const passedMs = Math.max(1, now - this.#atMs);
    this.#cpu = process.cpuUsage();
    this.#atMs = now;
    const { connected, subprocesses, callsInFlight, callsQueued } = pool.stats();
    return {
      connections: connected,
      subprocesses,
      callsInFlight,
      callsQueued,
      memoryBytes: process.memoryUsage.rss(),
      // Microseconds in milliseconds: thousandths.
      cpuPermille: Math.round((user + system) / passedMs),
      upMs: Math.round(process.uptime() * 1_000),
    };
  }
}

/** Maximum of definitions hashed per report, because hashing blocks the host thread. The rest follows in the next report. */
const MAX_HASHED = 2_000;
/** Maximum of tools per report. */
const MAX_REPORTED = 10_000;

/** Selects the tool lists for a report: each list once, and again if the registry requests it. */
export class ReportedTools {
  readonly #made = new WeakMap<ToolList, ToolListReport>();
  readonly #reported = new Set<string>();

  /** The lists to report now; `hashes` identifies the current list of each server. */
  collect(lists: readonly ToolList[]): {
    readonly hashes: ReadonlyMap<string, string>;
    readonly reports: readonly ToolListReport[];
    /** Some lists exceeded the limits of this report. */
    readonly hasMore: boolean;
  } {
    const hashes = new Map<string, string>();
    const reports = new Map<string, ToolListReport>();
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
      if (this.#reported.has(report.hash) || reports.has(report.hash)) continue;
      if (tools > 0 && tools + report.tools.length > MAX_REPORTED) {
        hasMore = true;
        continue;
      }
      tools += report.tools.length;
      reports.set(report.hash, report);
    }
    return { hashes, reports: [...reports.values()], hasMore };
  }

  /** The registry received `sent`, and requests `wanted`. */
  answered(sent: readonly ToolListReport[], wanted: readonly string[]): void {
    for (const { hash } of sent) this.#reported.add(hash);
    for (const hash of wanted) this.#reported.delete(hash);
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
