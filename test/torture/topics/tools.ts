import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { hasEnded, type RunRecord } from '../../../src/server/records/run.ts';
import { NodeLives } from '../node/node-life.ts';
import { startTellingModel } from '../tools/telling-model.ts';
import { honest, type TroubleServer, troubleServers } from '../tools/trouble-servers.ts';
import { type Effort, Failures, type Finding, type Topic } from '../topic.ts';

const guest = fileURLToPath(new URL('../../../fixtures/c/files.wasm', import.meta.url));
const RUNS = '/v1/namespaces/default';
/** Runs in flight at one time. */
const LANES = 64;
const LOOK_MS = 50;
/** Tasks that require their bad server have this name before it. */
const REQUIRED = 'required-';

/** Runs on a node whose servers hang, crash, are denied or sandboxed away: each has its tools or a mark. */
export const topic: Topic = async (effort) => {
  const folder = mkdtempSync(join(tmpdir(), 'spear-tools-'));
  const model = await startTellingModel();
  const servers = troubleServers(!effort.short);
  writeFolder(folder, servers, model.url);
  const node = new NodeLives(folder, ['--slots', String(LANES)]);
  try {
    await node.start();
    const runs = await runAll(node, servers, effort);
    return [findingOf(runs, node)];
  } finally {
    await node.stop();
    model.close();
    rmSync(folder, { recursive: true, force: true });
  }
};

interface Toll {
  readonly failures: Failures;
  ended: number;
  degraded: number;
  refused: number;
  whole: number;
}

async function runAll(node: NodeLives, servers: readonly TroubleServer[], effort: Effort): Promise<Toll> {
  const toll: Toll = { failures: new Failures(), ended: 0, degraded: 0, refused: 0, whole: 0 };
  const wanted = effort.of(3 * servers.length, 10_000);
  let begun = 0;
  const lane = async () => {
    while (begun < wanted && !effort.isOver()) {
      // Every server once, once more as a required one, and from then on by chance.
      const round = Math.floor(begun / servers.length);
      const at = round < 2 ? begun % servers.length : effort.random.below(servers.length);
      const server = servers[at] as TroubleServer;
      const isRequired = round === 1 || (round > 1 && effort.random.chance(10));
      begun += 1;
      await check(node, server, isRequired, toll);
      effort.progress(toll.ended, wanted);
    }
  };
  await Promise.all(Array.from({ length: Math.min(LANES, wanted) }, lane));
  return toll;
}

async function check(node: NodeLives, server: TroubleServer, isRequired: boolean, toll: Toll): Promise<void> {
  const task = `${isRequired ? REQUIRED : ''}${taskOf(server)}`;
  const { status, text } = await node.ask('POST', `${RUNS}/tasks/${task}/runs`, { body: '' });
  if (status !== 202) return toll.failures.add(`${task}: the node answered ${status} ${text}`);
  const run = await ended(node, (JSON.parse(text) as RunRecord).id);
  toll.ended += 1;
  const wrong = problemOf(server, isRequired, run, await resultOf(node, run));
  if (wrong !== null) toll.failures.add(`${task}: ${wrong}: ${JSON.stringify(run)}`);
  if (run.exit?.reason === 'required_server') toll.refused += 1;
  else if (run.degraded?.length) toll.degraded += 1;
  else toll.whole += 1;
}

/** What is wrong with a run that ended; null: it had its tools, or says that it had not. */
function problemOf(server: TroubleServer, isRequired: boolean, run: RunRecord, result: string): string | null {
  const isMarked = (run.degraded ?? []).some(({ server: id }) => id === server.id);
  if ((run.degraded ?? []).some(({ server: id }) => id === honest.id)) return 'the honest server is marked';
  if (isRequired && run.exit?.reason === 'required_server') {
    return isMarked && server.tools !== 'always' ? null : 'refused without a mark';
  }
  if (isRequired && server.tools === 'never') return 'it ran without a required server';
  if (run.status !== 'succeeded') return 'it failed';
  const has = (id: string) => result.includes(` ${id}_`);
  if (!has(honest.id)) return 'it did not have the tools of the honest server';
  if (has(server.id) && server.tools === 'never') return 'it had tools of a server that cannot have any';
  if (!has(server.id) && !isMarked) return 'no tools and no mark';
  return has(server.id) && isMarked ? 'it had its tools, and a mark' : null;
}

async function ended(node: NodeLives, id: string): Promise<RunRecord> {
  for (;;) {
    const run = JSON.parse((await node.ask('GET', `${RUNS}/runs/${id}`)).text) as RunRecord;
    if (hasEnded(run.status)) return run;
    await delay(LOOK_MS);
  }
}

async function resultOf(node: NodeLives, { id, status }: RunRecord): Promise<string> {
  return status === 'succeeded' ? (await node.ask('GET', `${RUNS}/runs/${id}/result`)).text : '';
}

function findingOf({ ended: count, degraded, refused, whole, failures }: Toll, node: NodeLives): Finding {
  return {
    what: 'runs with servers that hang, crash, are denied or sandboxed away',
    count,
    lost: failures.count,
    crashed: node.crashed,
    measured: `${degraded} degraded, ${refused} refused for a required server, ${whole} with all tools`,
    failures: failures.list(),
  };
}

const taskOf = ({ id }: TroubleServer) => id.replaceAll('_', '-');

function writeFolder(folder: string, servers: readonly TroubleServer[], model: string): void {
  const [tasks, records] = [join(folder, 'tasks.d'), join(folder, 'mcp.d')];
  mkdirSync(tasks);
  mkdirSync(records);
  const backend = `[backends.main]\nkind = "openai"\nmodel = "m"\nbase_url = "${model}"`;
  const node = '[node]\nmax_queued = 100000\nruns_per_caller = 1000';
  writeFileSync(join(folder, 'config.toml'), `${backend}\n\n[mcp]\nstdio = "allow"\n\n${node}\n`);
  for (const { id, fields } of [honest, ...servers]) {
    if (fields !== null) writeFileSync(join(records, `${id}.json`), JSON.stringify({ server_id: id, ...fields }));
  }
  for (const server of servers) {
    const ids = JSON.stringify([honest.id, server.id]);
    const lines = (name: string, ...more: readonly string[]) =>
      [
        `name = "${name}"`,
        `wasm = ${JSON.stringify(guest)}`,
        'isolation = "shared"',
        `concurrency = ${LANES}`,
        '[config]',
        '"mcp.enabled" = true',
        `"mcp.default_server_ids" = ${ids}`,
        ...more,
      ].join('\n');
    const name = taskOf(server);
    writeFileSync(join(tasks, `${name}.toml`), lines(name));
    const required = `"mcp.required_server_ids" = ["${server.id}"]`;
    writeFileSync(join(tasks, `${REQUIRED}${name}.toml`), lines(`${REQUIRED}${name}`, required));
  }
}
