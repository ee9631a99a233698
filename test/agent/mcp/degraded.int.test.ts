import { describe, expect, it, vi } from 'vitest';
import { McpConnectionError } from '../../../src/agent/mcp/client/errors.ts';
import type { RunDegradation } from '../../../src/server/records/run.ts';
import { stdioRecord } from './client/pool-samples.ts';
import { inject, openHost } from './mcp-host.ts';

const HOUR_MS = '3600000';
const tiny = stdioRecord('tiny', 'tiny.mjs');
const mute = stdioRecord('mute', 'lists.mjs', { args: ['slow', HOUR_MS] });
const crash = stdioRecord('crash', 'lists.mjs', { args: ['killed'] });
const serversOf = (degraded: readonly RunDegradation[]) => degraded.map(({ server }) => server);

describe('a run is degraded', () => {
  it('by servers that hang, crash, are missing or belong to another namespace [mcp.degraded]', async () => {
    const host = await openHost([tiny, mute, crash, { ...tiny, server_id: 'theirs', namespaces: ['payments'] }], {
      limits: { listTimeoutMs: 300 },
    });
    const guest = host.guest({ defaultServerIds: ['crash', 'ghost', 'mute', 'theirs', 'tiny'] });
    const { definitions } = await inject(guest);
    expect(definitions.length).toBeGreaterThan(0);
    expect(serversOf(guest.degraded).sort()).toEqual(['crash', 'ghost', 'mute', 'theirs']);
    const reasons = Object.fromEntries(guest.degraded.map(({ server, reason }) => [server, reason]));
    expect(reasons.ghost).toContain('is not in the registry');
    expect(reasons.mute).toContain('300 ms');
  });

  it('by a stdio policy that denies its server [mcp.degraded]', async () => {
    const host = await openHost([tiny], { stdio: 'deny' });
    const guest = host.guest();
    await inject(guest);
    expect(guest.degraded).toEqual([{ server: 'tiny', reason: expect.stringContaining('stdio') }]);
  });

  it('by a sandbox that is missing [mcp.degraded]', async () => {
    const host = await openHost([tiny], { stdio: 'sandboxed', sandboxCommand: '/nonexistent/bwrap' });
    const guest = host.guest();
    await inject(guest);
    expect(serversOf(guest.degraded)).toEqual(['tiny']);
  });

  it('by a selection that finds no server [mcp.degraded]', async () => {
    const host = await openHost([tiny]);
    const guest = host.guest({ defaultServerIds: null, allowedServerIds: null, serverTags: ['scm'] });
    await inject(guest);
    expect(serversOf(guest.degraded)).toEqual(['*']);
  });

  it('however its guest asks for the server [mcp.degraded]', async () => {
    const host = await openHost([crash], { limits: { listTimeoutMs: 300 } });
    const guest = host.guest({ defaultServerIds: ['crash', 'ghost'] });
    expect(guest.open('ghost')).toBe('ENOENT');
    expect(await guest.listTools('crash', new AbortController().signal)).toBe('ENOTCONN');
    expect(serversOf(guest.degraded)).toEqual(['ghost', 'crash']);
  });

  it('with its first reason, and the send waits until that is stored [mcp.degraded]', async () => {
    const host = await openHost([crash]);
    const stored = Promise.withResolvers<void>();
    const shown: (readonly RunDegradation[])[] = [];
    const troubles = {
      onDegraded: (all: readonly RunDegradation[]) => {
        shown.push(all);
        return stored.promise;
      },
    };
    const guest = host.guest({ defaultServerIds: ['crash'] }, 'run-1', troubles);
    let isSent = false;
    const sending = inject(guest).then(() => {
      isSent = true;
    });
    await expect.poll(() => shown.length).toBe(1);
    expect(isSent).toBe(false);
    stored.resolve();
    await sending;
    await inject(guest);
    expect(shown).toHaveLength(1);
  });
});

describe('a run is not degraded', () => {
  it('by what its task or its session excludes [mcp.degraded]', async () => {
    const host = await openHost([tiny, mute]);
    const guest = host.guest({ defaultServerIds: ['tiny'], allowedServerIds: ['tiny', 'mute'], toolDenylist: ['*'] });
    await inject(guest);
    await inject(guest, { session: 'chat-2', params: [['mcp.enabled', false]] });
    expect(guest.degraded).toEqual([]);
  });

  it('by a send that its guest cancels [mcp.degraded]', async () => {
    const host = await openHost([mute]);
    const guest = host.guest();
    const cancel = new AbortController();
    const sending = inject(guest, { signal: cancel.signal });
    cancel.abort(new DOMException('cancelled by the guest', 'AbortError'));
    await sending;
    expect(guest.degraded).toEqual([]);
  });

  it('but is by a send that times out while its server hangs [mcp.degraded]', async () => {
    const host = await openHost([mute]);
    const guest = host.guest();
    const late = new AbortController();
    const sending = inject(guest, { signal: late.signal });
    late.abort(new DOMException('over 10 ms', 'TimeoutError'));
    await sending;
    expect(serversOf(guest.degraded)).toEqual(['mute']);
  });
});

describe('required servers', () => {
  it('are listed at the start, and each that is missing is named with its reason [mcp.required]', async () => {
    const host = await openHost([tiny, crash]);
    const require = (requiredServerIds: readonly string[]) =>
      host.guest({ defaultServerIds: ['tiny', 'crash', 'ghost'], requiredServerIds }).requireServers(null);
    expect(await require(['tiny'])).toBeNull();
    expect(await require(['tiny', 'crash', 'ghost'])).toEqual({
      message: expect.stringMatching(
        /^required server crash: .*; required server ghost: "ghost" is not in the registry$/,
      ),
      exhausted: null,
    });
  });

  it('that this host has no resources for do not mark the run, which can be retried [node.pressure]', async () => {
    const host = await openHost([tiny]);
    vi.spyOn(host.pool, 'listTools').mockRejectedValue(
      new McpConnectionError('tiny', 'spawn_failed', 'server "tiny" could not be started', undefined, 'EMFILE'),
    );
    const guest = host.guest({ defaultServerIds: ['tiny'], requiredServerIds: ['tiny'] });
    expect(await guest.requireServers(null)).toMatchObject({ exhausted: 'EMFILE' });
    expect(guest.degraded).toEqual([]);
  });
});
