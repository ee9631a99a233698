import { type Call, call, FRAME_BYTES, MAX_STREAMS, type TextLimit } from './call-row.ts';

export {
  type Call,
  type Command,
  FRAME_BYTES,
  LOG_BYTES,
  MAX_STREAMS,
  NAME_BYTES,
  type Param,
  type ParamKind,
  type Support,
  type TextLimit,
} from './call-row.ts';

export const abiVersion = { major: 1, minor: 1 } as const;

const fd = { name: 'fd', kind: 'fd' } as const;
const out = { name: 'out', kind: 'out' } as const;
const outBytes = { name: 'out', kind: 'out', bytes: true } as const;
const arg = { name: 'arg', kind: 'arg' } as const;
const i32 = (name: string) => ({ name, kind: 'i32' }) as const;
const text = (name: string, limit: TextLimit = 'name') => ({ name, kind: 'text', limit }) as const;
const bytes = (name: string, limit: TextLimit) => ({ name, kind: 'bytes', limit }) as const;

const outside = 'a pointer range leaves the memory';
const tooSmall = 'the out-buffer is too small; the needed size is in *out_len_ptr, nothing is consumed';
const hostBusy = 'the host still works on limits.max_pending_calls sends and calls, cancelled ones included';
const answersKept = 'the open descriptors keep limits.max_answer_bytes of answers';
const tooManyFds = 'limits.max_fds descriptors are open';

const ours = { ours: true } as const;
const absent = { support: 'absent' } as const;
const noSys = { ENOSYS: 'not implemented by this host' } as const;
const notConnected = { ENOTCONN: 'no client side is attached to this run' } as const;

/** Of a call that asks a server for a list. */
const serverErrnos = {
  EFAULT: outside,
  EBADF: 'not an open McpSession',
  EACCES: 'the server was revoked',
  ENOTCONN: 'the server is down',
  ETIMEDOUT: 'the server did not answer in time',
  ENOSPC: tooSmall,
} as const;

/** Of a call that waits for what a server does. */
const waitingErrnos = {
  EFAULT: outside,
  EBADF: 'not an open McpSession',
  EMSGSIZE: 'the arguments are larger than limits.max_message_bytes',
  EAGAIN: `${hostBusy}, or their arguments have limits.max_pending_bytes`,
  ENOMEM: answersKept,
  ENOSPC: tooSmall,
} as const;

const chatCommands = {
  1: { name: 'SET_PARAM', arg: 'in' },
  2: { name: 'GET_METRICS', arg: 'out' },
} as const;

const fdCommands = {
  1: { name: 'SET_FLAGS', arg: 'in' },
  2: { name: 'GET_FLAGS', arg: 'out' },
  3: { name: 'GET_KIND', arg: 'out' },
  4: { name: 'GET_STATUS', arg: 'out' },
  5: { name: 'GET_METRICS', arg: 'out' },
  6: { name: 'CLOSE', arg: 'none' },
} as const;

/** The hostcalls in the order of the ABI page: the single source of the bindings, the page and the SDK checks. */
export const calls = [
  call('spear_abi_version', [], 'major << 16 | minor of this ABI', {}, { gives: 'number', ours: true }),
  call(
    'spear_feature',
    [text('name')],
    '1 if this host has the named feature, else 0',
    { EFAULT: outside },
    { gives: 'number', ours: true },
  ),
  call('time_now_ms', [], 'milliseconds since the Unix epoch', {}, { result: 'i64', records: ['value'] }),
  call('wall_time_s', [], 'seconds since the Unix epoch', {}, { result: 'i64', records: ['value'] }),
  call('random_i64', [], '64 random bits', {}, { result: 'i64', records: ['value'] }),
  call(
    'sleep_ms',
    [i32('ms')],
    'suspends the guest, never the thread',
    {},
    { result: 'none', mode: 'suspending', records: ['messages', 'timeout'] },
  ),
  call(
    'log',
    [i32('level'), text('message', 'log')],
    '0 trace, 1 debug, 2 info, 3 warn, 4 error, anything else info; 0',
    {
      EFAULT: outside,
      EINVAL: 'the message is longer than 16384 bytes',
    },
  ),

  call(
    'cchat_create',
    [],
    "a ChatSession fd; the task's MCP defaults are applied here",
    { EMFILE: 'limits.max_fds descriptors or limits.max_sessions sessions are open' },
    { gives: 'fd' },
  ),
  call(
    'cchat_write_msg',
    [fd, text('role'), text('content', 'message')],
    'appends a message; during a send it applies to the next one; 0',
    {
      EFAULT: outside,
      EBADF: 'not an open ChatSession',
      EMSGSIZE: 'the message is larger than limits.max_message_bytes',
      ENOMEM: 'the session holds limits.max_session_bytes, or all of them limits.max_chat_bytes',
    },
  ),
  call(
    'cchat_write_fn',
    [fd, i32('fn_offset'), text('json', 'message')],
    'registers a guest tool: an OpenAI tool object or its bare function object; fn_offset is an index into the exported function table, or -1 for a tool that is handed back; 0',
    {
      EFAULT: outside,
      EBADF: 'not an open ChatSession',
      EINVAL: 'invalid JSON, or no function name',
      EMSGSIZE: 'the JSON is larger than limits.max_message_bytes',
      ENOMEM: 'the session holds limits.max_session_bytes, or all of them limits.max_chat_bytes',
    },
  ),
  call(
    'cchat_write_tool_result',
    [fd, text('id'), text('content', 'message')],
    'answers one handed-back tool call; 0',
    {
      EFAULT: outside,
      EBADF: 'not an open ChatSession',
      ENOENT: 'no handed-back call with this id is pending',
      EMSGSIZE: 'the content is larger than limits.max_message_bytes',
      ENOMEM: 'the session holds limits.max_session_bytes, or all of them limits.max_chat_bytes',
    },
    ours,
  ),
  call(
    'cchat_ctl',
    [fd, i32('cmd'), arg],
    '1 SET_PARAM: {"key":…,"value":…} of *arg_len_ptr bytes, 0; 2 GET_METRICS: out-buffer, ChatResponse only',
    {
      EINVAL: 'unknown command, or a value of the wrong type for its key',
      EFAULT: outside,
      EBADF: 'not a descriptor of the kind the command needs',
      EIO: 'SET_PARAM: bad JSON or an empty key',
      EACCES: 'SET_PARAM: the key is the host’s own, or the value goes beyond what the task allows',
      EMSGSIZE: 'SET_PARAM: the JSON is larger than limits.max_param_bytes',
      ENOMEM: 'SET_PARAM: the session holds limits.max_session_bytes, or all of them limits.max_chat_bytes',
      EAGAIN: 'GET_METRICS: the response is still pending',
      ENOSPC: tooSmall,
    },
    { commands: chatCommands },
  ),
  call(
    'cchat_send',
    [fd, i32('flags')],
    'asks the model; a ChatResponse fd. flags: 1 metrics, 2 AUTO_TOOL_CALL, 4 HAND_BACK (ours), 8 STREAM (ours): returns at once, and cchat_read gives the answer while it comes. A backend failure is a response whose body is an error object',
    {
      EBADF: 'not an open ChatSession',
      EBUSY: 'a send of this session is still running, or callbacks are nested 8 deep',
      EINVAL: 'handed-back tool calls are still unanswered, or an unknown flag is set',
      EMFILE: tooManyFds,
      EAGAIN: hostBusy,
      ENOMEM: answersKept,
    },
    { gives: 'fd', mode: 'suspending' },
  ),
  call('cchat_recv', [fd, out], 'the whole response body, on every call', {
    EFAULT: outside,
    EBADF: 'not an open ChatResponse',
    EAGAIN: 'the response is still pending',
    ECANCELED: 'the response was canceled',
    ENOSPC: tooSmall,
  }),
  call(
    'cchat_read',
    [fd, out],
    'of a send with STREAM: as many events as fit, a line of JSON each; 0 bytes after the last one. Waits for one, unless O_NONBLOCK is set, and runs callbacks meanwhile',
    {
      EFAULT: outside,
      EBADF: 'not an open ChatResponse',
      EINVAL: 'the send was made without STREAM',
      EAGAIN: 'nothing has come, and O_NONBLOCK is set or a callback of this send asks',
      ECANCELED: 'the response was canceled',
      ENOSPC: 'the next event is larger than the out-buffer; the needed size is in *out_len_ptr, nothing is consumed',
    },
    { mode: 'suspending' },
  ),
  call('cchat_close', [fd], 'closes any kind of descriptor; twice is fine; 0', { EBADF: 'the fd never existed' }),

  call(
    'mcp_open',
    [text('server_id')],
    'an McpSession fd for a registered server',
    {
      EFAULT: outside,
      EACCES: 'MCP is off for this task, or the server is outside what platform and task allow',
      ENOENT: 'no such server in the registry',
      EAGAIN: 'no registry snapshot yet',
      EMFILE: tooManyFds,
    },
    { gives: 'fd', mode: 'suspending', ours: true },
  ),
  call(
    'mcp_list_tools',
    [fd, out],
    '{"server_id":…,"tools":[{"description","inputSchema","name"}]}: the tools policy lets this guest call',
    serverErrnos,
    { mode: 'suspending', ours: true },
  ),
  call(
    'mcp_call_tool',
    [fd, text('name'), text('args', 'message'), out],
    'calls a tool by its MCP-native name with a JSON object (empty: {}); a failed call is a result {"error":…}. Never executes twice: after ENOSPC the byte-identical call fetches the waiting result',
    waitingErrnos,
    { mode: 'suspending', ours: true },
  ),
  call(
    'mcp_submit',
    [fd, text('name'), text('args', 'message')],
    'starts a call and returns its McpCall fd at once',
    {
      EFAULT: outside,
      EBADF: 'not an open McpSession',
      EMSGSIZE: 'the arguments are larger than limits.max_message_bytes',
      EAGAIN: `${hostBusy}, or their arguments have limits.max_pending_bytes`,
      ENOMEM: answersKept,
      EMFILE: tooManyFds,
    },
    { gives: 'fd', ours: true },
  ),
  call(
    'mcp_result',
    [fd, out],
    'the result of a submitted call, the same on every call; waits, unless O_NONBLOCK is set',
    {
      EFAULT: outside,
      EBADF: 'not an open McpCall',
      EAGAIN: 'pending, and O_NONBLOCK is set',
      ECANCELED: 'the call was canceled',
      ENOSPC: tooSmall,
    },
    { mode: 'suspending', ours: true },
  ),
  call('mcp_close', [fd], 'closes any kind of descriptor; 0', { EBADF: 'the fd never existed' }, ours),
  call(
    'mcp_registry_list',
    [out],
    '{"revision":…,"servers":[{display_name, server_id, transport}]}: what this task may use',
    {
      EFAULT: outside,
      EACCES: 'MCP is off for this task',
      EAGAIN: 'no registry snapshot yet',
      ENOSPC: tooSmall,
    },
    { mode: 'suspending', ours: true },
  ),
  call(
    'mcp_registry_get',
    [text('server_id'), out],
    'one of them, with allowed_tools and budgets',
    {
      EFAULT: outside,
      EACCES: 'MCP is off for this task, or the server is outside what platform and task allow',
      ENOENT: 'no such server in the registry',
      EAGAIN: 'no registry snapshot yet',
      ENOSPC: tooSmall,
    },
    { mode: 'suspending', ours: true },
  ),
  call(
    'mcp_list_resources',
    [fd, out],
    '{"resources":[{"name","uri",…}],"server_id":…,"templates":[{"name","uriTemplate",…}]}: the resources policy lets this guest read, and the templates of some; since 1.1',
    serverErrnos,
    { mode: 'suspending', ours: true },
  ),
  call(
    'mcp_read_resource',
    [fd, text('uri'), out],
    'reads a resource: {"contents":[…]}; a failed read is a result {"error":…}. After ENOSPC the byte-identical call fetches the waiting result; since 1.1',
    { ...waitingErrnos, EMSGSIZE: 'the uri has more than 4096 bytes', EAGAIN: hostBusy },
    { mode: 'suspending', ours: true },
  ),
  call(
    'mcp_list_prompts',
    [fd, out],
    '{"prompts":[{"arguments","name",…}],"server_id":…}: the prompts policy lets this guest get; since 1.1',
    serverErrnos,
    { mode: 'suspending', ours: true },
  ),
  call(
    'mcp_get_prompt',
    [fd, text('name'), text('args', 'message'), out],
    'gets a prompt with a JSON object of texts (empty: {}): {"messages":[…]}; a failure is a result {"error":…}. After ENOSPC the byte-identical call fetches the waiting result; since 1.1',
    waitingErrnos,
    { mode: 'suspending', ours: true },
  ),

  call('spear_epoll_create', [], 'an Epoll fd', { EMFILE: tooManyFds }, { gives: 'fd' }),
  call(
    'spear_epoll_ctl',
    [{ name: 'epfd', kind: 'fd' }, i32('op'), fd, i32('events')],
    'op 1 ADD (again: replaces the mask), 2 MOD, 3 DEL; events IN 1, OUT 4, ERR 8, HUP 16; 0',
    {
      EINVAL: 'unknown op, epfd is fd, or the target is an epoll set',
      EBADF: 'epfd is not an open Epoll, or fd is missing or closed',
      ENOENT: 'MOD or DEL of an fd that is not in the set',
    },
  ),
  call(
    'spear_epoll_wait',
    [{ name: 'epfd', kind: 'fd' }, out, i32('timeout_ms')],
    'number of 8-byte records {i32 fd, i32 events} by ascending fd, *out_len_ptr = bytes; timeout <0 forever, 0 poll; level-triggered; HUP and ERR are always reported',
    {
      EFAULT: outside,
      EBADF: 'not an open Epoll',
      ENOSPC: 'the capacity is below 8 bytes; 8 is written to *out_len_ptr',
    },
    { mode: 'suspending', records: ['messages', 'timeout'] },
  ),
  call('spear_epoll_close', [{ name: 'epfd', kind: 'fd' }], 'closes any kind of descriptor; 0', {
    EBADF: 'the fd never existed',
  }),
  call(
    'spear_fd_ctl',
    [fd, i32('cmd'), arg],
    '1 SET_FLAGS {"set":["O_NONBLOCK"],"clear":[]}; 2 GET_FLAGS; 3 GET_KIND; 4 GET_STATUS; 5 GET_METRICS; 6 CLOSE (ours)',
    {
      EINVAL: 'unknown command, bad JSON or an unknown flag',
      EFAULT: outside,
      EBADF: 'not an open descriptor of the kind the command needs',
      EMSGSIZE: 'SET_FLAGS: the JSON is larger than limits.max_param_bytes',
      EAGAIN: 'GET_METRICS: still pending',
      ENOSPC: tooSmall,
    },
    { commands: fdCommands },
  ),
  call(
    'spear_fd_cancel',
    [fd],
    'cancels what is pending on a ChatResponse or McpCall; nothing pending: 0',
    { EBADF: 'not an open descriptor' },
    ours,
  ),

  call(
    'user_stream_open',
    [i32('stream_id'), i32('direction')],
    'a descriptor of one stream; direction 1 in, 2 out, 3 both',
    {
      EINVAL: 'unknown direction',
      ...notConnected,
      EEXIST: 'the stream is open in that direction already',
      EMFILE: `${tooManyFds}, or ${MAX_STREAMS} streams`,
    },
    { gives: 'fd' },
  ),
  call('user_stream_read', [fd, outBytes], 'one frame', {
    EFAULT: outside,
    EBADF: 'not an open UserStream that reads',
    EAGAIN: 'no frame is there',
    EPIPE: 'the client sends nothing more, and every frame of it was read',
    ENOSPC: tooSmall,
  }),
  call('user_stream_write', [fd, bytes('frame', 'frame')], 'takes one frame; 0', {
    EFAULT: outside,
    EBADF: 'not an open UserStream that writes',
    EINVAL: 'not one whole frame, or one of another stream',
    EMSGSIZE: `larger than ${FRAME_BYTES} bytes`,
    EAGAIN: 'the client is slower: wait for OUT',
    EPIPE: 'the client is gone',
  }),
  call('user_stream_close', [fd], 'closes any kind of descriptor; 0', { EBADF: 'the fd never existed' }),
  call(
    'user_stream_ctl_open',
    [],
    'a descriptor of connection events',
    { ...notConnected, EEXIST: 'there is one already', EMFILE: tooManyFds },
    { gives: 'fd' },
  ),
  call('user_stream_ctl_read', [fd, outBytes], 'one 8-byte event', {
    EFAULT: outside,
    EBADF: 'not an open UserStreamCtl',
    EAGAIN: 'no event is there',
    ENOSPC: tooSmall,
  }),

  call('rtasr_create', [], 'realtime speech recognition', noSys, { gives: 'fd', support: 'absent' }),
  call('rtasr_ctl', [fd, i32('cmd'), arg], 'realtime speech recognition', noSys, absent),
  call('rtasr_write', [fd, bytes('data', 'message')], 'realtime speech recognition', noSys, absent),
  call('rtasr_read', [fd, outBytes], 'realtime speech recognition', noSys, absent),
  call('rtasr_close', [fd], 'realtime speech recognition', noSys, absent),
  call('mic_create', [], 'microphone', noSys, { gives: 'fd', support: 'absent' }),
  call('mic_ctl', [fd, i32('cmd'), arg], 'microphone', noSys, absent),
  call('mic_write', [fd, bytes('data', 'message')], 'microphone', noSys, absent),
  call('mic_read', [fd, outBytes], 'microphone', noSys, absent),
  call('mic_close', [fd], 'microphone', noSys, absent),
] as const satisfies readonly Call[];

export type CallName = (typeof calls)[number]['name'];

/** The i32 parameters of the core import, `text` and the buffers spread over two. */
export function coreParams(row: Call): string[] {
  return row.params.flatMap(({ name, kind }) => {
    if (kind === 'text' || kind === 'bytes') return [`${name}_ptr`, `${name}_len`];
    if (kind === 'out') return ['out_ptr', 'out_len_ptr'];
    if (kind === 'arg') return ['arg_ptr', 'arg_len_ptr'];
    return [name];
  });
}
