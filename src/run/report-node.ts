import { hostname } from 'node:os';
import type { McpPool } from '../agent/mcp/client/pool.ts';
import type { ToolList } from '../agent/mcp/client/tool-list.ts';
import { hashDefinition } from '../agent/policy/definition-hash.ts';
import { version } from '../base/version.ts';
import type { RegistryStatus } from '../registry-client/kind-cache.ts';
import { NodeReporter, type ProcessLoad } from '../registry-client/node-report.ts';
import { type ToolListReport, toolListReport } from '../registry-client/tool-list-report.ts';
import type { RunRegistry } from './open-registry.ts';

/** Letters that a registry takes. */
const MAX_HOST_CHARS = 64;

/** Tells the registry what this node sees of the servers, while it is open. Null: that registry is told nothing. */
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
        toolLists: listed.told,
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

/** Which machine, and what on it. */
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
