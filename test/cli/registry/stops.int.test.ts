import { describe, expect, it } from 'vitest';
import { stop } from '../../../src/cli/registry/stops.ts';

const created = { stop_id: 'aaaa0001', scope: 'all', name: '', effect: 'stop', reason: 'incident 12', warnings: [] };
const flags = {
  ...{ all: true, namespace: undefined, task: undefined, server: undefined, lift: undefined },
  ...{ reason: 'incident 12', cancel: false, json: false },
};

/** `spear stop --all` at a registry with these responses. */
async function stopAll(first: object, later: () => Promise<object>) {
  const [printed, said]: [string[], string[]] = [[], []];
  const client = { request: async () => ({ value: { ...created, ...first } }), json: later };
  const context = { client, flags, args: [], print: (t: string) => printed.push(t), say: (t: string) => said.push(t) };
  const code = await stop(context as unknown as Parameters<typeof stop>[0]);
  return { code, printed, said };
}

describe('spear stop', () => {
  it('prints the id of a stored stop also if the registry goes away before nodes confirm [stop.confirm]', async () => {
    const waiting = { confirmed: 0, unconfirmed: [{ node_id: 'worker-1:a', age_ms: 1_000 }] };
    const { code, printed, said } = await stopAll(waiting, () => Promise.reject(new Error('ECONNREFUSED')));
    expect([code, printed]).toEqual([1, ['aaaa0001 stop everything\n']]);
    expect(said[0]).toBe('the stop is stored, but whether nodes confirm it is unknown: ECONNREFUSED');
    expect(said).toContain('not confirmed by worker-1:a, last report 1s ago');
  });

  it('waits for the nodes of a registry that was just restarted [stop.confirm]', async () => {
    const none = { confirmed: 0, unconfirmed: [] };
    const found = await stopAll(none, async () => ({ ...created, confirmed: 1, unconfirmed: [] }));
    expect([found.code, found.said]).toEqual([0, ['1 node confirmed']]);
  });
});
