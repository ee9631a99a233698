import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import type { GuestMcp } from '../../../src/agent/mcp/guest-mcp.ts';
import type { StopRecord } from '../../../src/server/records/stop.ts';
import { eventually, stdioRecord, tempDir } from './client/pool-samples.ts';
import { openHost } from './mcp-host.ts';

const stop: StopRecord = {
  ...{ stop_id: 'aaaa0001', scope: 'server', name: 'answers', effect: 'stop', reason: 'incident 12' },
  ...{ created_by: 'alice', authority: '*', created_at_ms: 1, updated_at_ms: 0, mod_revision: 0 },
};

const asked = (guest: GuestMcp, tool: string, callId: string) =>
  new Promise<{ code: string; message: string; retryable: boolean } | undefined>((resolve) => {
    const call = { serverId: 'answers', tool, arguments: '{}', callId, session: 'mcp-1' };
    guest.start(call, (json) => resolve((JSON.parse(json) as { error?: never }).error));
  });

it('a stop ends calls in flight and refuses new ones with the reason [stop.calls]', async () => {
  const trail = join(tempDir(), 'trail');
  const host = await openHost([stdioRecord('answers', 'answers.mjs', { env: { TRAIL: trail } })]);
  const guest = host.guest();
  expect(await asked(guest, 'id', 'call-0')).toBeUndefined();
  const held = asked(guest, 'hold', 'call-1');
  await eventually(() => expect(readFileSync(trail, 'utf8').trimEnd().split('\n')).toHaveLength(1));
  await host.stop(stop);
  const error = { code: 'mcp_stopped', message: expect.stringContaining('incident 12'), retryable: true };
  expect(await held).toMatchObject(error);
  expect(await asked(guest, 'id', 'call-2')).toMatchObject(error);
  expect(host.told('tool_call.finished').map(({ reason }) => reason)).toEqual([...[null, 'stopped', 'stopped']]);
});
