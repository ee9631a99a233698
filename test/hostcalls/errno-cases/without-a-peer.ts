import { badClose, badDescriptors, casesOf, type ErrnoCase, noSys } from './errno-case.ts';

const LONG_LOG = 'x'.repeat(16_385);

export const systemErrnos: readonly ErrnoCase[] = casesOf('log', [
  'EINVAL',
  'the message has 16385 bytes',
  (guest) => guest.call('log', 2, ...guest.text(LONG_LOG)),
]);

/** Streams: no run has a client side. Audio: not there. */
export const streamErrnos: readonly ErrnoCase[] = [
  ...casesOf(
    'user_stream_open',
    ['EINVAL', 'the direction is 0', (guest) => guest.call('user_stream_open', 1, 0)],
    ['EINVAL', 'the direction is 4', (guest) => guest.call('user_stream_open', 1, 4)],
    ['ENOTCONN', 'the direction is in', (guest) => guest.call('user_stream_open', 1, 1)],
    ['ENOTCONN', 'the direction is out', (guest) => guest.call('user_stream_open', 1, 2)],
    ['ENOTCONN', 'the direction is both', (guest) => guest.call('user_stream_open', 1, 3)],
  ),
  ...casesOf('user_stream_read', [
    'ENOTCONN',
    'always',
    (guest) => guest.call('user_stream_read', 1, ...guest.heap.out(8).args),
  ]),
  ...casesOf('user_stream_write', [
    'ENOTCONN',
    'always',
    (guest) => guest.call('user_stream_write', 1, ...guest.text('SPST')),
  ]),
  ...badClose('user_stream_close'),
  ...casesOf('user_stream_ctl_open', ['ENOTCONN', 'always', (guest) => guest.call('user_stream_ctl_open')]),
  ...casesOf('user_stream_ctl_read', [
    'ENOTCONN',
    'always',
    (guest) => guest.call('user_stream_ctl_read', 1, ...guest.heap.out(8).args),
  ]),
  ...(['rtasr', 'mic'] as const).flatMap((family) => [
    ...noSys(`${family}_create`, 0),
    ...noSys(`${family}_ctl`, 4),
    ...noSys(`${family}_write`, 3),
    ...noSys(`${family}_read`, 3),
    ...noSys(`${family}_close`, 1),
  ]),
];

/** What holds on a host without MCP. */
export const mcpErrnos: readonly ErrnoCase[] = [
  ...casesOf('mcp_open', ['EACCES', 'the host has no MCP', (guest) => guest.call('mcp_open', ...guest.text('fs'))]),
  ...badDescriptors('mcp_list_tools', 'sessions are of the wrong kind', (guest, fd) =>
    guest.call('mcp_list_tools', fd, ...guest.heap.out(64).args),
  ),
  ...badDescriptors('mcp_call_tool', 'sessions are of the wrong kind', (guest, fd) =>
    guest.call('mcp_call_tool', fd, ...guest.text('read'), ...guest.text('{}'), ...guest.heap.out(64).args),
  ),
  ...badDescriptors('mcp_submit', 'sessions are of the wrong kind', (guest, fd) =>
    guest.call('mcp_submit', fd, ...guest.text('read'), ...guest.text('{}')),
  ),
  ...badDescriptors('mcp_result', 'sessions are of the wrong kind', (guest, fd) =>
    guest.call('mcp_result', fd, ...guest.heap.out(64).args),
  ),
  ...badClose('mcp_close'),
  ...casesOf('mcp_registry_list', [
    'EACCES',
    'the host has no MCP',
    (guest) => guest.call('mcp_registry_list', ...guest.heap.out(64).args),
  ]),
  ...casesOf('mcp_registry_get', [
    'EACCES',
    'the host has no MCP',
    (guest) => guest.call('mcp_registry_get', ...guest.text('fs'), ...guest.heap.out(64).args),
  ]),
];
