import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import type { RunRecord } from '../../../src/server/records/run.ts';
import type { NodeAnswer } from '../../torture/node/node-life.ts';

const hello = '/v1/namespaces/default/tasks/hello/runs';
const agent = '/v1/namespaces/default/tasks/agent/runs';
const runs = '/v1/namespaces/default/runs';
const waiting = { prefer: 'wait=60' };
const parsed = (text: string) => JSON.parse(text) as RunRecord;

/** A guest that computes until it is ended. */
export const SPIN = Uint8Array.from([
  ...[0, 0x61, 0x73, 0x6d, 1, 0, 0, 0, 1, 4, 1, 0x60, 0, 0, 3, 2, 1, 0, 5, 3, 1, 0, 1],
  ...[7, 19, 2, 6, 0x6d, 0x65, 0x6d, 0x6f, 0x72, 0x79, 2, 0, 6, 0x5f, 0x73, 0x74, 0x61, 0x72, 0x74, 0, 0],
  ...[10, 9, 1, 7, 0, 3, 0x40, 0x0c, 0, 0x0b, 0x0b],
]);

/** A server of runs: a node, or a registry with a queue. It has the tasks `hello`, `agent` and `spin`. */
export interface RunSide {
  /** Sends a request, as an admin unless a token is given. */
  ask(
    method: string,
    path: string,
    options?: { body?: string; token?: string; headers?: Record<string, string> },
  ): Promise<NodeAnswer>;
  /** A token with the permission to submit. */
  submitter(): string;
  readonly submitterName: string;
}

/** Contract tests of the run API, for node and registry. */
export function runInterface(title: string, side: () => RunSide): void {
  const ask: RunSide['ask'] = (...given) => side().ask(...given);
  const submitter = () => side().submitter();

  async function status(id: string, wanted: string): Promise<RunRecord> {
    for (;;) {
      const run = parsed((await ask('GET', `${runs}/${id}`)).text);
      if (run.status === wanted) return run;
      await delay(20);
    }
  }

  describe(title, () => {
    it('is submitted, and Prefer: wait returns its result [node.submit]', async () => {
      const token = submitter();
      const answer = await ask('POST', hello, { body: 'x', token, headers: waiting });
      expect(answer).toMatchObject({ status: 200, text: 'hello from C\n' });
      const id = answer.headers.get('spear-run') ?? '';
      const run = parsed((await ask('GET', `${runs}/${id}`, { token })).text);
      expect(run).toMatchObject({
        status: 'succeeded',
        submitted_by: side().submitterName,
        attempts: 1,
        exit: { code: 0 },
      });
      expect((await ask('GET', `${runs}/${id}/result`, { token })).text).toBe('hello from C\n');
      const journal = await ask('GET', `${runs}/${id}/journal`);
      expect(journal.text).toContain('"t":"header"');
      expect((await ask('GET', `${runs}/${id}/journal`, { token })).status).toBe(403);
    });

    it('with an Idempotency-Key is created once per submitter [node.idempotent]', async () => {
      const send = (body: string, token?: string) =>
        ask('POST', hello, { body, headers: { 'idempotency-key': 'k1' }, ...(token ? { token } : {}) });
      const [one, two] = await Promise.all([send('a'), send('a')]);
      expect([one.status, two.status]).toEqual([202, 202]);
      expect(parsed(one.text).id).toBe(parsed(two.text).id);
      const other = await send('b');
      expect(other.status).toBe(422);
      expect(other.text).toContain('urn:spear:problem:key-used');
      const theirs = await send('a', submitter());
      expect(parsed(theirs.text).id).not.toBe(parsed(one.text).id);
    });

    it('reports its cost, and streams its events from any event id [node.events]', async () => {
      const answer = await ask('POST', agent, { body: 'x', headers: waiting });
      expect(answer).toMatchObject({ status: 200 });
      const id = answer.headers.get('spear-run') ?? '';
      const run = parsed((await ask('GET', `${runs}/${id}`)).text);
      expect(run.cost).toMatchObject({ model_calls: 3, tool_calls: 3, tokens: { total_tokens: 45 } });
      const events = await ask('GET', `${runs}/${id}/events`);
      expect(events.headers.get('content-type')).toBe('text/event-stream');
      const kinds = [...events.text.matchAll(/^event: (\w+)$/gm)].map(([, kind]) => kind);
      expect(kinds.slice(0, 1)).toEqual(['status']);
      expect(kinds).toEqual(expect.arrayContaining(['tool', 'model', 'output']));
      expect(events.text).toContain('"status":"succeeded"');
      const ids = [...events.text.matchAll(/^id: (\d+)$/gm)].map(([, text]) => Number(text));
      expect(ids).toEqual(ids.toSorted((a, b) => a - b));
      const last = String(ids.at(-2));
      const rest = await ask('GET', `${runs}/${id}/events`, { headers: { 'last-event-id': last } });
      expect([...rest.text.matchAll(/^id: (\d+)$/gm)].map(([, text]) => Number(text))).toEqual(ids.slice(-1));
      expect(rest.text).not.toContain('event: gap');
      const old = await ask('GET', `${runs}/${id}/events`, { headers: { 'last-event-id': '1' } });
      expect(old.text).toContain('event: gap');
      expect([...old.text.matchAll(/^id: (\d+)$/gm)].map(([, text]) => Number(text))).toEqual(ids);
    });

    it('in an endless loop does not block other runs, and can be cancelled [node.cancel]', async () => {
      const { id } = parsed((await ask('POST', '/v1/namespaces/default/tasks/spin/runs', { body: '' })).text);
      await status(id, 'running');
      expect((await ask('POST', hello, { body: '', headers: waiting })).status).toBe(200);
      expect((await ask('GET', `${runs}/${id}/result`)).status).toBe(409);
      expect((await ask('POST', `${runs}/${id}/cancel`)).status).toBe(202);
      const ended = await status(id, 'cancelled');
      expect(ended.exit).toMatchObject({ reason: 'cancelled' });
      const again = await ask('POST', `${runs}/${id}/retry`);
      expect(parsed(again.text)).toMatchObject({ retry_of: id, task: 'spin' });
      await ask('POST', `${runs}/${parsed(again.text).id}/cancel`);
      await status(parsed(again.text).id, 'cancelled');
    });

    it('is listed in pages, newest first, and returned by its id in its namespace', async () => {
      const made = await Promise.all([1, 2, 3].map(() => ask('POST', hello, { body: '', headers: waiting })));
      const ids = made.map(({ headers }) => headers.get('spear-run') ?? '');
      const seen: string[] = [];
      for (let cursor = ''; ; ) {
        const page = await ask('GET', `${runs}?task=hello&limit=2${cursor}`);
        const { runs: listed, cursor: next } = JSON.parse(page.text) as { runs: RunRecord[]; cursor: string | null };
        seen.push(...listed.map(({ id }) => id));
        if (next === null) break;
        cursor = `&cursor=${next}`;
      }
      expect(new Set(seen).size).toBe(seen.length);
      expect(seen.slice(0, 3).toSorted()).toEqual(ids.toSorted());
      expect((await ask('GET', `/v1/namespaces/elsewhere/runs/${ids[0]}`)).status).toBe(404);
      expect((await ask('GET', `${runs}?status=dead`)).text).toBe('{"runs":[],"cursor":null}\n');
    });

    it('is rejected with the reason if the request is invalid', async () => {
      expect((await ask('GET', `${runs}?status=odd`)).text).toContain('expected one of queued');
      expect((await ask('GET', `${runs}?limit=0`)).status).toBe(400);
      expect((await ask('GET', `${runs}?cursor=x`)).status).toBe(400);
      expect((await ask('GET', `${runs}/missing`)).status).toBe(404);
      expect((await ask('GET', `${runs}/no.body/events`)).status).toBe(404);
      expect((await ask('POST', '/v1/namespaces/default/tasks/nope/runs', { body: '' })).status).toBe(404);
      const key = (text: string) => ask('POST', hello, { body: '', headers: { 'idempotency-key': text } });
      expect((await key('')).status).toBe(400);
      expect((await key('k'.repeat(300))).status).toBe(400);
      expect((await ask('GET', runs, { token: 'x'.repeat(64) })).status).toBe(401);
      expect((await ask('GET', '/v1/namespaces/team-b/runs', { token: submitter() })).status).toBe(403);
    });
  });
}
