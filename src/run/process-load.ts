import type { McpPool } from '../agent/mcp/client/pool.ts';
import type { ProcessLoad } from '../registry-client/node-report.ts';

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
