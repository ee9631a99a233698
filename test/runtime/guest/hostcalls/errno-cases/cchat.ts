import {
  AUTO_TOOL_CALL,
  GET_METRICS,
  newSession,
  readToEnd,
  SET_PARAM,
  STREAM,
  say,
  send,
  setArena,
  setNonblocking,
  setParam,
  writeTool,
} from '../../../../support/chat-calls.ts';
import { slot } from '../../../../support/forwarder.ts';
import { hasCallbacks } from '../../../../support/guest-binding.ts';
import { HELLO, type TestGuest } from '../../../../support/test-guest.ts';
import { badClose, badDescriptors, casesOf, type ErrnoCase } from './errno-case.ts';
import { callsTool, handedBack, pending } from './situations.ts';

const smallMessages = { limits: { max_message_bytes: 8 } };
const smallSessions = { limits: { max_session_bytes: 256 } };
const smallParams = { limits: { max_param_bytes: 32 } };

/** Writes 64 bytes at a time until the session takes no more. */
async function untilFull(write: () => Promise<number>): Promise<number> {
  for (let count = 0; count < 16; count++) {
    const result = await write();
    if (result < 0) return result;
  }
  return 0;
}

/** Sends from inside callbacks, one on top of the other, until the host refuses. */
async function sendFromTheDeepestCallback(guest: TestGuest): Promise<number> {
  let refused = 0;
  const index = guest.tool(async (call) => {
    const result = await guest.call('cchat_send', await sessionWithTool(), AUTO_TOOL_CALL);
    if (result < 0) refused = result;
    return call.answer('done');
  });
  const sessionWithTool = async () => {
    const fd = await newSession(guest);
    await setArena(guest, fd, 1024);
    await writeTool(guest, fd, 'deeper', index);
    return fd;
  };
  await send(guest, await sessionWithTool(), AUTO_TOOL_CALL);
  return refused;
}

/** Only a core module can be entered again while it waits. */
const busyInCallbacks: readonly ErrnoCase[] = casesOf(
  'cchat_send',
  [
    'EBUSY',
    'the callback runs on top of a send of this session',
    async (guest) => {
      let refused = 0;
      const fd = await newSession(guest);
      await setArena(guest, fd, 1024);
      const index = guest.tool(async (call) => {
        refused = await guest.call('cchat_send', fd, 0);
        return call.answer('done');
      });
      await writeTool(guest, fd, 'sum', index);
      await send(guest, fd, AUTO_TOOL_CALL);
      return refused;
    },
    { turns: callsTool('sum') },
  ],
  ['EBUSY', 'callbacks are nested 8 deep', sendFromTheDeepestCallback, { turns: callsTool('deeper') }],
).concat(
  casesOf('cchat_read', [
    'EAGAIN',
    'a callback waits for its own send',
    async (guest) => {
      let refused = 0;
      const fd = await newSession(guest);
      await setArena(guest, fd, 1024);
      const index = guest.tool(async (call) => {
        const out = guest.heap.out(1024);
        for (refused = 1; refused > 0; ) refused = await guest.call('cchat_read', response, ...out.offer(1024).args);
        return call.answer('done');
      });
      await writeTool(guest, fd, 'sum', index);
      const response = await send(guest, fd, AUTO_TOOL_CALL | STREAM);
      await readToEnd(guest, response);
      return refused;
    },
    { turns: callsTool('sum') },
  ]),
);

export const cchatErrnos: readonly ErrnoCase[] = [
  ...(hasCallbacks() ? busyInCallbacks : []),
  ...casesOf(
    'cchat_create',
    [
      'EMFILE',
      'max_fds descriptors are open',
      async (guest) => {
        await guest.call('spear_epoll_create');
        return guest.call('cchat_create');
      },
      { limits: { max_fds: 1 } },
    ],
    [
      'EMFILE',
      'max_sessions sessions are open',
      async (guest) => {
        await guest.call('cchat_create');
        return guest.call('cchat_create');
      },
      { limits: { max_sessions: 1 } },
    ],
  ),

  ...badDescriptors('cchat_write_msg', 'epolls are of the wrong kind', (guest, fd) => say(guest, fd, 'user', 'x')),
  ...casesOf(
    'cchat_write_msg',
    [
      'EMSGSIZE',
      'the content is too long',
      async (guest) => say(guest, await guest.call('cchat_create'), 'user', '123456789'),
      smallMessages,
    ],
    [
      'EMSGSIZE',
      'the role is too long',
      async (guest) => say(guest, await guest.call('cchat_create'), 'r'.repeat(4097), 'x'),
    ],
    [
      'ENOMEM',
      'the session is full',
      async (guest) => {
        const fd = await guest.call('cchat_create');
        return untilFull(() => say(guest, fd, 'user', 'x'.repeat(60)));
      },
      smallSessions,
    ],
  ),

  ...badDescriptors('cchat_write_fn', 'epolls are of the wrong kind', (guest, fd) => writeTool(guest, fd, 'sum', 1)),
  ...casesOf(
    'cchat_write_fn',
    ...(
      [
        ['it is not JSON', '{"name":'],
        ['it is not an object', '"sum"'],
        ['it is empty', ''],
        ['there is no name', '{"description":"adds"}'],
        ['the name is empty', '{"type":"function","function":{"name":""}}'],
        ['the name is no text', '{"name":7}'],
      ] as const
    ).map(([when, json]): [ErrnoCase['errno'], string, ErrnoCase['run']] => [
      'EINVAL',
      when,
      async (guest) => guest.call('cchat_write_fn', await guest.call('cchat_create'), 1, ...guest.text(json)),
    ]),
    [
      'EMSGSIZE',
      'the JSON is too long',
      async (guest) => writeTool(guest, await guest.call('cchat_create'), 'sum', 1),
      smallMessages,
    ],
    [
      'ENOMEM',
      'the session is full',
      async (guest) => {
        const fd = await guest.call('cchat_create');
        return untilFull(() => writeTool(guest, fd, 'n'.repeat(60), 1));
      },
      smallSessions,
    ],
  ),

  ...badDescriptors('cchat_write_tool_result', 'epolls are of the wrong kind', (guest, fd) =>
    guest.call('cchat_write_tool_result', fd, ...guest.text('call_1'), ...guest.text('{}')),
  ),
  ...casesOf(
    'cchat_write_tool_result',
    [
      'ENOENT',
      'no call is pending',
      async (guest) =>
        guest.call('cchat_write_tool_result', await newSession(guest), ...guest.text('call_1'), ...guest.text('{}')),
    ],
    [
      'ENOENT',
      'another call is pending',
      async (guest) =>
        guest.call('cchat_write_tool_result', await handedBack(guest), ...guest.text('call_2'), ...guest.text('{}')),
      { turns: callsTool('sum') },
    ],
    [
      'ENOENT',
      'it was answered already',
      async (guest) => {
        const fd = await handedBack(guest);
        const answer = () => guest.call('cchat_write_tool_result', fd, ...guest.text('call_1'), ...guest.text('{}'));
        await answer();
        return answer();
      },
      { turns: callsTool('sum') },
    ],
    [
      'EMSGSIZE',
      'the content is too long',
      async (guest) =>
        guest.call(
          'cchat_write_tool_result',
          await handedBack(guest),
          ...guest.text('call_1'),
          ...guest.text('x'.repeat(65)),
        ),
      { turns: callsTool('sum'), limits: { max_message_bytes: 64 } },
    ],
    [
      'ENOMEM',
      'the session is full',
      async (guest) =>
        guest.call(
          'cchat_write_tool_result',
          await handedBack(guest),
          ...guest.text('call_1'),
          ...guest.text('x'.repeat(1024)),
        ),
      { turns: callsTool('sum'), limits: { max_session_bytes: 1024 } },
    ],
  ),

  ...badDescriptors('cchat_ctl', 'epolls are of the wrong kind', (guest, fd) => setParam(guest, fd, 'temperature', 1)),
  ...casesOf(
    'cchat_ctl',
    ['EBADF', 'GET_METRICS of a session', async (guest) => metrics(guest, await newSession(guest), 1024)],
    [
      'EBADF',
      'SET_PARAM of a response',
      async (guest) => setParam(guest, await send(guest, await newSession(guest)), 'a', 1),
    ],
    ['EINVAL', 'the command is unknown', async (guest) => guest.call('cchat_ctl', await newSession(guest), 3, 0, 0)],
    [
      'EINVAL',
      'a number has the wrong type',
      async (guest) => setParam(guest, await newSession(guest), 'max_iterations', '8'),
    ],
    ['EINVAL', 'a number is below 1', async (guest) => setParam(guest, await newSession(guest), 'timeout_ms', 0)],
    [
      'EINVAL',
      'a number is not whole',
      async (guest) => setParam(guest, await newSession(guest), 'max_tool_calls', 1.5),
    ],
    [
      'EINVAL',
      'the arena is negative',
      async (guest) => setParam(guest, await newSession(guest), 'tool_arena_ptr', -1),
    ],
    [
      'EINVAL',
      'the arena is no number',
      async (guest) => setParam(guest, await newSession(guest), 'tool_arena_len', '64'),
    ],
    ['EINVAL', 'the model is no text', async (guest) => setParam(guest, await newSession(guest), 'model', 4)],
    ['EINVAL', 'tool_choice is a number', async (guest) => setParam(guest, await newSession(guest), 'tool_choice', 1)],
    [
      'EACCES',
      'the key is the host’s own',
      async (guest) => setParam(guest, await newSession(guest), 'mcp.task_enabled', true),
    ],
    ['EACCES', 'the task has MCP off', async (guest) => setParam(guest, await newSession(guest), 'mcp.enabled', true)],
    [
      'EACCES',
      'the history is written by its own calls',
      async (guest) => setParam(guest, await newSession(guest), 'messages', []),
    ],
    [
      'EACCES',
      'tools are written by their own call',
      async (guest) => setParam(guest, await newSession(guest), 'tools', []),
    ],
    ['EIO', 'it is not JSON', (guest) => setRaw(guest, '{"key":')],
    ['EIO', 'it is empty', (guest) => setRaw(guest, '')],
    ['EIO', 'it is not an object', (guest) => setRaw(guest, '[1]')],
    ['EIO', 'the key is empty', (guest) => setRaw(guest, '{"key":"","value":1}')],
    ['EIO', 'the key is no text', (guest) => setRaw(guest, '{"key":1,"value":1}')],
    ['EIO', 'there is no value', (guest) => setRaw(guest, '{"key":"temperature"}')],
    [
      'EMSGSIZE',
      'the JSON is too long',
      async (guest) => setParam(guest, await newSession(guest), 'user', 'x'.repeat(32)),
      smallParams,
    ],
    [
      'ENOMEM',
      'the session is full',
      async (guest) => {
        const fd = await guest.call('cchat_create');
        return untilFull(() => setParam(guest, fd, 'user', 'x'.repeat(40)));
      },
      smallSessions,
    ],
    ['EAGAIN', 'the response is pending', async (guest) => metrics(guest, await pending(guest), 1024)],
    [
      'ENOSPC',
      'the metrics do not fit',
      async (guest) => metrics(guest, await send(guest, await newSession(guest)), 4),
    ],
  ),

  ...badDescriptors('cchat_send', 'epolls are of the wrong kind', (guest, fd) => guest.call('cchat_send', fd, 0)),
  ...casesOf(
    'cchat_send',
    [
      'EBUSY',
      'a send of the session is running',
      async (guest) => {
        const fd = await newSession(guest);
        await setNonblocking(guest, fd);
        guest.backend.hold();
        await guest.call('cchat_send', fd, 0);
        return guest.call('cchat_send', fd, 0);
      },
    ],
    [
      'EINVAL',
      'a handed-back call is unanswered',
      async (guest) => guest.call('cchat_send', await handedBack(guest), 0),
      { turns: callsTool('sum') },
    ],
    ['EINVAL', 'the next flag is set', async (guest) => guest.call('cchat_send', await newSession(guest), 16)],
    ['EINVAL', 'a flag is unknown', async (guest) => guest.call('cchat_send', await newSession(guest), -2147483648)],
    [
      'EMFILE',
      'max_fds descriptors are open',
      async (guest) => guest.call('cchat_send', await newSession(guest), 0),
      { limits: { max_fds: 1 } },
    ],
    [
      'EAGAIN',
      'as many sends as there may be were cancelled, and the host has not let go of them',
      async (guest) => {
        const fd = await newSession(guest);
        await setNonblocking(guest, fd);
        await guest.call('cchat_close', await guest.call('cchat_send', fd, 0));
        return guest.call('cchat_send', fd, 0);
      },
      { limits: { max_pending_calls: 1 } },
    ],
    [
      'ENOMEM',
      'the answers that are kept have as many bytes as there may be',
      async (guest) => {
        await send(guest, await newSession(guest));
        return guest.call('cchat_send', await newSession(guest), 0);
      },
      { limits: { max_answer_bytes: 1 } },
    ],
  ),

  ...badDescriptors('cchat_recv', 'sessions are of the wrong kind', (guest, fd) =>
    guest.call('cchat_recv', fd, ...guest.heap.out(64).args),
  ),
  ...casesOf(
    'cchat_recv',
    [
      'EAGAIN',
      'the response is pending',
      async (guest) => guest.call('cchat_recv', await pending(guest), ...guest.heap.out(64).args),
    ],
    [
      'ECANCELED',
      'the response was canceled',
      async (guest) => {
        const response = await pending(guest);
        await guest.call('spear_fd_cancel', response);
        return guest.call('cchat_recv', response, ...guest.heap.out(64).args);
      },
    ],
    [
      'ECANCELED',
      'its session was closed',
      async (guest) => {
        const response = await pending(guest);
        await guest.call('cchat_close', response - 1);
        return guest.call('cchat_recv', response, ...guest.heap.out(64).args);
      },
    ],
    [
      'ENOSPC',
      'the body does not fit',
      async (guest) => guest.call('cchat_recv', await send(guest, await newSession(guest)), ...guest.heap.out(8).args),
      { turns: HELLO },
    ],
  ),
  ...badDescriptors('cchat_read', 'sessions are of the wrong kind', (guest, fd) =>
    guest.call('cchat_read', fd, ...guest.heap.out(64).args),
  ),
  ...casesOf(
    'cchat_read',
    [
      'EINVAL',
      'the send was not streamed',
      async (guest) => guest.call('cchat_read', await send(guest, await newSession(guest)), ...guest.heap.out(64).args),
    ],
    [
      'EAGAIN',
      'nothing has come',
      async (guest) => {
        const fd = await newSession(guest);
        await setNonblocking(guest, fd);
        guest.backend.hold();
        return guest.call('cchat_read', await send(guest, fd, STREAM), ...guest.heap.out(64).args);
      },
    ],
    [
      'ECANCELED',
      'the response was canceled',
      async (guest) => {
        guest.backend.hold();
        const response = await send(guest, await newSession(guest), STREAM);
        await guest.call('spear_fd_cancel', response);
        return guest.call('cchat_read', response, ...guest.heap.out(64).args);
      },
    ],
    [
      'ENOSPC',
      'the first event does not fit',
      async (guest) =>
        guest.call('cchat_read', await send(guest, await newSession(guest), STREAM), ...guest.heap.out(8).args),
      { turns: HELLO },
    ],
  ),
  ...badClose('cchat_close'),
  ...casesOf('cchat_close', [
    'EBADF',
    'the fd is a slot of the table',
    (guest) => guest.call('cchat_close', slot.trap),
  ]),
];

function metrics(guest: TestGuest, fd: number, capacity: number): Promise<number> {
  return guest.call('cchat_ctl', fd, GET_METRICS, ...guest.heap.out(capacity).args);
}

async function setRaw(guest: TestGuest, json: string): Promise<number> {
  return guest.call('cchat_ctl', await newSession(guest), SET_PARAM, ...guest.heap.arg(json));
}
