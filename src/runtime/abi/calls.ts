/*
 * The table of hostcalls: the single source of the imports of modules and components, the ABI page, and the checks of
 * `wit/spear.wit` and the SDKs. Rows are only appended: the index of a row is part of the hash in recorded journals.
 */
import type { ErrnoName } from './errno.ts';

/**
 * How a parameter is passed to the host.
 *
 * - `fd`, `i32`: one core parameter
 * - `text`: `(ptr, len)`, UTF-8, invalid bytes replaced
 * - `bytes`: `(ptr, len)`, unchanged; a component passes `list<u8>`
 * - `out`: `(out_ptr, out_len_ptr)`, the out-buffer convention
 * - `arg`: `(arg_ptr, arg_len_ptr)` of the `*_ctl` calls: input or out-buffer, depending on the command
 */
export type ParamKind = 'fd' | 'i32' | 'text' | 'bytes' | 'out' | 'arg';

/** The bound of a `text` or `bytes`: a name, one log line, one frame of a stream, or limits of the task. */
export type TextLimit = 'name' | 'log' | 'frame' | 'message' | 'param';

export interface Param {
  readonly name: string;
  readonly kind: ParamKind;
  readonly limit?: TextLimit;
  /** Of an `out`: binary, so that a component gets `list<u8>`. */
  readonly bytes?: true;
}

/** A command of a `*_ctl` call, and the use of its `arg`. */
export interface Command {
  readonly name: string;
  readonly arg: 'in' | 'out' | 'none';
}

export const NAME_BYTES = 4096;
export const LOG_BYTES = 16_384;
/** One frame of a user stream. */
export const FRAME_BYTES = 256 * 1024;
/** User streams that a guest may have open at once. */
export const MAX_STREAMS = 64;

/** `partial`: always fails with an errno of its row; `absent`: links and returns the one errno of its row. */
export type Support = 'full' | 'partial' | 'absent';

export interface Call {
  readonly name: string;
  readonly params: readonly Param[];
  readonly result: 'i32' | 'i64' | 'none';
  /** Meaning of an i32 result that is not an errno: a new descriptor, success (0), a number, or the bytes written. */
  readonly gives: 'fd' | 'nothing' | 'number' | 'bytes';
  /** A local call never waits for the host; a suspending one may. */
  readonly mode: 'local' | 'suspending';
  readonly support: Support;
  /** An extension that older hosts do not have. */
  readonly ours: boolean;
  readonly summary: string;
  /**
   * What a journal records besides the hash of parameters and result: messages taken during the call, a value of a clock or
   * of entropy, a timeout of its wait.
   */
  readonly records: readonly ('messages' | 'value' | 'timeout')[];
  readonly commands: Readonly<Record<number, Command>>;
  /** Every errno the call may return, with its cause. */
  readonly errnos: Readonly<Partial<Record<ErrnoName, string>>>;
}

interface Options {
  readonly result?: Call['result'];
  readonly gives?: Call['gives'];
  readonly mode?: Call['mode'];
  readonly support?: Support;
  readonly ours?: boolean;
  readonly commands?: Call['commands'];
  readonly records?: Call['records'];
}

type Chosen<O extends Options, Key extends keyof Options, Default> =
  O extends Record<Key, infer Value> ? Value : Default;

const usual = {
  result: 'i32',
  mode: 'local',
  support: 'full',
  ours: false,
  commands: {},
  records: ['messages'],
} as const;

/** One row of the table. */
export function call<
  const Name extends string,
  const Params extends readonly Param[],
  const O extends Options = object,
>(name: Name, params: Params, summary: string, errnos: Call['errnos'] = {}, options?: O) {
  const givesBytes = params.some(({ kind }) => kind === 'out' || kind === 'arg');
  const gives = givesBytes ? 'bytes' : 'nothing';
  const row = { ...usual, gives, ...options };
  return { name, params, summary, errnos, ...row } as Omit<Call, 'name' | 'params' | 'result' | 'mode'> & {
    readonly name: Name;
    readonly params: Params;
    readonly result: Chosen<O, 'result', 'i32'>;
    readonly mode: Chosen<O, 'mode', 'local'>;
  };
}

export const abiVersion = { major: 1, minor: 1 } as const;

const fd = { name: 'fd', kind: 'fd' } as const;
const out = { name: 'out', kind: 'out' } as const;
const outBytes = { name: 'out', kind: 'out', bytes: true } as const;
const arg = { name: 'arg', kind: 'arg' } as const;
const i32 = (name: string) => ({ name, kind: 'i32' }) as const;
const text = (name: string, limit: TextLimit = 'name') => ({ name, kind: 'text', limit }) as const;
const bytes = (name: string, limit: TextLimit) => ({ name, kind: 'bytes', limit }) as const;

const outside = 'a pointer range is outside the guest memory';
const tooSmall = 'the out-buffer is too small; the required size is in *out_len_ptr, nothing is consumed';
const hostBusy = 'limits.max_pending_calls sends and calls are pending in the host, cancelled ones included';
const answersKept = 'the results that open descriptors hold reach limits.max_answer_bytes';
const tooManyFds = 'limits.max_fds descriptors are open';

const ours = { ours: true } as const;
const absent = { support: 'absent' } as const;
const noSys = { ENOSYS: 'not implemented by this host' } as const;
const notConnected = { ENOTCONN: 'no client transport is attached to this run' } as const;

/** Errnos of calls that list something of a server. */
const serverErrnos = {
  EFAULT: outside,
  EBADF: 'not an open McpSession',
  EACCES: 'the server was revoked',
  ENOTCONN: 'the server is down',
  ETIMEDOUT: 'the server did not respond in time',
  ENOSPC: tooSmall,
} as const;

/** Errnos of calls that wait for a server. */
const waitingErrnos = {
  EFAULT: outside,
  EBADF: 'not an open McpSession',
  EMSGSIZE: 'the arguments are larger than limits.max_message_bytes',
  EAGAIN: `${hostBusy}, or their arguments reach limits.max_pending_bytes`,
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
    '1 if this host supports the named feature, else 0',
    { EFAULT: outside },
    { gives: 'number', ours: true },
  ),
  call('time_now_ms', [], 'milliseconds since the Unix epoch', {}, { result: 'i64', records: ['value'] }),
  call('wall_time_s', [], 'seconds since the Unix epoch', {}, { result: 'i64', records: ['value'] }),
  call('random_i64', [], '64 random bits', {}, { result: 'i64', records: ['value'] }),
  call(
    'sleep_ms',
    [i32('ms')],
    'suspends the guest, not the thread',
    {},
    { result: 'none', mode: 'suspending', records: ['messages', 'timeout'] },
  ),
  call(
    'log',
    [i32('level'), text('message', 'log')],
    'writes a log line; level 0 trace, 1 debug, 2 info, 3 warn, 4 error, any other value info; returns 0',
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
    'appends a message; during a send the message applies to the next send; returns 0',
    {
      EFAULT: outside,
      EBADF: 'not an open ChatSession',
      EMSGSIZE: 'the message is larger than limits.max_message_bytes',
      ENOMEM: 'the session would exceed limits.max_session_bytes, or all sessions limits.max_chat_bytes',
    },
  ),
  call(
    'cchat_write_fn',
    [fd, i32('fn_offset'), text('json', 'message')],
    'registers a guest tool: an OpenAI tool object or its bare function object; fn_offset is an index into the exported function table, or -1 for a tool whose calls are handed back to the guest; returns 0',
    {
      EFAULT: outside,
      EBADF: 'not an open ChatSession',
      EINVAL: 'invalid JSON, or no function name',
      EMSGSIZE: 'the JSON is larger than limits.max_message_bytes',
      ENOMEM: 'the session would exceed limits.max_session_bytes, or all sessions limits.max_chat_bytes',
    },
  ),
  call(
    'cchat_write_tool_result',
    [fd, text('id'), text('content', 'message')],
    'sets the result of one handed-back tool call; returns 0',
    {
      EFAULT: outside,
      EBADF: 'not an open ChatSession',
      ENOENT: 'no handed-back call with this id is pending',
      EMSGSIZE: 'the content is larger than limits.max_message_bytes',
      ENOMEM: 'the session would exceed limits.max_session_bytes, or all sessions limits.max_chat_bytes',
    },
    ours,
  ),
  call(
    'cchat_ctl',
    [fd, i32('cmd'), arg],
    '1 SET_PARAM: {"key":…,"value":…} of *arg_len_ptr bytes, returns 0; 2 GET_METRICS: out-buffer, ChatResponse only',
    {
      EINVAL: 'unknown command, or a value of the wrong type for its key',
      EFAULT: outside,
      EBADF: 'not a descriptor of the kind that the command needs',
      EIO: 'SET_PARAM: invalid JSON or an empty key',
      EACCES: 'SET_PARAM: the key is reserved for the host, or the value exceeds what the task allows',
      EMSGSIZE: 'SET_PARAM: the JSON is larger than limits.max_param_bytes',
      ENOMEM: 'SET_PARAM: the session would exceed limits.max_session_bytes, or all sessions limits.max_chat_bytes',
      EAGAIN: 'GET_METRICS: the response is still pending',
      ENOSPC: tooSmall,
    },
    { commands: chatCommands },
  ),
  call(
    'cchat_send',
    [fd, i32('flags')],
    'sends the session to the model; returns a ChatResponse fd. flags: 1 metrics, 2 AUTO_TOOL_CALL, 4 HAND_BACK (extension), 8 STREAM (extension): returns immediately, and cchat_read returns the response as it arrives. A backend failure is a response whose body is an error object',
    {
      EBADF: 'not an open ChatSession',
      EBUSY: 'a send of this session is still pending, or callbacks are nested 8 deep',
      EINVAL: 'handed-back tool calls have no result yet, or an unknown flag is set',
      EMFILE: tooManyFds,
      EAGAIN: hostBusy,
      ENOMEM: answersKept,
    },
    { gives: 'fd', mode: 'suspending' },
  ),
  call('cchat_recv', [fd, out], 'returns the whole response body; every call returns the same', {
    EFAULT: outside,
    EBADF: 'not an open ChatResponse',
    EAGAIN: 'the response is still pending',
    ECANCELED: 'the response was canceled',
    ENOSPC: tooSmall,
  }),
  call(
    'cchat_read',
    [fd, out],
    'reads events of a send with STREAM: as many as fit, one JSON line each; 0 bytes after the last one. Waits for the next event unless O_NONBLOCK is set, and runs callbacks while it waits',
    {
      EFAULT: outside,
      EBADF: 'not an open ChatResponse',
      EINVAL: 'the send was made without STREAM',
      EAGAIN: 'no event is available, and O_NONBLOCK is set or the caller is a callback of this send',
      ECANCELED: 'the response was canceled',
      ENOSPC: 'the next event is larger than the out-buffer; the required size is in *out_len_ptr, nothing is consumed',
    },
    { mode: 'suspending' },
  ),
  call('cchat_close', [fd], 'closes a descriptor of any kind; closing twice is allowed; returns 0', {
    EBADF: 'the fd never existed',
  }),

  call(
    'mcp_open',
    [text('server_id')],
    'returns an McpSession fd for a registered server',
    {
      EFAULT: outside,
      EACCES: 'MCP is off for this task, or the policy of platform or task does not allow the server',
      ENOENT: 'no such server in the registry',
      EAGAIN: 'no registry snapshot yet',
      EMFILE: tooManyFds,
    },
    { gives: 'fd', mode: 'suspending', ours: true },
  ),
  call(
    'mcp_list_tools',
    [fd, out],
    '{"server_id":…,"tools":[{"description","inputSchema","name"}]}: the tools that policy allows this guest to call',
    serverErrnos,
    { mode: 'suspending', ours: true },
  ),
  call(
    'mcp_call_tool',
    [fd, text('name'), text('args', 'message'), out],
    'calls a tool by its MCP-native name with a JSON object (empty: {}); a failed call is a result {"error":…}. Never executes twice: after ENOSPC, repeat the identical call to fetch the stored result',
    waitingErrnos,
    { mode: 'suspending', ours: true },
  ),
  call(
    'mcp_submit',
    [fd, text('name'), text('args', 'message')],
    'starts a call and returns its McpCall fd immediately',
    {
      EFAULT: outside,
      EBADF: 'not an open McpSession',
      EMSGSIZE: 'the arguments are larger than limits.max_message_bytes',
      EAGAIN: `${hostBusy}, or their arguments reach limits.max_pending_bytes`,
      ENOMEM: answersKept,
      EMFILE: tooManyFds,
    },
    { gives: 'fd', ours: true },
  ),
  call(
    'mcp_result',
    [fd, out],
    'returns the result of a submitted call, the same every time; waits unless O_NONBLOCK is set',
    {
      EFAULT: outside,
      EBADF: 'not an open McpCall',
      EAGAIN: 'the call is pending, and O_NONBLOCK is set',
      ECANCELED: 'the call was canceled',
      ENOSPC: tooSmall,
    },
    { mode: 'suspending', ours: true },
  ),
  call('mcp_close', [fd], 'closes a descriptor of any kind; returns 0', { EBADF: 'the fd never existed' }, ours),
  call(
    'mcp_registry_list',
    [out],
    '{"revision":…,"servers":[{display_name, server_id, transport}]}: the servers that this task may use',
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
    'one server of that list, with allowed_tools and budgets',
    {
      EFAULT: outside,
      EACCES: 'MCP is off for this task, or the policy of platform or task does not allow the server',
      ENOENT: 'no such server in the registry',
      EAGAIN: 'no registry snapshot yet',
      ENOSPC: tooSmall,
    },
    { mode: 'suspending', ours: true },
  ),
  call(
    'mcp_list_resources',
    [fd, out],
    '{"resources":[{"name","uri",…}],"server_id":…,"templates":[{"name","uriTemplate",…}]}: the resources that policy allows this guest to read, and resource templates; since 1.1',
    serverErrnos,
    { mode: 'suspending', ours: true },
  ),
  call(
    'mcp_read_resource',
    [fd, text('uri'), out],
    'reads a resource: {"contents":[…]}; a failed read is a result {"error":…}. After ENOSPC, repeat the identical call to fetch the stored result; since 1.1',
    { ...waitingErrnos, EMSGSIZE: 'the URI is longer than 4096 bytes', EAGAIN: hostBusy },
    { mode: 'suspending', ours: true },
  ),
  call(
    'mcp_list_prompts',
    [fd, out],
    '{"prompts":[{"arguments","name",…}],"server_id":…}: the prompts that policy allows this guest to get; since 1.1',
    serverErrnos,
    { mode: 'suspending', ours: true },
  ),
  call(
    'mcp_get_prompt',
    [fd, text('name'), text('args', 'message'), out],
    'gets a prompt with a JSON object of string arguments (empty: {}): {"messages":[…]}; a failure is a result {"error":…}. After ENOSPC, repeat the identical call to fetch the stored result; since 1.1',
    waitingErrnos,
    { mode: 'suspending', ours: true },
  ),

  call('spear_epoll_create', [], 'returns an Epoll fd', { EMFILE: tooManyFds }, { gives: 'fd' }),
  call(
    'spear_epoll_ctl',
    [{ name: 'epfd', kind: 'fd' }, i32('op'), fd, i32('events')],
    'op 1 ADD (of a member: replaces its mask), 2 MOD, 3 DEL; events IN 1, OUT 4, ERR 8, HUP 16; returns 0',
    {
      EINVAL: 'unknown op, epfd equals fd, or the target is an epoll set',
      EBADF: 'epfd is not an open Epoll, or fd is missing or closed',
      ENOENT: 'MOD or DEL of an fd that is not in the set',
    },
  ),
  call(
    'spear_epoll_wait',
    [{ name: 'epfd', kind: 'fd' }, out, i32('timeout_ms')],
    'returns the number of 8-byte records {i32 fd, i32 events} by ascending fd, *out_len_ptr = bytes; timeout <0 waits without limit, 0 polls; level-triggered; HUP and ERR are always reported',
    {
      EFAULT: outside,
      EBADF: 'not an open Epoll',
      ENOSPC: 'the capacity is below 8 bytes; 8 is written to *out_len_ptr',
    },
    { mode: 'suspending', records: ['messages', 'timeout'] },
  ),
  call('spear_epoll_close', [{ name: 'epfd', kind: 'fd' }], 'closes a descriptor of any kind; returns 0', {
    EBADF: 'the fd never existed',
  }),
  call(
    'spear_fd_ctl',
    [fd, i32('cmd'), arg],
    '1 SET_FLAGS {"set":["O_NONBLOCK"],"clear":[]}; 2 GET_FLAGS; 3 GET_KIND; 4 GET_STATUS; 5 GET_METRICS; 6 CLOSE (extension)',
    {
      EINVAL: 'unknown command, invalid JSON or an unknown flag',
      EFAULT: outside,
      EBADF: 'not an open descriptor of the kind that the command needs',
      EMSGSIZE: 'SET_FLAGS: the JSON is larger than limits.max_param_bytes',
      EAGAIN: 'GET_METRICS: the operation is still pending',
      ENOSPC: tooSmall,
    },
    { commands: fdCommands },
  ),
  call(
    'spear_fd_cancel',
    [fd],
    'cancels the pending operation of a ChatResponse or McpCall; returns 0, also if none is pending',
    { EBADF: 'not an open descriptor' },
    ours,
  ),

  call(
    'user_stream_open',
    [i32('stream_id'), i32('direction')],
    'opens one stream and returns its fd; direction 1 in, 2 out, 3 both',
    {
      EINVAL: 'unknown direction',
      ...notConnected,
      EEXIST: 'the stream is already open in that direction',
      EMFILE: `${tooManyFds}, or ${MAX_STREAMS} streams are open`,
    },
    { gives: 'fd' },
  ),
  call('user_stream_read', [fd, outBytes], 'reads one frame', {
    EFAULT: outside,
    EBADF: 'not a UserStream that is open for reading',
    EAGAIN: 'no frame is available',
    EPIPE: 'the client ended its side, and every frame was read',
    ENOSPC: tooSmall,
  }),
  call('user_stream_write', [fd, bytes('frame', 'frame')], 'writes one frame; returns 0', {
    EFAULT: outside,
    EBADF: 'not a UserStream that is open for writing',
    EINVAL: 'not exactly one frame, or a frame of another stream',
    EMSGSIZE: `larger than ${FRAME_BYTES} bytes`,
    EAGAIN: 'the client reads too slowly: wait for OUT',
    EPIPE: 'the client disconnected',
  }),
  call('user_stream_close', [fd], 'closes a descriptor of any kind; returns 0', { EBADF: 'the fd never existed' }),
  call(
    'user_stream_ctl_open',
    [],
    'returns an fd of connection events',
    { ...notConnected, EEXIST: 'the guest has already opened one', EMFILE: tooManyFds },
    { gives: 'fd' },
  ),
  call('user_stream_ctl_read', [fd, outBytes], 'reads one 8-byte event', {
    EFAULT: outside,
    EBADF: 'not an open UserStreamCtl',
    EAGAIN: 'no event is available',
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
