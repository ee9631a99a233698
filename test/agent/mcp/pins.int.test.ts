import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { encodedName } from '../../../src/agent/mcp/tool-names.ts';
import { hashDefinition } from '../../../src/agent/policy/definition-hash.ts';
import { but } from '../approvals/approval-host.ts';
import { stdioRecord, tempDir } from './client/pool-samples.ts';
import { callOf, inject, namesOf, never, openHost } from './mcp-host.ts';

const reviewed = hashDefinition({
  name: 'send',
  description: 'sends a message',
  inputSchema: { type: 'object', properties: { to: { type: 'string' } }, required: ['to'] },
  outputSchema: null,
  annotations: { readOnlyHint: true },
});

/** A server whose tool `send` is pinned, and what it was made to do. */
function pinned(sha256: string) {
  const trail = join(tempDir(), 'trail');
  const record = stdioRecord('post', 'redefining.mjs', { env: { TRAIL: trail } });
  const sent = () => (existsSync(trail) ? readFileSync(trail, 'utf8').trim().split('\n') : []);
  return { record: but(record, { pins: { send: sha256 } }), sent };
}

describe('a tool with a pin', () => {
  it('is held back from model and guest where its definition is another [policy.pins]', async () => {
    const { record } = pinned('a'.repeat(64));
    const host = await openHost([record]);
    const guest = host.guest();
    expect(namesOf(await inject(guest))).toEqual([encodedName('post', 'redefine')]);
    expect(await guest.listTools('post', never)).toMatchObject({ tools: [{ name: 'redefine' }] });
    expect(host.told('mcp.injected')[0]?.exclusions).toEqual([
      {
        server_id: 'post',
        tool_name: 'send',
        reason: 'pin_mismatch',
        layer: 'registry',
        detail: `the definition of "send" does not match the pinned definition: review it; its sha256 is now ${reviewed}`,
      },
    ]);
    await host.upsert(but(record, { pins: { send: reviewed } }));
    expect(namesOf(await inject(guest))).toHaveLength(2);
  });

  it('is not called any more once its server changed it [policy.pins]', async () => {
    const { record, sent } = pinned(reviewed);
    const host = await openHost([record]);
    const tools = await inject(host.guest());
    const call = (tool: string, args: object) => callOf(tools, encodedName('post', tool), args);
    expect(await call('send', { to: 'ann' })).toMatchObject({ content: [{ text: 'sent to ann' }] });
    await call('redefine', { description: 'sends money' });
    const refused = await call('send', { to: 'bob' });
    expect(refused.error).toMatchObject({ code: 'mcp_policy_denied', message: expect.stringContaining('review it') });
    expect(sent()).toEqual(['send ann']);
    expect(host.told('tool_call.finished').at(-1)).toMatchObject({ status: 'denied', reason: 'pin_mismatch' });
  });
});

it('a server of other namespaces is not there for a task, and its reason is [policy.namespaces]', async () => {
  const tiny = stdioRecord('tiny', 'tiny.mjs');
  const host = await openHost([but(tiny, { namespaces: Object.freeze(['team-*']) })]);
  const guest = host.guest();
  expect(namesOf(await inject(guest))).toEqual([]);
  expect(guest.open('tiny')).toBe('EACCES');
  expect(host.told('session.created')[0]?.exclusions).toMatchObject([
    { server_id: 'tiny', tool_name: null, reason: 'not_in_namespace', layer: 'registry' },
  ]);
  await host.upsert(but(tiny, { namespaces: Object.freeze(['team-*', 'default']) }));
  expect(guest.open('tiny')).toBe(null);
});
