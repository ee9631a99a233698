import { describe, expect, it } from 'vitest';
import type { HttpProblem } from '../../../src/server/http/problem.ts';
import type { AuthenticatedCall } from '../../../src/server/http/route.ts';
import { QueueError } from '../../../src/server/queue/run-queue.ts';
import type {} from '../../../src/server/routes/run-route.ts';
import { retry, type SubmitDeps, submit } from '../../../src/server/routes/submit-run.ts';

const live = { revision: 1, wasm: 'a'.repeat(64), pool: 'default', retry: { max_attempts: 3 } };

/** The problem of a submission to a queue that fails so. */
async function problemOf(error: Error, headers: Record<string, string> = {}): Promise<HttpProblem> {
  const deps = {
    backends: () => ({ runs: { submit: () => Promise.reject(error) } }),
    tasks: { find: () => ({ live }) },
    isEnding: () => false,
    tracer: null,
    log: () => {},
  } as unknown as SubmitDeps;
  const call = {
    params: { namespace: 'default', task: 'hello' },
    identity: { name: 'ann', namespace: null },
    headers,
    bytes: async () => new Uint8Array(),
  } as unknown as AuthenticatedCall;
  const failed = submit(deps, {} as never, call, async (run) => run);
  return failed.then(
    () => Promise.reject(new Error('the run was accepted')),
    (problem: HttpProblem) => problem,
  );
}

describe('a submission that the queue does not answer', () => {
  const away = new QueueError('unavailable', 'the run queue did not answer within 5000 ms');

  it('is answered with 503, the run id, Retry-After, and that the same key is safe [node.queue-away]', async () => {
    const { status, kind, message, headers } = await problemOf(away, { 'idempotency-key': 'k1' });
    expect([status, kind, headers['retry-after']]).toEqual([503, 'queue-unavailable', '5']);
    expect(headers['spear-run']).toMatch(/^run-[0-9a-f]{32}$/);
    expect(message).toContain(headers['spear-run']);
    expect(message).toContain('the same Idempotency-Key, which is safe');
    // The same key names the same run.
    expect((await problemOf(away, { 'idempotency-key': 'k1' })).headers['spear-run']).toBe(headers['spear-run']);
  });

  it('warns a caller without a key that a repetition creates another run', async () => {
    const { message } = await problemOf(away);
    expect(message).toContain('without an Idempotency-Key that would be another run');
  });

  it('is answered with 503 and the new run id for a retry of an ended run', async () => {
    const ended = { id: 'run-1', namespace: 'default', task: 'hello', status: 'failed' };
    const runs = { get: async () => ended, input: async () => null, submit: () => Promise.reject(away) };
    const deps = { backends: () => ({ runs }), tracer: null } as unknown as SubmitDeps;
    const call = { params: { namespace: 'default', id: 'run-1' }, identity: { name: 'ann', namespace: null } };
    const problem = await retry(deps, call as unknown as AuthenticatedCall).catch(
      (error: unknown) => error as HttpProblem,
    );
    const headers = { 'retry-after': '5', 'spear-run': expect.stringMatching(/^run-[0-9a-f]{32}$/) };
    expect(problem).toMatchObject({ status: 503, kind: 'queue-unavailable', headers });
  });

  it('does not replace the error of a full disk', async () => {
    const full = new QueueError('not_stored', 'no space left');
    expect(await problemOf(full)).toBe(full);
  });
});
