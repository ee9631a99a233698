import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { ToolEvents } from '../../../src/agent/mcp/tool-events.ts';
import { openMcp } from '../../../src/run/open-mcp.ts';
import { noAudit } from '../../../src/server/audit/event.ts';
import type { McpSide } from '../../support/chat-host.ts';
import { type Ending, type Lane, openLanes } from '../hostcalls/lanes.ts';
import { type Effort, Failures, type Finding, type Topic } from '../topic.ts';

/** Calls that one guest makes before the next one comes. */
const CALLS_PER_GUEST = 500;
/** One guest in so many has MCP: those wait for a real server now and then. */
const MCP_ONE_IN = 3;
/** Of the calls of a lane, each ending it can have has at least one in so many: else the calls were not worth much. */
const RARE = 20;

const tinyServer = fileURLToPath(new URL('../../../fixtures/mcp-servers/tiny.mjs', import.meta.url));

export const topic: Topic = async (effort) => {
  const stateDir = mkdtempSync(join(tmpdir(), 'spear-torture-'));
  const servers = [
    { name: 'tiny', transport: { kind: 'stdio', command: process.execPath, args: [tinyServer] } as const },
  ];
  const config = { 'mcp.enabled': true, 'mcp.default_server_ids': ['tiny'] };
  const mcp = await openMcp({ task: { name: 'torture', config }, servers, stateDir });
  const side = (): McpSide => {
    const about = { audit: noAudit, events: new ToolEvents() };
    const of = mcp.forRun({
      ...about,
      run: 'torture',
      approve: null,
      elicit: null,
      decidedBy: '',
      approvalTimeoutMs: 1_000,
    });
    return { ...about, guest: of.guest };
  };
  const tortures = (await openLanes()).map((lane) => new LaneTorture(lane, effort, side));
  // The one that is furthest behind: when the time is up, all lanes have had their share.
  const next = () => tortures.filter(({ done }) => done < 1).sort((a, b) => a.done - b.done)[0];
  for (let lane = next(); lane !== undefined && !effort.isOver(); lane = next()) await lane.step();
  await mcp.close();
  rmSync(stateDir, { recursive: true, force: true });
  return tortures.map((lane) => lane.finding());
};

class LaneTorture {
  readonly #lane: Lane;
  readonly #effort: Effort;
  readonly #side: () => McpSide;
  readonly #goal: number;
  readonly #failures = new Failures();
  readonly #endings: Record<Ending, number> = { ok: 0, errno: 0, trap: 0 };
  #count = 0;
  #ms = 0;

  constructor(lane: Lane, effort: Effort, side: () => McpSide) {
    this.#lane = lane;
    this.#effort = effort;
    this.#side = side;
    this.#goal = effort.of(...lane.calls);
  }

  /** The share of its calls that were made. */
  get done(): number {
    return this.#count / this.#goal;
  }

  /** The calls of one guest. */
  async step(): Promise<void> {
    const { random } = this.#effort;
    const seed = random.seed();
    const withMcp = random.chance(MCP_ONE_IN);
    const calls = Math.min(CALLS_PER_GUEST, this.#goal - this.#count);
    const started = performance.now();
    try {
      await this.#lane.run(seed | 0, calls, withMcp ? this.#side : undefined, (ending) => this.#endings[ending]++);
    } catch (error) {
      this.#failures.add(`guest ${seed}${withMcp ? ' with MCP' : ''}: ${told(error)}`);
    }
    this.#ms += performance.now() - started;
    this.#count += calls;
    this.#effort.progress(this.#count, this.#goal);
  }

  finding(): Finding {
    const failures = this.#failures;
    const count = this.#count;
    const possible: readonly Ending[] = this.#lane.traps ? ['ok', 'errno', 'trap'] : ['ok', 'errno'];
    for (const ending of possible) {
      const times = this.#endings[ending];
      if (times < count / RARE) failures.add(`only ${times} of ${count} calls ended with ${ending}`);
    }
    const { ok, errno, trap } = this.#endings;
    const perSecond = Math.round(count / (this.#ms / 1000));
    const measured = `${ok} ok, ${errno} errnos, ${trap} traps; ${perSecond} a second`;
    return { what: this.#lane.what, count, lost: 0, crashed: 0, measured, failures: failures.list() };
  }
}

function told(error: unknown): string {
  const { message, cause } = error as Error;
  return cause === undefined ? message : `${message}: ${(cause as Error)?.stack ?? String(cause)}`;
}
