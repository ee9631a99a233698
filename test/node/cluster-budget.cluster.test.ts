import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { readJournal } from '../../src/runtime/durable/read-journal.ts';
import type { RunRecord } from '../../src/server/records/run.ts';
import { useNats } from '../support/engines/use-engine.ts';
import { NodeLives, writeNodeFolder } from '../torture/node/node-life.ts';

const root = mkdtempSync(join(tmpdir(), 'spear-cluster-budget-'));
const cluster = useNats({ members: 1 });
const NAMES = ['node-0', 'node-1', 'node-2'] as const;
/** What a send takes, and what all of a day may: three fit, with what the next one reserves a fourth does not. */
const SEND = 700;
const DAY = 3_000;
const RUNS = '/v1/namespaces/default/runs';
let nodes: readonly NodeLives[] = [];

beforeAll(async () => {
  const queue = `nats://${cluster().members[0]?.address}`;
  nodes = NAMES.map((name) => {
    const folder = join(root, name);
    writeNodeFolder(folder, { node: `name = "${name}"\nslots = 2` });
    const reply = { content: 'said', usage: { prompt_tokens: SEND - 1, completion_tokens: 1, total_tokens: SEND } };
    writeFileSync(join(folder, 'script.json'), JSON.stringify({ turns: [{ reply, repeat: true }] }));
    const wasm = fileURLToPath(new URL('../../fixtures/c/chat.wasm', import.meta.url));
    const task = [`name = "talk"`, `wasm = ${JSON.stringify(wasm)}`, 'args = ["hello"]', '[budgets]'];
    writeFileSync(join(folder, 'tasks.d', 'talk.toml'), [...task, `tokens_per_day = ${DAY}`].join('\n'));
    return new NodeLives(folder, ['--queue', queue]);
  });
  await Promise.all(nodes.map((node) => node.start()));
}, 90_000);

afterAll(async () => {
  await Promise.all(nodes.map((node) => node.kill()));
  rmSync(root, { recursive: true, force: true });
});

/** Submits to one node and waits there: the node that ran it, and the outcome of its send. */
async function talk(at: number): Promise<{ node: string; error: string | null }> {
  const node = nodes[at % nodes.length] as NodeLives;
  const { headers } = await node.ask('POST', '/v1/namespaces/default/tasks/talk/runs', {
    body: '',
    headers: { prefer: 'wait=60' },
  });
  const path = `${RUNS}/${headers.get('spear-run')}`;
  const run = JSON.parse((await node.ask('GET', path)).text) as RunRecord;
  const journal = Buffer.from((await node.ask('GET', `${path}/journal`)).text);
  const answered = readJournal('journal', null, journal).records.find(({ t }) => t === 'model.answered');
  if (answered?.t !== 'model.answered') throw new Error(`${path} has no answer: ${journal}`);
  return { node: String(run.node), error: answered.error?.code ?? null };
}

it('a budget that is used up stops the next send on every node [cluster.budgets]', async () => {
  const before: (string | null)[] = [];
  for (let at = 0; before.at(-1) !== 'budget_exceeded'; at++) before.push((await talk(at)).error);
  expect(before).toEqual([null, null, null, 'budget_exceeded']);
  const refused = new Map<string, string | null>();
  while (refused.size < NAMES.length) {
    const many = await Promise.all(Array.from({ length: 9 }, (_, at) => talk(at)));
    for (const { node, error } of many) {
      expect(error, node).toBe('budget_exceeded');
      refused.set(node, error);
    }
  }
}, 90_000);
