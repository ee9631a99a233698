// Many machines on one: three nats-servers, three etcds, two registries, three nodes. Two hundred runs of an agent are
// submitted; in the middle of them a node, a registry, a nats-server and an etcd are killed. Then what became of each
// run, and what the agents' tool saw of it. `--runs N` and `--members N` make it smaller: of one server of a kind, the one
// that was killed is started again.
import { cpSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { hasEnded, type RunRecord } from '../src/server/records/run.ts';
import { root, type Serving, Stage } from './demo-stage.ts';
import { bring } from './engines/bring.ts';
import { etcd as etcdEngine } from './engines/etcd.ts';
import { startEtcd } from './engines/etcd-cluster.ts';
import type { Cluster } from './engines/member.ts';
import { startNats } from './engines/nats-cluster.ts';
import { natsServer } from './engines/nats-server.ts';

const { values: flags } = parseArgs({
  options: { runs: { type: 'string', default: '200' }, members: { type: 'string', default: '3' } },
});
const [RUNS, MEMBERS] = [flags.runs, flags.members].map(Number) as [number, number];
const NODES = ['node-1', 'node-2', 'node-3'] as const;
const CALLS = ['a', 'b', 'c'];
/** Submissions under way at one time. */
const AT_ONCE = 8;
const ALL_RUNS_MS = 300_000;
const LOOK_MS = 200;
const ANSWER_MS = 10_000;
/** Cells of the picture in a line. */
const WIDTH = 50;

await Stage.open('cluster', async (stage) => {
  // Engines do not keep a process alive, and for some of the time nothing else would.
  const alive = setInterval(() => {}, 60_000);
  for (const engine of [natsServer, etcdEngine]) await bring(engine);
  const nats = await startNats({ members: MEMBERS });
  try {
    const etcd = await startEtcd({ members: MEMBERS });
    try {
      return await main(stage, nats, etcd);
    } finally {
      await etcd.stop();
    }
  } finally {
    await nats.stop();
    clearInterval(alive);
  }
});

async function main(stage: Stage, nats: Cluster, etcd: Cluster): Promise<number> {
  prepare(stage.workspace);
  stage.title(`${MEMBERS} nats-servers and as many etcds; two registries, three nodes`);
  const addresses = (cluster: Cluster) => cluster.members.map(({ address }) => address).join(',');
  const [, second] = [await registry(stage, 'sms-1', addresses(etcd)), await registry(stage, 'sms-2', addresses(etcd))];
  const sms = (side: 'grpc' | 'http') =>
    ['sms-1', 'sms-2'].map((name) => `unix:${stage.path(name, 'sockets', `${side}.sock`)}`).join(',');
  const env = { SPEAR_SMS: sms('http') };
  stage.spear(['servers', 'import', 'mcp.d/ledger.json', '--yes'], { env });
  stage.spear(['tasks', 'apply', 'tasks.d/agent.toml'], { env });
  stage.spear(['tokens', 'create', 'nodes', '--role', 'node', '--out', 'node.token'], { env });
  stage.spear(['tokens', 'create', 'ann', '--role', 'submitter', '--out', 'ann.token'], { env });
  stage.spear(['tokens', 'create', 'bob', '--role', 'approver', '--out', 'bob.token'], { env });
  const nodes = new Map<string, Serving>();
  for (const name of NODES) {
    const where = ['--data', name, '--listen', '127.0.0.1:0', '--config', `${name}.toml`];
    const from = ['--sms', sms('grpc'), '--sms-token-file', 'node.token', '--queue', `nats://${addresses(nats)}`];
    nodes.set(name, await stage.serve('spearlet', [...from, ...where]));
  }

  stage.title(`${RUNS} runs of an agent that calls its tool ${CALLS.length} times`);
  const ask = asking(nodes, readFileSync(stage.path('ann.token'), 'utf8').trim());
  const submitted = submitAll(ask);
  const blows: readonly [number, string, () => Promise<void>][] = [
    [0.15, 'node-1', async () => stage.end((nodes.get('node-1') as Serving).child, 'SIGKILL')],
    [0.3, 'sms-2', () => stage.end(second.child, 'SIGKILL')],
    [0.45, 'a nats-server', () => killFirst(nats)],
    [0.6, 'an etcd', () => killFirst(etcd)],
  ];
  for (const [share, what, blow] of blows) {
    await until(async () => (await endedRuns(ask)).length >= share * RUNS, `${share * RUNS} runs that ended`);
    const before = (await endedRuns(ask)).length;
    await blow();
    if (what === 'node-1') nodes.delete('node-1');
    stage.say(`kill -9 ${what}, when ${before} runs had ended`);
  }
  await submitted;
  const parked = await untilNobodyRuns(ask);
  if (parked.length > 0) {
    stage.title('Calls without a result after a kill: their outcome is unknown, so an approver decides');
    stage.spear(['approvals', 'ls'], { env });
    for (const request of parked) {
      const decision = ['--token-file', 'bob.token', '--reason', 'the call may have been made; do not repeat it'];
      stage.spear(['approvals', 'deny', request, ...decision], { env, quiet: true });
    }
    await untilNobodyRuns(ask, 'ended');
  }
  return tell(stage, await allRuns(ask));
}

/** The others go on; where there are none, it has to come back. */
async function killFirst({ members: [first, ...others] }: Cluster): Promise<void> {
  await first?.kill();
  if (others.length === 0) await first?.start();
}

/** The requests of runs that wait for somebody, once all others have ended. */
async function untilNobodyRuns(ask: Ask, wanted: 'ended' | 'ended or parked' = 'ended or parked'): Promise<string[]> {
  let parked: RunRecord[] = [];
  await until(async () => {
    const left = (await allRuns(ask)).filter(({ status }) => !hasEnded(status));
    parked = left.filter(({ status }) => status === 'parked');
    return left.length === (wanted === 'ended' ? 0 : parked.length);
  }, `all runs that ${wanted}`);
  return parked.flatMap(({ parked_for }) => (parked_for?.kind === 'approval' ? parked_for.request.split(' ') : []));
}

function registry(stage: Stage, name: string, members: string): Promise<Serving> {
  const where = ['--grpc', '127.0.0.1:0', '--http', '127.0.0.1:0', '--data', `${name}/registry.db`];
  return stage.serve('spear-sms', ['--store', `etcd://${members}`, ...where], { SMS_BLOB_DIR: stage.path('blobs') });
}

function prepare(workspace: string): void {
  for (const folder of ['sms-1', 'sms-2', 'blobs', 'mcp.d', 'tasks.d'])
    mkdirSync(join(workspace, folder), { mode: 0o700 });
  const file = (name: string, text: string) => writeFileSync(join(workspace, name), text);
  const record = {
    server_id: 'ledger',
    transport: 'stdio',
    stdio: {
      command: process.execPath,
      args: [join(root, 'fixtures', 'mcp-servers', 'ledger.mjs')],
      env: { TRAIL: join(workspace, 'ledger') },
    },
    allowed_tools: ['*'],
  };
  file('mcp.d/ledger.json', JSON.stringify(record));
  const call = (label: string) => ({ id: label, name: 'ledger_work', arguments: { label } });
  const turn = (when: object, reply: object) => ({ when, reply, repeat: true, delay_ms: 150 });
  const [first = '', ...others] = CALLS;
  const turns = [
    turn({ role: 'user' }, { tool_calls: [call(first)] }),
    turn({ tool_call_id: first }, { tool_calls: others.map(call) }),
    turn({ tool_call_id: others.at(-1) }, { content: 'all done' }),
  ];
  file('model.json', JSON.stringify({ turns }));
  for (const name of NODES) {
    const backend = '[backends.main]\nkind = "scripted"\nscript = "model.json"';
    file(
      `${name}.toml`,
      `${backend}\n\n[mcp]\nstdio = "allow"\n\n[node]\nname = "${name}"\nslots = 8\nlease_ms = 3000\n`,
    );
  }
  cpSync(join(root, 'fixtures', 'c', 'files.wasm'), join(workspace, 'tasks.d', 'agent.wasm'));
  const task = ['name = "agent"', 'wasm = "agent.wasm"', '[config]', '"mcp.enabled" = true'];
  file(
    'tasks.d/agent.toml',
    [...task, '"mcp.default_server_ids" = ["ledger"]', '[retry]', 'max_attempts = 10'].join('\n'),
  );
}

type Ask = (path: string, more?: RequestInit) => Promise<Response>;

/** Whichever node answers. */
function asking(nodes: ReadonlyMap<string, Serving>, token: string): Ask {
  return async (path, more = {}) => {
    for (;;) {
      for (const { says } of [...nodes.values()].reverse()) {
        const headers = { ...more.headers, authorization: `Bearer ${token}` };
        const options = { ...more, headers, signal: AbortSignal.timeout(ANSWER_MS) };
        const answer = await fetch(`${says.http}${path}`, options).catch(() => null);
        if (answer !== null && answer.status < 500) return answer;
      }
      await delay(LOOK_MS);
    }
  };
}

async function submitAll(ask: Ask): Promise<void> {
  let begun = 0;
  const lane = async () => {
    while (begun < RUNS) {
      // The key makes it the same run, however often it has to be sent.
      const headers = { 'idempotency-key': `demo-${begun++}` };
      const path = '/v1/namespaces/default/tasks/agent/runs';
      const { status } = await ask(path, { method: 'POST', body: 'work', headers });
      if (status !== 202) throw new Error(`a submission was answered ${status}`);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, lane));
}

async function allRuns(ask: Ask): Promise<readonly RunRecord[]> {
  const answer = await ask(`/v1/namespaces/default/runs?limit=${RUNS}`);
  return ((await answer.json()) as { runs: RunRecord[] }).runs;
}

async function endedRuns(ask: Ask): Promise<readonly RunRecord[]> {
  return (await allRuns(ask)).filter(({ status }) => hasEnded(status));
}

async function until(isSo: () => Promise<boolean>, what: string): Promise<void> {
  const last = performance.now() + ALL_RUNS_MS;
  while (!(await isSo())) {
    if (performance.now() > last) throw new Error(`there are not ${what} after ${ALL_RUNS_MS / 1000} s`);
    await delay(LOOK_MS);
  }
}

/** A cell for each run, in the order of their submission, and what the tool wrote down. */
function tell(stage: Stage, runs: readonly RunRecord[]): number {
  stage.title('Results');
  const inOrder = runs.toSorted((a, b) => a.submitted_at_ms - b.submitted_at_ms);
  const cells = inOrder.map(({ status, attempts }) => (status !== 'succeeded' ? '!' : attempts > 1 ? '↻' : '·'));
  for (let at = 0; at < cells.length; at += WIDTH) stage.say(cells.slice(at, at + WIDTH).join(''));
  stage.say('· first attempt   ↻ resumed on another node from its journal   ! failed');
  const resumed = runs.filter(({ attempts }) => attempts > 1);
  for (const { id, attempts, node } of resumed) stage.say(`${id}: ${attempts} attempts, ended on ${node}`);
  const good = runs.filter(({ status }) => status === 'succeeded').length;
  const ledger = stage.path('ledger');
  const lines = existsSync(ledger) ? readFileSync(ledger, 'utf8').trim().split('\n') : [];
  const effects = lines.map((line) => line.split(' ').slice(0, 2).join(' '));
  const twice = effects.length - new Set(effects).size;
  const unknown = runs.length * CALLS.length - effects.length + twice;
  stage.say('');
  stage.say(`${good} of ${RUNS} runs succeeded, ${resumed.length} of them resumed after a kill.`);
  stage.say(`The tool saw ${effects.length} of ${RUNS * CALLS.length} calls, ${twice} of them twice.`);
  if (unknown > 0)
    stage.say(`${unknown} calls were not made: an earlier call had an unknown outcome and was not repeated.`);
  const isHonest = unknown <= resumed.length * CALLS.length;
  return good === RUNS && twice === 0 && isHonest ? 0 : 1;
}
