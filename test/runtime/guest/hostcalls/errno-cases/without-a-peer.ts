import { badClose, badDescriptors, casesOf, type ErrnoCase, noSys } from './errno-case.ts';

const LONG_LOG = 'x'.repeat(16_385);

export const systemErrnos: readonly ErrnoCase[] = casesOf('log', [
  'EINVAL',
  'the message has 16385 bytes',
  (guest) => guest.call('log', 2, ...guest.text(LONG_LOG)),
]);

/** Audio: not there. */
export const audioErrnos: readonly ErrnoCase[] = [
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
  ...badDescriptors('mcp_list_resources', 'sessions are of the wrong kind', (guest, fd) =>
    guest.call('mcp_list_resources', fd, ...guest.heap.out(64).args),
  ),
  ...badDescriptors('mcp_read_resource', 'sessions are of the wrong kind', (guest, fd) =>
    guest.call('mcp_read_resource', fd, ...guest.text('file:///a'), ...guest.heap.out(64).args),
  ),
  ...badDescriptors('mcp_list_prompts', 'sessions are of the wrong kind', (guest, fd) =>
    guest.call('mcp_list_prompts', fd, ...guest.heap.out(64).args),
  ),
  ...badDescriptors('mcp_get_prompt', 'sessions are of the wrong kind', (guest, fd) =>
    guest.call('mcp_get_prompt', fd, ...guest.text('ask'), ...guest.text('{}'), ...guest.heap.out(64).args),
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
