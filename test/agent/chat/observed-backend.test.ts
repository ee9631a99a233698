import { expect, it } from 'vitest';
import type { ScriptTurn } from '../../../src/agent/chat/backends/script-schema.ts';
import { traceModel } from '../../../src/agent/chat/observed-backend.ts';
import type { JsonObject } from '../../../src/base/json.ts';
import { knownSecrets } from '../../../src/server/secrets/redactor.ts';
import { scripted } from '../../support/chat-host.ts';

const never = new AbortController().signal;
const by = { session: 'chat-1000', timeLeftMs: 60_000 };
const hi = (content = 'hi') => ({ messages: [{ role: 'user', content }] });

async function traced(turns: readonly ScriptTurn[]) {
  const lines: string[] = [];
  const wrap = traceModel({ run: 'run-1', write: (line) => lines.push(line) });
  const inner = await scripted(turns);
  return { inner, backend: wrap(inner), lines, entries: () => lines.map((line) => JSON.parse(line) as JsonObject) };
}

it('keeps the request before the answer is there, and the answer under the same ordinal [cli.trace]', async () => {
  const { inner, backend, entries } = await traced([{ reply: { content: 'hello' }, repeat: true }]);
  const release = inner.hold();
  const first = backend.complete(hi(), never, by);
  expect(entries()).toEqual([
    {
      time: expect.stringMatching(/^\d{4}-.*Z$/),
      run: 'run-1',
      session: 'chat-1000',
      ordinal: 1,
      backend: 'scripted',
      request: hi(),
    },
  ]);
  release();
  const answer = await first;
  expect(entries()[1]).toMatchObject({ ordinal: 1, answer, duration_ms: expect.any(Number) });
  expect(entries()[1]).not.toHaveProperty('request');
  await backend.complete(hi('more'), never);
  expect(entries().map(({ ordinal, session }) => [ordinal, session])).toEqual([
    [1, 'chat-1000'],
    [1, 'chat-1000'],
    [2, null],
    [2, null],
  ]);
  expect(inner.askedBy).toEqual([by, undefined]);
});

it('keeps errors, those of sends that were ended too [cli.trace]', async () => {
  const { inner, backend, entries } = await traced([{ error: { status: 429, message: 'slow down' } }]);
  await expect(backend.complete(hi(), never, by)).rejects.toThrow('slow down');
  expect(entries()[1]).toMatchObject({ error: { code: 'rate_limited', retryable: true, status: 429 } });
  inner.hold();
  const ended = new AbortController();
  const asked = backend.complete(hi(), ended.signal, by);
  ended.abort(new DOMException('over 5 ms', 'TimeoutError'));
  await expect(asked).rejects.toThrow('over 5 ms');
  expect(entries()[3]).toMatchObject({ ordinal: 2, error: { code: 'cancelled', message: 'over 5 ms' } });
});

it('holds no secret that the process knows, however it is spelled [cli.trace]', async () => {
  const secret = 'canary-"trace"-secret';
  knownSecrets.add(secret);
  const { backend, lines } = await traced([{ reply: { content: `you said ${secret}` } }]);
  await backend.complete(hi(secret), never);
  expect(lines.join('')).not.toContain('canary-');
  expect(lines.join('')).toContain('[redacted]');
});
