import { afterEach, expect, it } from 'vitest';
import { createToken } from '../../server/identity/token-calls.ts';
import { onStop, startTestSms, stopAll } from '../running-sms.ts';

afterEach(stopAll);

it('limits the live streams of one caller, and serves the others [http.callers]', async () => {
  const sms = await startTestSms({ limit: { streams_per_caller: 2 } });
  const viewer = await createToken(sms, { name: 'viewer', roles: ['viewer'] });
  const leave = new AbortController();
  onStop(() => leave.abort());
  const open = async (token: string, path = '/admin/api/live') => {
    const headers = { authorization: `Bearer ${token}` };
    const answer = await fetch(`${sms.sms.http}${path}`, { headers, signal: leave.signal });
    return { status: answer.status, retry: answer.headers.get('retry-after') };
  };
  expect(await open(viewer)).toMatchObject({ status: 200 });
  expect(await open(viewer, '/admin/api/mcp/events')).toMatchObject({ status: 200 });
  expect(await open(viewer)).toEqual({ status: 429, retry: '1' });
  expect(await open(sms.adminToken)).toMatchObject({ status: 200 });
  expect((await sms.http('GET', '/admin/api/mcp/servers', { token: viewer })).status).toBe(200);
  expect((await sms.http('GET', '/metrics')).text).toContain(
    'spear_sms_shed_total{protocol="http",reason="streams"} 1',
  );
});
