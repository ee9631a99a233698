import { afterEach, expect, it } from 'vitest';
import { fsRecord, onStop, startTestSms, stopAll, type TestSms } from '../running-sms.ts';

afterEach(stopAll);

interface SentEvent {
  readonly event: string;
  readonly id: string;
  readonly data: { readonly revision: number; readonly upserts?: string[]; readonly deletes?: string[] };
}

/** Reads server-sent events as a browser does: blank line by blank line, comments and `retry` left out. */
async function readEvents(sms: TestSms, lastEventId?: string) {
  const end = new AbortController();
  onStop(() => end.abort());
  const response = await fetch(`${sms.sms.http}/admin/api/mcp/events`, {
    headers: {
      authorization: `Bearer ${sms.adminToken}`,
      ...(lastEventId === undefined ? {} : { 'last-event-id': lastEventId }),
    },
    signal: end.signal,
  });
  expect(response.headers.get('content-type')).toBe('text/event-stream');
  const reader = (response.body as ReadableStream<Uint8Array>).getReader();
  let text = '';
  return async (): Promise<SentEvent | 'ended'> => {
    for (;;) {
      const at = text.indexOf('\n\n');
      if (at === -1) {
        const { done, value } = await reader.read();
        if (done) return 'ended';
        text += Buffer.from(value).toString();
        continue;
      }
      const fields = new Map(
        text
          .slice(0, at)
          .split('\n')
          .map((line) => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 2)] as const),
      );
      text = text.slice(at + 2);
      const event = fields.get('event');
      if (event !== undefined) {
        return { event, id: fields.get('id') ?? '', data: JSON.parse(fields.get('data') ?? 'null') };
      }
    }
  };
}

const put = (sms: TestSms, id: string) =>
  sms.http('PUT', `/admin/api/mcp/servers/${id}`, { json: { ...fsRecord, server_id: id } });

it('tells of changes by id, from now on [sms.http.events]', async () => {
  const sms = await startTestSms();
  await put(sms, 'old');
  const next = await readEvents(sms);
  expect(await next()).toMatchObject({ event: 'reset', data: { revision: 1 } });
  await put(sms, 'a');
  expect(await next()).toMatchObject({ event: 'change', data: { revision: 2, upserts: ['a'], deletes: [] } });
  await sms.http('DELETE', '/admin/api/mcp/servers/old');
  expect(await next()).toMatchObject({ event: 'change', data: { revision: 3, upserts: [], deletes: ['old'] } });
});

it('goes on after the last event that a reader saw [sms.http.events]', async () => {
  const sms = await startTestSms();
  const first = await readEvents(sms);
  const { id } = (await first()) as SentEvent;
  await put(sms, 'a');
  await put(sms, 'b');
  const again = await readEvents(sms, id);
  expect(await again()).toMatchObject({ event: 'change', data: { revision: 2, upserts: ['a', 'b'] } });
});

it('tells a reader to start over where it cannot go on [sms.http.events]', async () => {
  const sms = await startTestSms({ limit: { kept_changes: 1 } });
  const first = await readEvents(sms);
  await put(sms, 'a');
  await first();
  const { id } = (await first()) as SentEvent;
  for (const name of ['b', 'c', 'd']) await put(sms, name);
  expect(await (await readEvents(sms, id))()).toMatchObject({ event: 'reset', data: { revision: 4 } });
  expect(await (await readEvents(sms, 'another-epoch/1'))()).toMatchObject({ event: 'reset' });
  expect(await (await readEvents(sms, id.replace(/\/.*/, '/99')))()).toMatchObject({ event: 'reset' });
});

it('ends when the registry ends, and never shows a value of a record [sms.http.events]', async () => {
  const sms = await startTestSms();
  const next = await readEvents(sms);
  await next();
  await put(sms, 'a');
  expect(JSON.stringify(await next())).not.toContain('debug');
  await sms.sms.close();
  expect(await next()).toBe('ended');
});
