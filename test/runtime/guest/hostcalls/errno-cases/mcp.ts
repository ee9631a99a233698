import { expect } from 'vitest';
import { GuestMcp } from '../../../../../src/agent/mcp/guest-mcp.ts';
import { RegistryCache } from '../../../../../src/registry-client/cache.ts';
import { inProcessSource } from '../../../../../src/registry-client/source.ts';
import type { LimitName } from '../../../../../src/runtime/port/limits.ts';
import type { TaskPolicy } from '../../../../../src/runtime/port/policy-layers.ts';
import type { McpServerRecord } from '../../../../../src/server/records/server.ts';
import { createMemoryStore } from '../../../../../src/server/store/local-store.ts';
import { type PoolSample, stdioRecord } from '../../../../agent/mcp/client/pool-samples.ts';
import { callInto, openServer, resultCode, submit, submitted } from '../../../../agent/mcp/mcp-calls.ts';
import { type McpHost, openHost } from '../../../../agent/mcp/mcp-host.ts';
import { taskWith } from '../../../../agent/policy/policy-samples.ts';
import { sampleRecord } from '../../../../server/records/server-samples.ts';
import { setNonblocking } from '../../../../support/chat-calls.ts';
import type { TestGuest, TestGuestOptions } from '../../../../support/test-guest.ts';
import { casesOf, type ErrnoCase } from './errno-case.ts';

const closed = sampleRecord('closed', { allowed_tools: [] });
export const dead = sampleRecord('dead', { stdio: { command: '/nonexistent/server' } });
export const tiny = stdioRecord('tiny', 'tiny.mjs');
const hanging = stdioRecord('hanging', 'mid-call.mjs');
const slow = stdioRecord('slow', 'lists.mjs', { args: ['slow', '600000'] });

const answersLate = stdioRecord('slow', 'lists.mjs', { args: ['slow', '2000'] });

interface Sample extends PoolSample {
  readonly records?: readonly McpServerRecord[];
  readonly task?: Partial<TaskPolicy>;
  readonly guestLimits?: Partial<Record<LimitName, number>>;
}

type Run = (guest: TestGuest, host: McpHost) => Promise<number>;

/** On a host that has MCP, with real servers. */
export function withMcp(run: Run, sample: Sample = {}): [ErrnoCase['run'], TestGuestOptions] {
  const { records = [tiny, hanging], task = {}, guestLimits = {}, ...pool } = sample;
  let host: McpHost;
  const mcp = async () => {
    host = await openHost(records, pool);
    return host.side(task);
  };
  return [(guest) => run(guest, host), { mcp, limits: guestLimits }];
}

/** The same before the first snapshot of the registry. */
function beforeSnapshot(run: ErrnoCase['run']): [ErrnoCase['run'], TestGuestOptions] {
  const mcp = async () => {
    const host = await openHost([]);
    const registry = new RegistryCache({ source: inProcessSource(createMemoryStore()) });
    const guest = new GuestMcp({ ...host, registry }, 'test', taskWith({ defaultServerIds: ['tiny'] }));
    return { guest, audit: host.audit, events: host.events };
  };
  return [run, { mcp }];
}

const open =
  (id: string): Run =>
  (guest) =>
    guest.call('mcp_open', ...guest.text(id));
const get =
  (id: string, capacity = 1024): Run =>
  (guest) =>
    guest.call('mcp_registry_get', ...guest.text(id), ...guest.heap.out(capacity).args);
const registry =
  (capacity = 1024): Run =>
  (guest) =>
    guest.call('mcp_registry_list', ...guest.heap.out(capacity).args);
const list = (guest: TestGuest, fd: number, capacity = 8192) =>
  guest.call('mcp_list_tools', fd, ...guest.heap.out(capacity).args);
const hang = async (guest: TestGuest, nonblocking = false) => {
  const fd = await openServer(guest, 'hanging');
  if (nonblocking) await setNonblocking(guest, fd);
  return submitted(guest, fd, 'hang');
};
/** A server, after a call whose answer is kept by its descriptor. */
export const keptAnswer = async (guest: TestGuest) => {
  const fd = await openServer(guest, 'tiny');
  expect(await resultCode(guest, await submitted(guest, fd, 'pid'))).toBeGreaterThan(0);
  return fd;
};
export const keepsLittle = { guestLimits: { max_answer_bytes: 1 } };
const large = { guestLimits: { max_message_bytes: 16 } };
const LONG = '{"message":"more than sixteen bytes"}';
const foreign = { records: [tiny, dead], task: { defaultServerIds: ['tiny'] } };

/** What needs a registry or a server. */
export const mcpPeerErrnos: readonly ErrnoCase[] = [
  ...casesOf(
    'mcp_open',
    ['EACCES', 'the task has MCP off', ...withMcp(open('tiny'), { task: { enabled: false } })],
    ['EACCES', 'the server is not the task’s', ...withMcp(open('dead'), foreign)],
    ['EACCES', 'the server is neither the task’s nor known', ...withMcp(open('nowhere'), foreign)],
    ['EACCES', 'the id is no id', ...withMcp(open(''))],
    ['EACCES', 'the id is longer than a name may be', ...withMcp(open('x'.repeat(5000)))],
    ['EACCES', 'all tools of the server are denied', ...withMcp(open('closed'), { records: [closed] })],
    ['ENOENT', 'the server is unknown', ...withMcp(open('gone'), { task: { defaultServerIds: ['gone'] } })],
    ['EAGAIN', 'there is no snapshot yet', ...beforeSnapshot((guest) => guest.call('mcp_open', ...guest.text('tiny')))],
    [
      'EMFILE',
      'the table is full',
      ...withMcp(
        async (guest) => {
          await guest.call('spear_epoll_create');
          return guest.call('mcp_open', ...guest.text('tiny'));
        },
        { guestLimits: { max_fds: 1 } },
      ),
    ],
  ),
  ...casesOf(
    'mcp_list_tools',
    [
      'EACCES',
      'the server was removed',
      ...withMcp(async (guest, host) => {
        const fd = await openServer(guest, 'tiny');
        await host.remove('tiny');
        return list(guest, fd);
      }),
    ],
    [
      'EACCES',
      'the server is removed while it is asked',
      ...withMcp(
        async (guest, host) => {
          const fd = await openServer(guest, 'slow');
          const listed = list(guest, fd);
          await expect.poll(() => host.pool.stats().connected).toBe(1);
          await host.remove('slow');
          return listed;
        },
        { records: [slow] },
      ),
    ],
    [
      'EACCES',
      'all its tools are denied while it is asked',
      ...withMcp(
        async (guest, host) => {
          const fd = await openServer(guest, 'slow');
          const listed = list(guest, fd);
          await expect.poll(() => host.pool.stats().connected).toBe(1);
          await host.upsert(Object.freeze({ ...answersLate, allowed_tools: [] }));
          return listed;
        },
        { records: [answersLate] },
      ),
    ],
    [
      'ENOTCONN',
      'the server cannot be started',
      ...withMcp(async (guest) => list(guest, await openServer(guest, 'dead')), { records: [dead] }),
    ],
    [
      'ETIMEDOUT',
      'the server does not answer',
      ...withMcp(async (guest) => list(guest, await openServer(guest, 'slow')), {
        records: [slow],
        limits: { listTimeoutMs: 300 },
      }),
    ],
    ['ENOSPC', 'the buffer is small', ...withMcp(async (guest) => list(guest, await openServer(guest, 'tiny'), 8))],
  ),
  ...casesOf(
    'mcp_call_tool',
    [
      'EMSGSIZE',
      'the arguments are too large',
      ...withMcp(async (guest) => (await callInto(guest, await openServer(guest, 'tiny'), 'echo', LONG, 64)).rc, large),
    ],
    [
      'EMSGSIZE',
      'the name of the tool is longer than a name may be',
      ...withMcp(
        async (guest) => (await callInto(guest, await openServer(guest, 'tiny'), 'x'.repeat(5000), '', 64)).rc,
      ),
    ],
    [
      'ENOSPC',
      'the buffer is small',
      ...withMcp(async (guest) => (await callInto(guest, await openServer(guest, 'tiny'), 'pid', '', 8)).rc),
    ],
    [
      'EAGAIN',
      'the arguments of calls in flight reach the limit',
      ...withMcp(
        async (guest) => {
          await submitted(guest, await openServer(guest, 'hanging'), 'hang', '{}');
          return (await callInto(guest, await openServer(guest, 'tiny'), 'echo', '{"text":"x"}', 64)).rc;
        },
        { guestLimits: { max_pending_bytes: 1 } },
      ),
    ],
    [
      'ENOMEM',
      'answers are kept',
      ...withMcp(async (guest) => (await callInto(guest, await keptAnswer(guest), 'pid', '', 64)).rc, keepsLittle),
    ],
  ),
  ...casesOf(
    'mcp_submit',
    [
      'EMSGSIZE',
      'the arguments are too large',
      ...withMcp(async (guest) => submit(guest, await openServer(guest, 'tiny'), 'echo', LONG), large),
    ],
    [
      'EAGAIN',
      'as many calls as there may be are pending',
      ...withMcp(
        async (guest) => {
          await hang(guest);
          return submit(guest, await openServer(guest, 'tiny'), 'pid');
        },
        { guestLimits: { max_pending_calls: 1 } },
      ),
    ],
    [
      'EAGAIN',
      'the arguments of calls in flight reach the limit',
      ...withMcp(
        async (guest) => {
          await submitted(guest, await openServer(guest, 'hanging'), 'hang', '{}');
          return submit(guest, await openServer(guest, 'tiny'), 'echo', '{"text":"x"}');
        },
        { guestLimits: { max_pending_bytes: 1 } },
      ),
    ],
    [
      'ENOMEM',
      'answers are kept',
      ...withMcp(async (guest) => submit(guest, await keptAnswer(guest), 'pid'), keepsLittle),
    ],
    [
      'EMFILE',
      'the table is full',
      ...withMcp(async (guest) => submit(guest, await openServer(guest, 'tiny'), 'pid'), {
        guestLimits: { max_fds: 1 },
      }),
    ],
  ),
  ...casesOf(
    'mcp_result',
    ['EAGAIN', 'the call is pending', ...withMcp(async (guest) => resultCode(guest, await hang(guest, true)))],
    [
      'ECANCELED',
      'the call was canceled',
      ...withMcp(async (guest) => {
        const call = await hang(guest);
        await guest.call('spear_fd_cancel', call);
        return resultCode(guest, call);
      }),
    ],
    [
      'ENOSPC',
      'the buffer is small',
      ...withMcp(async (guest) => {
        const call = await submitted(guest, await openServer(guest, 'tiny'), 'pid');
        return guest.call('mcp_result', call, ...guest.heap.out(8).args);
      }),
    ],
  ),
  ...casesOf(
    'mcp_registry_list',
    ['EACCES', 'the task has MCP off', ...withMcp(registry(), { task: { enabled: false } })],
    [
      'EAGAIN',
      'there is no snapshot yet',
      ...beforeSnapshot((guest) => guest.call('mcp_registry_list', ...guest.heap.out(64).args)),
    ],
    ['ENOSPC', 'the buffer is small', ...withMcp(registry(8))],
  ),
  ...casesOf(
    'mcp_registry_get',
    ['EACCES', 'the server is not the task’s', ...withMcp(get('dead'), foreign)],
    ['EACCES', 'all tools of the server are denied', ...withMcp(get('closed'), { records: [closed] })],
    ['ENOENT', 'the server is unknown', ...withMcp(get('gone'), { task: { defaultServerIds: ['gone'] } })],
    [
      'EAGAIN',
      'there is no snapshot yet',
      ...beforeSnapshot((guest) => guest.call('mcp_registry_get', ...guest.text('tiny'), ...guest.heap.out(64).args)),
    ],
    ['ENOSPC', 'the buffer is small', ...withMcp(get('tiny', 8))],
  ),
];
