import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { RegistryCache } from '../../../src/registry-client/cache.ts';
import { systemEnvironment } from '../../../src/registry-client/lifetime.ts';
import { createRemoteSource, type RemoteSource } from '../../../src/registry-client/remote-source.ts';
import { type Effort, Failures, type Finding } from '../topic.ts';
import { Scene } from './scene.ts';
import { connectTo } from './sms-client.ts';

const SECOND_MS = 1_000;
const DAY_MS = 86_400_000;
const YEAR_MS = 365 * DAY_MS;
/** Where a machine begins that has lost its clock. */
const TO_1970_MS = DAY_MS - Date.now();
const shifts = [TO_1970_MS, -YEAR_MS, -DAY_MS, -90 * SECOND_MS, -3, 0, 2, 90 * SECOND_MS, DAY_MS, 30 * YEAR_MS];
/** The clock that a step sets is looked at within this time. */
const STEP_SEEN_MS = 2_000;
/** A node that nothing confirms its snapshot to for longer refuses MCP, whatever its clock says. */
const MAX_STALENESS_MS = 700;
const NODE_DEADLINE_MS = 10_000;
const ONE_SILENCE_IN = 4;

const preload = new URL('./shifted-clock.ts', import.meta.url);

/** The clocks of the registry and of a node are set forward and back, each by itself, under writes. */
export async function clockSteps(effort: Effort): Promise<Finding> {
  const all = effort.of(3, 80);
  const { random } = effort;
  const failures = new Failures();
  const clock = join(mkdtempSync(join(tmpdir(), 'spear-torture-clock-')), 'shift');
  writeFileSync(clock, '0');
  const env = { TORTURE_CLOCK: clock, NODE_OPTIONS: `--import ${pathToFileURL(preload.pathname)}` };
  const scene = await Scene.open({ failures, env });
  const node = new NodeWithClock(scene);
  let count = 0;
  try {
    await node.reports();
    for (; count < all && !effort.isOver(); count++) {
      const when = `clock step ${count + 1}`;
      const shiftMs = random.pick(shifts);
      const writers = scene.writers(random.seed());
      await writers.acknowledged(1 + random.below(10));
      writeFileSync(clock, String(shiftMs));
      node.shiftMs = random.pick(shifts);
      if (random.chance(ONE_SILENCE_IN)) await silence(scene, node, () => random.pick(shifts), when);
      await writers.acknowledged(20);
      await writers.stop();
      await scene.check(when);
      await isSeen(scene, shiftMs, when);
      if (!(await node.isReady())) failures.add(`${when}: the node is ${node.state} although the registry serves`);
      if (!(await node.isKnown())) failures.add(`${when}: the registry forgot a node that reported lately`);
      effort.progress(count, all);
    }
    await scene.lives.kill();
    scene.trail.afterKill([], 'after the clock steps');
  } catch (error) {
    failures.add(`after ${count}: ${error}`);
  } finally {
    await node.close();
    await scene.close();
    rmSync(join(clock, '..'), { recursive: true, force: true });
  }
  const { ledger, lives } = scene;
  const measured = `${ledger.acknowledgedWrites} acknowledged writes`;
  const lost = ledger.lost + scene.wrongAtWatchers;
  return { what: 'steps of the clocks', count, lost, crashed: lives.crashed, measured, failures: failures.list() };
}

/** The registry says nothing for longer than the node may believe it, and the node's clock is set meanwhile. */
async function silence(scene: Scene, node: NodeWithClock, shift: () => number, when: string): Promise<void> {
  scene.lives.signal('SIGSTOP');
  for (let step = 0; step < 3; step++) {
    node.shiftMs = shift();
    await new Promise((resolve) => setTimeout(resolve, MAX_STALENESS_MS / 2));
  }
  // What was on its way when the process stood still may have confirmed the snapshot once more; not half a second later.
  if (!node.isStale) scene.failures.add(`${when}: the node still believes a registry that is silent`);
  scene.lives.signal('SIGCONT');
}

/** Proves that the clock was set at all: what is written now carries that time. */
async function isSeen(scene: Scene, shiftMs: number, when: string): Promise<void> {
  const client = connectTo(scene.lives.addresses, scene.token('admin'));
  const deadline = performance.now() + STEP_SEEN_MS;
  let off = 0;
  let number = 0;
  do {
    const id = 'clock';
    const value = `${when}/${++number}`;
    const attempt = scene.ledger.begin([id], value);
    const json = { server_id: id, display_name: value, transport: 'stdio', stdio: { command: 'x' } };
    const { status, text } = await client.http('PUT', `/admin/api/mcp/servers/${id}`, json);
    if (status >= 400) break;
    const { mod_revision: revision, updated_at_ms: at } = JSON.parse(text) as {
      mod_revision: number;
      updated_at_ms: number;
    };
    attempt.acknowledged(revision);
    off = Math.abs(at - Date.now() - shiftMs);
  } while (off > STEP_SEEN_MS && performance.now() < deadline);
  client.close();
  if (off > STEP_SEEN_MS) scene.failures.add(`${when}: the registry writes a time that is off by ${off} ms`);
}

/** A node's copy of the registry, in this process, with a clock of its own. */
class NodeWithClock {
  readonly #scene: Scene;
  readonly #source: RemoteSource;
  readonly #cache: RegistryCache;
  shiftMs = 0;

  constructor(scene: Scene) {
    this.#scene = scene;
    this.#source = createRemoteSource({ address: scene.lives.addresses.grpc, token: scene.token('node') });
    this.#cache = new RegistryCache({
      source: this.#source,
      maxStalenessMs: MAX_STALENESS_MS,
      timing: { backoff: { firstMs: 20, maxMs: 200 } },
      environment: { ...systemEnvironment, now: () => Date.now() + this.shiftMs },
    });
    this.#cache.start();
  }

  get isStale(): boolean {
    return this.#cache.view()?.stale ?? true;
  }

  get state(): string {
    return this.#cache.status().state;
  }

  async isReady(): Promise<boolean> {
    const deadline = performance.now() + NODE_DEADLINE_MS;
    while (this.state !== 'ready' && performance.now() < deadline)
      await new Promise((resolve) => setTimeout(resolve, 5));
    return this.state === 'ready';
  }

  async reports(): Promise<void> {
    const report = { nodeId: 'torture', registryState: 'ready', epoch: '', snapshotRevision: 0, servers: [] } as const;
    await this.#source.report(report, AbortSignal.timeout(NODE_DEADLINE_MS));
  }

  /** And reports again, so that only a clock that was set can make the registry forget it. */
  async isKnown(): Promise<boolean> {
    const client = connectTo(this.#scene.lives.addresses, this.#scene.token('admin'));
    const { text } = await client.http('GET', '/admin/api/mcp/nodes');
    client.close();
    await this.reports();
    return (JSON.parse(text) as { nodes: unknown[] }).nodes.length === 1;
  }

  async close(): Promise<void> {
    await this.#cache.close();
    this.#source.close();
  }
}
