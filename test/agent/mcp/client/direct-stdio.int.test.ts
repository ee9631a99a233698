import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { eraHas } from '../../../support/server-era.ts';
import { call, eventually, openPool, parsed, stdioRecord, tempDir, textOf } from './pool-samples.ts';

/** In the new era the list of tools takes the first own id. */
const FIRST_OWN_ID = eraHas('listsOfTheLibrary') ? 1 : 2;
const ownId = (nth: number) => `spear-${FIRST_OWN_ID + nth}`;
const patient = { budgets: { tool_timeout_ms: 60_000 } };
const answers = (more: { env?: Record<string, string>; budgets?: Record<string, number> } = {}) =>
  stdioRecord('answers', 'answers.mjs', { ...patient, ...more });
const linesOf = (path: string) => readFileSync(path, 'utf8').trim().split('\n');
const result = (text: string) => `{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"${text}"}]}}`;

describe('a call over stdio', () => {
  it('goes beside the library from the first of a connection on', async () => {
    const { pool } = openPool();
    const ids: string[] = [];
    const record = answers();
    for (let i = 0; i < 3; i++) ids.push(await textOf(call(pool, record, 'id')));
    expect(ids).toEqual([ownId(0), ownId(1), ownId(2)]);
  });

  it('finds its answer among all that are under way, whatever their order', async () => {
    const { pool } = openPool();
    const record = answers({ budgets: { max_concurrency: 4 } });
    const held = [call(pool, record, 'hold'), call(pool, record, 'hold')];
    const echoes = Array.from({ length: 50 }, (_, i) => textOf(call(pool, record, 'echo', { message: `m${i}` })));
    expect(await Promise.all(echoes)).toEqual(echoes.map((_, i) => `m${i}`));
    expect(await textOf(call(pool, record, 'release'))).toBe('released');
    expect(await Promise.all(held.map(textOf))).toEqual(['late', 'late']);
  });

  it('is not disturbed by progress, other notifications and requests of the server', async () => {
    const { pool } = openPool();
    const lines = [
      '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":ID,"progress":1,"total":2}}',
      '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":ID}}',
      '{"jsonrpc":"2.0","id":ID,"method":"ping"}',
      result('done'),
    ];
    expect(await textOf(call(pool, answers(), 'say', { lines }))).toBe('done');
    expect(await textOf(call(pool, answers(), 'id'))).toMatch(/^spear-\d+$/);
  });

  it.each([
    ['{"code":-32000,"message":"no such row","data":[1]}', 'mcp_tool_error', 'tool "say": no such row'],
    ['{"code":-32602,"message":"lines is odd"}', 'mcp_invalid_arguments', 'tool "say": lines is odd'],
  ])('that is answered with the error %s is %s', async (error, code, message) => {
    const { pool } = openPool();
    const outcome = await call(pool, answers(), 'say', { lines: [`{"jsonrpc":"2.0","id":ID,"error":${error}}`] });
    expect(outcome.error).toEqual({ code, message, retryable: false });
    expect(pool.health()[0]).toMatchObject({ state: 'connected', reconnects: 0 });
  });

  it.each([
    ['a result that is no object', '{"jsonrpc":"2.0","id":ID,"result":"text"}'],
    ['a result and an error', '{"jsonrpc":"2.0","id":ID,"result":{},"error":{"code":1,"message":"x"}}'],
    ['neither', '{"jsonrpc":"2.0","id":ID}'],
    ['an error without a message', '{"jsonrpc":"2.0","id":ID,"error":{"code":1}}'],
    ['an error whose code is no number', '{"jsonrpc":"2.0","id":ID,"error":{"code":"1","message":"x"}}'],
    ['a member more', '{"jsonrpc":"2.0","id":ID,"result":{},"more":1}'],
    ['no version', '{"id":ID,"result":{}}'],
    ['half a line', '{"jsonrpc":"2.0","id":ID,"result":{'],
  ])('takes %s for no answer, and waits for one', async (_, line) => {
    const { pool, log } = openPool();
    expect(await textOf(call(pool, answers(), 'say', { lines: [line, result('right')] }))).toBe('right');
    expect(log.filter(({ event }) => event === 'stdout_garbage')).toHaveLength(1);
  });

  it('whose content is not valid says so', async () => {
    const { pool } = openPool();
    const lines = ['{"jsonrpc":"2.0","id":ID,"result":{"content":"text"}}'];
    expect((await call(pool, answers(), 'say', { lines })).error?.message).toContain('returned invalid content');
  });

  it('does not mind answers to ids that nobody knows, nor a second answer', async () => {
    const { pool } = openPool();
    const stray = ['0', '7', '"7"', '"spear-999"', '"x"', 'null'].map((id) => result('stray').replace('ID', id));
    const lines = [...stray, result('first'), result('second')];
    expect(await textOf(call(pool, answers(), 'say', { lines }))).toBe('first');
    expect(await textOf(call(pool, answers(), 'echo', { message: 'next' }))).toBe('next');
    expect(pool.health()[0]).toMatchObject({ state: 'connected', reconnects: 0 });
  });

  it('that was cancelled is told to the server, by its id, and its late answer reaches nobody', async () => {
    const trail = join(tempDir(), 'trail');
    const { pool } = openPool();
    const record = answers({ env: { TRAIL: trail } });
    const cancel = new AbortController();
    const held = call(pool, record, 'hold', {}, { signal: cancel.signal });
    await eventually(() => expect(linesOf(trail)).toHaveLength(1));
    cancel.abort();
    expect((await held).error?.code).toBe('mcp_cancelled');
    expect(await textOf(call(pool, record, 'release'))).toBe('released');
    const [hold, cancelled] = linesOf(trail);
    expect(cancelled).toContain(hold?.replace('hold', 'cancelled'));
    expect(cancelled).toContain('the call was cancelled');
    expect(pool.stats()).toMatchObject({ callsInFlight: 0, callsQueued: 0 });
  });

  it('that takes too long is cancelled there, and its place is free', async () => {
    const trail = join(tempDir(), 'trail');
    const { pool } = openPool();
    const record = answers({ env: { TRAIL: trail }, budgets: { max_concurrency: 1, tool_timeout_ms: 60_000 } });
    await textOf(call(pool, record, 'id'));
    const late = call(pool, record, 'hold', {}, { timeoutMs: 150 });
    const behind = call(pool, record, 'echo', { message: 'behind' });
    expect((await late).error).toMatchObject({ code: 'mcp_timeout', retryable: true });
    expect(await textOf(behind)).toBe('behind');
    expect(linesOf(trail)[1]).toContain('150 ms');
  });

  it.each([1, 2])('with an answer beyond the bound fails alone, call %i of the connection', async (nth) => {
    const { pool } = openPool({ limits: { maxMessageBytes: 64 * 1024 } });
    const record = stdioRecord('huge', 'huge.mjs', patient);
    for (let i = 1; i < nth; i++) await textOf(call(pool, record, 'pid'));
    const outcome = await call(pool, record, 'huge', { bytes: 200_000 });
    expect(outcome.error).toMatchObject({ code: 'mcp_output_too_large', retryable: false });
    expect(parsed(outcome).content?.[0]?.text).toMatch(/^(ä+|b+)… \[truncated\]$/);
    expect(await textOf(call(pool, record, 'pid'))).toMatch(/^\d+$/);
    expect(pool.health()[0]?.reconnects).toBe(0);
  });

  it('fails at once when the process dies under it, with all that are under way', async () => {
    const { pool } = openPool();
    const record = answers();
    const held = Array.from({ length: 3 }, () => call(pool, record, 'hold'));
    const died = await call(pool, record, 'die');
    for (const outcome of [died, ...(await Promise.all(held))]) {
      expect(outcome.error).toMatchObject({ code: 'mcp_unavailable', retryable: true });
      expect(outcome.error?.message).toContain('signal SIGKILL');
    }
    expect(pool.stats()).toMatchObject({ callsInFlight: 0, callsQueued: 0 });
    expect(await textOf(call(pool, record, 'id'))).toBe(ownId(0));
  });
});

describe('a call at a server that is ready', () => {
  it('is asked about and sent before anything else happens, and ends as the others do', async () => {
    const { pool } = openPool();
    const record = answers();
    await textOf(call(pool, record, 'id'));
    const order: string[] = [];
    const ended = new Promise<void>((resolve) => {
      pool.startCall(record, {
        tool: 'echo',
        args: { message: 'now' },
        owner: 'guest-1',
        beforeDispatch: () => void order.push('asked'),
        finished: ({ error }) => {
          order.push(error === null ? 'ended' : error.message);
          resolve();
        },
      });
    });
    order.push('started');
    expect(pool.stats().callsInFlight).toBe(1);
    await ended;
    expect(order).toEqual(['asked', 'started', 'ended']);
    expect(pool.stats().callsInFlight).toBe(0);
  });

  it('gets its place the moment another gives it back', async () => {
    const { pool } = openPool();
    const record = answers({ budgets: { max_concurrency: 2 } });
    await textOf(call(pool, record, 'id'));
    let most = 0;
    const beforeDispatch = () => {
      most = Math.max(most, pool.stats().callsInFlight);
    };
    const calls = Array.from({ length: 300 }, (_, i) =>
      textOf(call(pool, record, 'echo', { message: `${i}` }, { beforeDispatch, owner: `guest-${i % 3}` })),
    );
    expect(pool.stats().callsQueued).toBe(298);
    expect(await Promise.all(calls)).toEqual(calls.map((_, i) => `${i}`));
    expect(most).toBe(2);
    expect(pool.stats()).toMatchObject({ callsInFlight: 0, callsQueued: 0 });
  });
});
