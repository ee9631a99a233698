import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { ChatBackend } from '../../src/agent/chat/backend.ts';
import type { NamespaceBudgets } from '../../src/config/node/node-config.ts';
import { TokenBudgets } from '../../src/node/token-budgets.ts';
import { EmbeddedQueue } from '../../src/server/queue/embedded/embedded-queue.ts';
import type { TaskRevision } from '../../src/server/records/task.ts';

let folder = '';
let queue: EmbeddedQueue;
const open = () => {
  queue = new EmbeddedQueue(join(folder, 'runs.db'), { maxQueued: 1 });
};

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'spear-budgets-'));
  open();
});
afterEach(async () => {
  await queue.close();
  rmSync(folder, { recursive: true });
});

const request = { messages: [{ role: 'user', content: 'hi' }], max_tokens: 80 };
const signal = new AbortController().signal;
const unbounded = { tokens_per_run: null, tokens_per_day: null };
const task = (budgets: TaskRevision['budgets']) => ({ namespace: 'default', name: 't', budgets }) as TaskRevision;
const by = (of: TaskRevision, submittedBy = 'ann', spentBefore = 0) => ({ task: of, submittedBy, spentBefore });
const ofDefault = (bounds: Partial<NamespaceBudgets>) =>
  new Map([['default', { tokensPerDay: null, tokensPerCallerPerDay: null, ...bounds }]]);

/** Answers when it is let, with 100 tokens. */
function model() {
  const gate = Promise.withResolvers<void>();
  const backend: ChatBackend = {
    name: 'm',
    model: undefined,
    complete: async () => {
      await gate.promise;
      return { usage: { total_tokens: 100 } };
    },
    close: async () => {},
  };
  return { find: async () => backend, answer: () => gate.resolve() };
}

describe('token budgets', () => {
  it('bound a run, over its attempts', async () => {
    const { find, answer } = model();
    answer();
    const budgets = new TokenBudgets(queue, new Map());
    const ofTask = task({ tokens_per_run: 300, tokens_per_day: null });
    const backend = await budgets.forRun(by(ofTask), find)(undefined);
    await backend.complete(request, signal);
    await backend.complete(request, signal);
    await expect(backend.complete(request, signal)).rejects.toMatchObject({ code: 'budget_exceeded' });
    const resumed = await budgets.forRun(by(ofTask, 'ann', 250), find)(undefined);
    await expect(resumed.complete(request, signal)).rejects.toThrow(
      'budgets.tokens_per_run = 300: 250 tokens are spent',
    );
  });

  it('are reserved before a send: parallel runs cannot overspend together [node.budgets]', async () => {
    const { find, answer } = model();
    const budgets = new TokenBudgets(queue, new Map());
    const ofTask = task({ tokens_per_run: null, tokens_per_day: 350 });
    const sends = await Promise.all(
      Array.from({ length: 10 }, async () => (await budgets.forRun(by(ofTask), find)(undefined)).complete),
    );
    const all = Promise.allSettled(sends.map((complete) => complete(request, signal)));
    answer();
    const outcomes = await all;
    expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(3);
  });

  it('of a day are counted over restarts, and a namespace has one for all its tasks', async () => {
    const { find, answer } = model();
    answer();
    const day = { now: Date.UTC(2026, 10, 17, 23) };
    const budgets = () => new TokenBudgets(queue, ofDefault({ tokensPerDay: 250 }), () => day.now);
    const free = task(unbounded);
    await (await budgets().forRun(by(free), find)(undefined)).complete(request, signal);
    await queue.close();
    open();
    const after = budgets();
    await (await after.forRun(by({ ...free, name: 'u' }, 'bob'), find)(undefined)).complete(request, signal);
    const refused = (await after.forRun(by(free), find)(undefined)).complete(request, signal);
    await expect(refused).rejects.toThrow('node.budgets.default.tokens_per_day = 250');
    day.now += 3 * 3_600_000;
    await (await after.forRun(by(free), find)(undefined)).complete(request, signal);
  });

  it('of a caller are its own, over all its tasks and restarts, and hold for parallel runs [node.budgets.caller]', async () => {
    const { find, answer } = model();
    const budgets = () => new TokenBudgets(queue, ofDefault({ tokensPerCallerPerDay: 250 }));
    const first = budgets();
    const send = async (from: TokenBudgets, name: string, caller: string) => {
      const backend = await from.forRun(by({ ...task(unbounded), name }, caller), find)(undefined);
      return backend.complete(request, signal);
    };
    const names = ['a', 'b', 'c', 'd'];
    const ofAnn = Promise.allSettled(names.map((name) => send(first, name, 'ann')));
    const ofBob = send(first, 'a', 'bob');
    answer();
    const outcomes = await ofAnn;
    expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(2);
    await ofBob;
    await queue.close();
    open();
    const later = budgets();
    await expect(send(later, 'e', 'ann')).rejects.toThrow(
      'node.budgets.default.tokens_per_caller_per_day (ann) = 250: 200 tokens are spent',
    );
    await send(later, 'e', 'bob');
  });

  it('of a task are one account, whatever its revisions say', async () => {
    const { find, answer } = model();
    const budgets = new TokenBudgets(queue, new Map());
    const sends = [250, 300].flatMap((tokens_per_day) =>
      [1, 2].map(async () => {
        const ofTask = task({ tokens_per_run: null, tokens_per_day });
        return (await budgets.forRun(by(ofTask), find)(undefined)).complete(request, signal);
      }),
    );
    const all = Promise.allSettled(sends);
    answer();
    expect((await all).filter(({ status }) => status === 'fulfilled')).toHaveLength(2);
  });
});
