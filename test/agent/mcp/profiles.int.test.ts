import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { ApprovalRequest } from '../../../src/agent/approvals/request.ts';
import { GuestMcp } from '../../../src/agent/mcp/guest-mcp.ts';
import { encodedName } from '../../../src/agent/mcp/tool-names.ts';
import { noOverrides } from '../../../src/runtime/port/policy-layers.ts';
import { sampleProfile } from '../../server/records/profile-samples.ts';
import { taskWith } from '../policy/policy-samples.ts';
import { eventually, stdioRecord, tempDir } from './client/pool-samples.ts';
import { callOf, inject, type McpHost, namesOf, never, openHost } from './mcp-host.ts';

const review = { name: 'review', overrides: noOverrides };
const byProfile = { defaultServerIds: null, allowedServerIds: null, profile: review };
const tiny = (id: string, more = {}) => Object.freeze({ ...stdioRecord(id, 'tiny.mjs'), ...more });
const named = (id: string, ...tools: string[]) => tools.map((tool) => encodedName(id, tool));
const finished = (host: McpHost) => host.told('tool_call.finished').map(({ status, reason }) => [status, reason]);

describe('a guest whose task names a profile', () => {
  it('gets the servers and tools of it, as it stands at every send [policy.profile]', async () => {
    const host = await openHost([tiny('a'), tiny('b', { tags: ['x'] }), tiny('c')]);
    const guest = host.guest(byProfile);
    expect(namesOf(await inject(guest))).toEqual([]);
    expect(host.told('session.created')[0]?.exclusions).toEqual([
      {
        server_id: '*',
        tool_name: null,
        reason: 'unknown_profile',
        layer: 'profile',
        detail: `the task's mcp.profile "review" is not in the registry, so everything is denied`,
      },
    ]);
    await host.upsertProfile(
      sampleProfile('review', {
        server_ids: ['a'],
        server_tags: ['x'],
        tool_denylist: ['e*'],
        allowed_tools: { b: ['pid'] },
      }),
    );
    expect(namesOf(await inject(guest))).toEqual([...named('a', 'fail', 'pid', 'structured'), ...named('b', 'pid')]);
    expect(guest.registryList()).toMatchObject({ servers: [{ server_id: 'a' }, { server_id: 'b' }] });
    expect([guest.open('a'), guest.open('c'), guest.open('nope')]).toEqual([null, 'EACCES', 'EACCES']);
    expect(await guest.listTools('b', never)).toMatchObject({ tools: [{ name: 'pid' }] });
    const reasons = host.told('mcp.injected').flatMap(({ exclusions }) => exclusions);
    expect(new Set(reasons.map(({ reason, layer }) => `${reason} ${layer}`))).toEqual(
      new Set(['denied_by_profile profile']),
    );
    await host.removeProfile('review');
    expect(namesOf(await inject(guest))).toEqual([]);
  });

  it.each(['removed', 'narrowed', 'emptied'])(
    'has its call in flight ended when the profile is %s, at the server too [mcp.revoke] [policy.profile]',
    async (how) => {
      const trail = join(tempDir(), 'trail');
      const lines = () => {
        try {
          return readFileSync(trail, 'utf8').trim().split('\n');
        } catch {
          return [];
        }
      };
      const host = await openHost([stdioRecord('hanging', 'mid-call.mjs', { env: { TRAIL: trail } })]);
      await host.upsertProfile(sampleProfile('review', { server_ids: ['hanging'] }));
      const answer = callOf(await inject(host.guest(byProfile)), encodedName('hanging', 'hang'));
      await eventually(() => expect(lines()).toHaveLength(1));
      if (how === 'removed') await host.removeProfile('review');
      if (how === 'narrowed') {
        await host.upsertProfile(sampleProfile('review', { server_ids: ['hanging'], tool_denylist: ['h*'] }));
      }
      if (how === 'emptied') await host.upsertProfile(sampleProfile('review'));
      expect((await answer).error?.code).toBe('mcp_policy_denied');
      const reasons = { removed: 'unknown_profile', narrowed: 'denied_by_profile', emptied: 'not_in_profile' };
      expect(finished(host)).toEqual([['denied', reasons[how as keyof typeof reasons]]]);
      await eventually(() => expect(lines().map((line) => line.split(' ')[0])).toEqual(['call', 'cancelled']));
    },
  );

  it('is not disturbed by other profiles, nor is a guest without one by any [sms.kinds]', async () => {
    const host = await openHost([tiny('a')]);
    await host.upsertProfile(sampleProfile('review', { server_ids: ['a'] }));
    const [one, other] = [host.guest(byProfile), host.guest({}, 'run-2')];
    await host.upsertProfile(sampleProfile('elsewhere'));
    await host.removeProfile('elsewhere');
    for (const guest of [one, other])
      expect(await callOf(await inject(guest), encodedName('a', 'pid'))).not.toHaveProperty('error');
  });

  it('is asked again about a call that was approved under another profile', async () => {
    const host = await openHost([tiny('a', { approval_policy: { default: 'always', per_tool: {} } })]);
    await host.upsertProfile(sampleProfile('review', { server_ids: ['a'] }));
    const asked: ApprovalRequest[] = [];
    const decide = async (request: ApprovalRequest) => {
      asked.push(request);
      if (asked.length === 1) {
        await host.upsertProfile(sampleProfile('review', { server_ids: ['a'], tool_denylist: ['fail'] }));
      }
      return 'allow_once' as const;
    };
    const guest = new GuestMcp(host, 'run-1', taskWith(byProfile), { decide });
    expect(await callOf(await inject(guest), encodedName('a', 'pid'))).not.toHaveProperty('error');
    expect(asked).toHaveLength(2);
  });
});
