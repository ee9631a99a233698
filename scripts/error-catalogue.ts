// Every code that a user may see when something failed: the one table behind docs/errors.md. Where src/ has a type for the
// codes, a missing row does not compile; test/docs/codes.test.ts compares the others with the sources.

import type { ToolErrorCode } from '../src/agent/mcp/client/errors.ts';
import type { ExclusionReason } from '../src/agent/policy/decision.ts';
import { exitCodes, spearExitCodes } from '../src/cli/exit-codes.ts';
import { type ErrnoName, errno, errnoNames } from '../src/runtime/abi/errno.ts';
import type { RunReason } from '../src/runtime/host/run-result.ts';
import { code, table } from './markdown.ts';

/** Markdown. Links are relative to docs/. */
interface Entry {
  readonly cause: string;
  readonly fix: string;
}

type Entries<Code extends string> = Readonly<Record<Code, Entry>>;

const entry = (cause: string, fix: string): Entry => ({ cause, fix });

export const toolErrors: Entries<ToolErrorCode> = {
  mcp_unavailable: entry(
    'the server cannot be started or is unreachable, or the connection was lost during the call',
    '`spear servers test ID`; the message says whether the command, a variable, the sandbox or the network failed',
  ),
  mcp_timeout: entry(
    'the call took longer than `tool_timeout_ms`',
    'raise `tool_timeout_ms`, or `max_tool_timeout_ms` for a server that reports progress; the server may still have acted',
  ),
  mcp_invalid_arguments: entry(
    'there is no such tool, or the arguments are not an object or violate its schema',
    'compare the arguments with the schema of `tools/list`; the message names the field',
  ),
  mcp_policy_denied: entry(
    'policy or egress rules deny the call, or denied it while it was in flight',
    '`spear explain SERVER TOOL` names the layer and the pattern',
  ),
  mcp_stopped: entry(
    'an operator stopped calls like this one; the message has the reason and the id of the stop',
    '`spear stop` lists active stops; `spear stop --lift ID` lifts one ([Emergency stop](registry.md#emergency-stop))',
  ),
  mcp_output_too_large: entry(
    'the result was truncated at its limit, or was too large to read',
    'ask for less, or raise `max_tool_output_bytes` of the server or the session',
  ),
  mcp_cancelled: entry(
    'the guest, the send or the run ended during the call',
    'none needed; check whether the server acted before you call again',
  ),
  mcp_budget_exceeded: entry(
    'the queue of the server was full or too slow, or too many servers are running',
    'retry later, or raise `max_concurrency` of the server',
  ),
  mcp_approval_denied: entry(
    'a user or a rule denied the call, or no decision was made in time',
    '[Approvals](approvals.md): `spear approvals ls`, the rules of the task, and the timeout',
  ),
  mcp_outcome_unknown: entry(
    'a resumed run had already sent the call, and its result was not recorded',
    'check at the server whether the call was executed; list safe tools as [repeatable](journal.md#calls-with-unknown-outcome)',
  ),
  mcp_tool_error: entry(
    'the tool itself reported a failure, or its result violates its output schema',
    'read the message: the text comes from the tool',
  ),
};

/** Codes in the error body of a send. */
export const sendErrors: Entries<string> = {
  timeout: entry(
    '`timeout_ms` of the session or of the backend elapsed, or the provider returned 408',
    'raise `timeout_ms`, or send less',
  ),
  cancelled: entry('the guest cancelled the send, or ended', 'none needed'),
  tool_call_limit: entry(
    'the loop reached `max_iterations` or `max_total_tool_calls`',
    'raise the [session parameter](configuration.md#session-parameters), or give the model fewer tools',
  ),
  invalid_request: entry(
    'the provider returned 400 or 422',
    'read the message: a parameter, a message or a tool schema is not accepted by this provider',
  ),
  unauthorized: entry('the provider returned 401', 'check the API key of the backend'),
  forbidden: entry('the provider returned 403', 'check what the API key may do'),
  not_found: entry('the provider returned 404', 'check `model` and `base_url` of the backend'),
  request_too_large: entry('the provider returned 413', 'send fewer or shorter messages'),
  rate_limited: entry('the provider returned 429', 'retry after `retry_after_ms`'),
  provider_error: entry(
    'the provider returned another error status, or an error object',
    'retry if `retryable` is true',
  ),
  bad_response: entry(
    'the response cannot be used: not JSON, no `choices[0].message`, or nested too deeply',
    'check that `base_url` is an OpenAI-compatible API',
  ),
  response_too_large: entry('the response is larger than `max_response_bytes`', 'raise the limit, or ask for less'),
  stream_broken: entry('the stream ended before the response was complete', 'retry'),
  connection_failed: entry(
    'the provider is unreachable, or the connection was lost',
    'check `base_url`, proxy and network; `spear doctor` tries one request',
  ),
  unknown_backend: entry(
    'the session names a backend that the host config does not have',
    'the message lists the configured backends',
  ),
  backend_misconfigured: entry('the backend cannot be used as configured', 'fix the field that the message names'),
  backend_closed: entry('the run is ending and its backend is closed', 'none needed'),
  budget_exceeded: entry(
    'the tokens of the run, its task or its namespace are spent, or the shared count cannot be read',
    'wait for the next period or raise the [budget](node.md#budgets)',
  ),
  bad_script: entry('a turn of a scripted model cannot be used', 'fix the turn that the message names'),
  script_unmatched: entry(
    'no unused turn of a scripted model matches the request',
    'the message shows the request and the unused turns',
  ),
  mcp_policy_denied: entry(
    '`tool_choice` forces an MCP tool that is not among the tools of the send',
    'allow the tool, or do not force it',
  ),
  internal_error: entry('the host failed', 'stderr has the details; report it'),
};

/** Codes that the model reads about a tool of the guest. */
export const guestToolErrors: Entries<string> = {
  tool_exec_failed: entry(
    'the tool of the guest returned the number in the message',
    '`-5`: the guest cannot be called back, see [Problems of guest authors](troubleshooting.md#problems-of-guest-authors)',
  ),
  unknown_tool: entry('the model called a tool that does not exist', 'none needed: the model reads the error'),
  tool_call_limit: entry(
    'the turn has more calls than `max_total_tool_calls` leaves',
    'raise the [session parameter](configuration.md#session-parameters)',
  ),
  cancelled: entry(
    'the guest did not write a result for a call that was handed back',
    'write one with `cchat_write_tool_result` before the next send',
  ),
};

export const exclusions: Entries<ExclusionReason> = {
  disabled: entry('MCP is off for the task or the session', 'set `mcp.enabled` of the task; check that of the session'),
  registry_not_ready: entry(
    'the node has no registry snapshot yet',
    '`spear servers ls`; check that the registry is reachable',
  ),
  stopped: entry('an operator stopped calls like this one', '`spear stop` lists active stops and their reasons'),
  stale_registry: entry(
    'the last snapshot is older than the node accepts',
    'reconnect the registry, or raise [`max_staleness_ms`](registry.md#how-nodes-follow-the-registry)',
  ),
  unknown_server: entry(
    'the registry has no server with this id',
    '`spear servers ls`; register the server or correct the id',
  ),
  not_in_namespace: entry(
    'the server is not available to the namespace of the task',
    'check `namespaces` of the server',
  ),
  not_allowed: entry('the task does not allow the server', 'check the server ids of the task'),
  not_requested: entry(
    'the session did not request the server',
    'check `mcp.server_ids` of the session, default ids of the task',
  ),
  not_tagged: entry(
    'the server lacks a tag that the task requires',
    'check `mcp.server_tags` of the task, `tags` of the server',
  ),
  unknown_profile: entry('the registry has no such profile', 'check `mcp.profile` of the task; `spear profiles ls`'),
  not_in_profile: entry('the profile of the task does not include the server', '`spear profiles get NAME`'),
  deny_all: entry('the server has an empty `allowed_tools`', 'add patterns to `allowed_tools` of the server'),
  denied_by_registry: entry(
    '`allowed_tools` of the server does not match the tool',
    'change `allowed_tools` of the server',
  ),
  pin_mismatch: entry(
    'the server changed the tool since it was [pinned](mcp.md#pins)',
    'review the tool, then pin it again',
  ),
  denied_by_profile: entry(
    'a tool list of the profile excludes the tool',
    '`spear profiles get NAME`; `mcp.profile_overrides` of the task',
  ),
  denied_by_task: entry('a tool list of the task excludes the tool', 'change the tool lists of the task'),
  denied_by_session: entry(
    'a list of the session excludes the server or the tool',
    'change the `mcp.*` session parameters',
  ),
  env_missing: entry(
    'a variable or secret that the server configuration refers to is not set on this node',
    'set it on the node',
  ),
  env_refused: entry(
    'the node does not let servers read this variable or file',
    '`allow_env` and `allow_files` of the [node](security.md#secret-references)',
  ),
  list_failed: entry('the server could not be started, reached or asked for its tools', '`spear servers test ID`'),
  list_timeout: entry(
    'the server did not list its tools in time',
    '`spear servers test ID`; raise `connect_timeout_ms`',
  ),
  name_collision: entry(
    'another tool of the session has the same name for the model',
    'rename one of the tools, or exclude it',
  ),
  schema_invalid: entry(
    'the schema of the tool cannot be used',
    'fix the schema in the server; the detail says what is wrong',
  ),
};

interface ProblemEntry extends Entry {
  readonly status: number;
}

const problem = (status: number, cause: string, fix: string): ProblemEntry => ({ status, cause, fix });

/** Problem types of the HTTP APIs of registry and node. */
export const problems: Readonly<Record<string, ProblemEntry>> = {
  'invalid-body': problem(
    400,
    'the body is not valid JSON or TOML, or a field has the wrong type',
    'fix the field in `detail`',
  ),
  'invalid-key': problem(400, 'the `Idempotency-Key` is empty or too long', 'send a shorter key'),
  'invalid-login': problem(400, 'a field of a login request is missing or malformed', '`detail` names the field'),
  'invalid-precondition': problem(
    400,
    '`If-Match` or `If-None-Match` is malformed',
    'send an ETag as the registry returned it',
  ),
  'invalid-query': problem(400, 'a query parameter has a wrong value', '`detail` lists the accepted values'),
  'invalid-record': problem(400, 'a server, profile or token is not valid', '`errors` lists every field'),
  'invalid-task': problem(400, 'the task or its module cannot be used', '`detail` names the field or the import'),
  'invalid-url': problem(400, 'the request target is not a path', 'send an absolute path'),
  unauthorized: problem(
    401,
    'the token is missing, unknown or expired',
    'send `Authorization: Bearer TOKEN` with a valid token',
  ),
  'foreign-origin': problem(
    403,
    'a browser page of another origin sent the request',
    'open the page at the address of the service',
  ),
  'login-refused': problem(
    403,
    'the issuer or the role mapping refused the login',
    '`detail` says why; [Users](users.md)',
  ),
  'no-journals': problem(
    403,
    'the caller may not read timelines of runs',
    'use a token with the `journals` permission',
  ),
  'not-an-approver': problem(403, 'the caller may not decide about this approval', 'ask an approver of the request'),
  'not-permitted': problem(
    403,
    'the role of the caller does not include this operation',
    'use a token with that role; [Users](users.md)',
  ),
  'other-namespace': problem(
    403,
    'the token is limited to another namespace',
    'use a token of the namespace in the path',
  ),
  'server-test-off': problem(
    403,
    '`mcp.allow_server_test` is off in the registry',
    'use `spear servers test ID`, or turn it on',
  ),
  unguarded: problem(
    403,
    'a change with a session cookie lacks the header that only the console sends',
    'use the console, or a token',
  ),
  'no-audit-log': problem(404, 'the registry has no audit log: `audit.enabled` is off', 'turn `audit.enabled` on'),
  'no-journal': problem(404, 'the run has no journal: it has not started', 'wait until it runs'),
  'no-login': problem(404, 'the config has no `[oidc]`', 'use a token, or configure [logins](users.md)'),
  'no-such-approval': problem(404, 'there is no such approval request', '`spear approvals ls`'),
  'no-such-blob': problem(404, 'the module or blob with this digest is not stored', 'upload the module first'),
  'no-such-path': problem(
    404,
    'no route has this path',
    'compare with the [API](registry-protocol.md#http-api) or `/openapi.json`',
  ),
  'no-such-profile': problem(404, 'there is no such profile', '`spear profiles ls`'),
  'no-such-stop': problem(404, 'there is no such stop, or it was lifted', '`spear stop` lists active stops'),
  'no-such-run': problem(404, 'there is no such run in the namespace, or its retention ended', '`spear runs ls`'),
  'no-such-server': problem(404, 'there is no such server', '`spear servers ls`'),
  'no-such-task': problem(404, 'there is no such task or version', '`spear tasks ls`'),
  'no-such-token': problem(404, 'there is no such token', '`spear tokens ls`'),
  'method-not-allowed': problem(405, 'the path does not accept this method', 'the `Allow` header lists the methods'),
  'already-decided': problem(409, 'the approval request was decided or has expired', 'none needed'),
  'kept-elsewhere': problem(
    409,
    'the registry stores its data in etcd, or the node its runs in NATS, and makes no backup',
    '`etcdctl snapshot save`, or `spear-sms migrate`; [backup of NATS](cluster.md#backup)',
  ),
  'no-directory': problem(409, 'the registry was started without `--mcp-registry-dir`', 'start it with a directory'),
  'no-queue': problem(
    409,
    'the registry has no queue of runs',
    'configure the [queue](cluster.md), or submit to the node',
  ),
  'not-ended': problem(409, 'the run has not ended', 'wait for the end, or cancel the run'),
  'not-running': problem(409, 'the run has ended or runs on another node', '`spear runs get ID` names the node'),
  'too-many-stops': problem(409, 'too many stops of the caller are active', 'lift some with `spear stop --lift ID`'),
  'profile-exists': problem(409, 'a profile with this name exists', 'replace it with its ETag'),
  'server-exists': problem(409, 'a server with this id exists', 'replace it with its ETag'),
  'streams-elsewhere': problem(
    409,
    'user streams of a run are on the node that runs it',
    'connect to the node that the run names',
  ),
  'tasks-elsewhere': problem(409, 'this node takes its tasks from the registry', '`spear tasks` with `--sms`'),
  'token-exists': problem(409, 'a token with this name exists', 'rotate it, or choose another name'),
  'too-many-secrets': problem(
    409,
    'too many secrets of the token are still valid',
    'wait, or rotate with an overlap of 0',
  ),
  'too-many-tokens': problem(409, 'the registry has the maximum number of tokens', 'revoke some'),
  'revision-compacted': problem(
    410,
    'the revision is older than the retained changes',
    'list again, then watch from there',
  ),
  'revision-unknown': problem(
    410,
    'the revision is newer than the registry or of another epoch',
    'list again, then watch from there',
  ),
  'plan-outdated': problem(412, 'the registry changed since the import was planned', 'request a new plan'),
  'revision-mismatch': problem(412, 'another write came first', 'read again, then write with the new ETag'),
  'body-too-large': problem(413, 'the body is larger than the limit in `detail`', 'send less'),
  'unsupported-content-type': problem(
    415,
    'the content type is not accepted here',
    '`detail` lists the accepted types',
  ),
  'unknown-host': problem(
    421,
    'the `Host` header is not a name of this service',
    'add the name to `allowed_hosts` of the config',
  ),
  'key-used': problem(422, 'the `Idempotency-Key` was used with another input', 'use a new key for a new input'),
  'run-failed': problem(
    424,
    'the request waited for a run, and the run failed',
    '`spear runs get ID`; the reason is in `detail`',
  ),
  'line-full': problem(429, 'the queue of the task or the namespace is full', 'retry after `Retry-After`'),
  internal: problem(500, 'the service failed', 'its log has the details; report it'),
  'backup-running': problem(503, 'another backup is running', 'retry when it has finished'),
  'issuer-unavailable': problem(
    503,
    'the OIDC issuer is unreachable',
    'retry; other tokens work; the log has the details',
  ),
  lagging: problem(503, 'a watcher reads more slowly than changes arrive', 'list again, then watch from there'),
  'no-timeline': problem(
    503,
    'the node of the run did not send its timeline',
    'retry; check that the node is connected',
  ),
  'not-current': problem(503, 'the registry cannot confirm that its data is current', 'retry; check etcd'),
  'queue-unavailable': problem(
    503,
    'the queue of runs is unreachable, or did not answer in time',
    'retry with the same Idempotency-Key; check the NATS servers',
  ),
  'registry-unavailable': problem(
    503,
    'the node has no response from its registry: it cannot check the token, or does not know the task yet',
    'retry; use a token of the node where the token cannot be checked',
  ),
  'shutting-down': problem(503, 'the service is stopping', 'retry at another node, or after the restart'),
  'too-many-connections': problem(
    429,
    'streams, waiting requests and uploads have all connections that are not reserved',
    'retry after `Retry-After`; `reserved_connections`, `max_connections_per_peer`',
  ),
  'too-many-requests': problem(
    429,
    'the caller has too many requests in flight',
    'retry after `Retry-After`; `requests_per_caller`',
  ),
  'too-many-streams': problem(
    429,
    'the caller, or all callers together, have too many open streams',
    'close some streams, or retry after `Retry-After`; `streams_per_caller`, `max_streams`',
  ),
  'too-many-uploads': problem(
    429,
    'too many request bodies are being received',
    'retry after `Retry-After`; `uploads_per_caller`, `max_upload_bytes`',
  ),
  'upload-too-slow': problem(
    408,
    'the request body came slower than the minimum rate',
    'send the body faster, or lower `upload_bytes_per_second`',
  ),
  'too-many-lookups': problem(
    429,
    'a node received too many unknown tokens, from this address or in total',
    'retry after `Retry-After`; check the token',
  ),
  'too-many-answers': problem(503, 'clients read large responses too slowly', 'retry after `Retry-After`'),
  'too-many-questions': problem(503, 'too many access queries run at the same time', 'retry'),
  'too-many-tasks': problem(
    503,
    'too many modules are uploaded or tasks changed at the same time',
    'retry after `Retry-After`',
  ),
  'too-many-tests': problem(503, 'too many server tests run at the same time', 'retry'),
  'outcome-unknown': problem(504, 'the store did not confirm the write', 'read again before you write again'),
  'stored-not-visible': problem(504, 'the write is stored, and this registry does not show it yet', 'read again later'),
  'not-stored': problem(
    507,
    'the disk or the cluster did not accept the write',
    'check disk space, etcd or NATS; then retry',
  ),
};

export const errnos: Entries<ErrnoName> = {
  EPERM: entry('reserved: no call returns it', 'none needed'),
  ENOENT: entry('no such server, handed-back call or member of the epoll set', 'check the id'),
  EINTR: entry('reserved: no call returns it', 'none needed'),
  EIO: entry(
    'bad JSON or an empty key in SET_PARAM; as `tool rc: -5`, a guest tool that cannot be called',
    'check the bytes you passed',
  ),
  EBADF: entry(
    'not an open descriptor of the kind that the call needs',
    'descriptors are never reused: look for a use after close',
  ),
  EAGAIN: entry(
    'nothing is ready yet, or the host has its maximum of pending calls',
    'wait with `spear_epoll_wait`, then retry',
  ),
  ENOMEM: entry(
    'a session, all sessions, or unread responses reached a limit',
    'close descriptors, or raise the [limit](configuration.md#limits)',
  ),
  EACCES: entry('policy does not allow it, or the key belongs to the host', '`spear explain`; the task config'),
  EFAULT: entry('a pointer range is outside of the memory', 'check pointer and length'),
  EBUSY: entry(
    'the session has a send in flight, or callbacks are nested too deeply',
    'wait, cancel, or use another session',
  ),
  EEXIST: entry('the stream is already open in that direction', 'use the open descriptor'),
  EINVAL: entry(
    'unknown command or flag, malformed JSON, or unanswered tool calls',
    'check the arguments; answer handed-back calls',
  ),
  EMFILE: entry(
    'too many open descriptors, sessions or streams',
    'close some, or raise the [limit](configuration.md#limits)',
  ),
  ENOSPC: entry('the out-buffer is too small; nothing was consumed', 'call again with the size in `*out_len_ptr`'),
  EPIPE: entry('the client of the user stream has ended its side or is gone', 'close the stream'),
  ENOSYS: entry('this host does not implement the call', 'check `spear_feature` first'),
  EMSGSIZE: entry(
    'a message, parameter, argument or frame is too large',
    'split it, or raise the [limit](configuration.md#limits)',
  ),
  ECONNRESET: entry('reserved: no call returns it', 'none needed'),
  ENOTCONN: entry(
    'the server is down, or the run has no client of user streams',
    '`spear servers test ID`; [User streams](streams.md)',
  ),
  ETIMEDOUT: entry('the server did not respond in time', 'retry; raise the budgets of the server'),
  ECANCELED: entry('the send or the call was cancelled', 'none needed'),
};

const endReasons: Entries<RunReason> = {
  exit: entry('the guest returned or called exit', 'none needed; the exit code is the guest’s own'),
  deadline: entry(
    'the guest ran longer than `limits.timeout_ms`',
    'raise the limit; see [a hang](contributing/debugging.md#a-hang)',
  ),
  trap: entry('the guest trapped', 'the message and the stack name the function'),
  memory: entry(
    'the JavaScript objects of the guest filled the heap of its thread (not its linear memory)',
    'close descriptors; keep fewer sends and calls open',
  ),
  required_server: entry(
    'a server of `mcp.required_server_ids` did not start, list its tools or pass policy',
    'the message names server and reason; `spear servers test ID`, `spear doctor`',
  ),
  interrupted: entry('a signal or a cancel request ended the run', 'none needed; with a journal, resume it'),
  module: entry('the module could not be loaded', '`spear-run --dry-run` names the import or the section'),
  journal: entry(
    'the journal is full or cannot be written',
    'free disk space or raise `limits.journal_bytes`, then resume',
  ),
  diverged: entry(
    'a replayed or resumed guest did something else than recorded',
    'use the recorded module; see [Replay](journal.md#replay)',
  ),
  lost: entry('the thread that the guest shared is gone', 'none needed on a node: it resumes the run from its journal'),
  parked: entry(
    'the run waits for something that may take long',
    'none needed on a node: it resumes the run when the wait ends',
  ),
  internal: entry('the host failed', 'stderr has the details; report it'),
};

const guestExits: Entries<keyof typeof exitCodes> = {
  diverged: entry('a resumed or replayed run did something else than recorded', 'use the recorded module'),
  deadline: entry('the run reached `limits.timeout_ms`', 'raise the limit'),
  usage: entry('bad usage, config, module or journal', 'stderr names the flag, field or file'),
  hungUp: entry('SIGHUP ended the run', 'none needed'),
  interrupted: entry('Ctrl-C ended the run', 'none needed'),
  trap: entry('the guest trapped or ran out of memory', 'stderr has the stack of the guest'),
  terminated: entry('SIGTERM ended the run', 'none needed'),
};

const spearExits: Entries<keyof typeof spearExitCodes> = {
  ok: entry('success', 'none needed'),
  failed: entry('no such object, an invalid one, a failed check, or refused', 'stderr names it'),
  usage: entry('bad usage', '`--help` of the command'),
  unreachable: entry('the registry or node is unreachable', 'check the address and that the service runs'),
  denied: entry(
    'no token, or a token whose role does not include the operation',
    'check `--token-file`; [Users](users.md)',
  ),
};

function rowsOf(entries: Readonly<Record<string, Entry>>): string[][] {
  return Object.entries(entries).map(([name, { cause, fix }]) => [code(name), cause, fix]);
}

const HEAD = ['code', 'cause', 'fix'];

const coded = (entries: Readonly<Record<string, Entry>>) => (): string => table(HEAD, rowsOf(entries));

function exitTable<Name extends string>(numbers: Readonly<Record<Name, number>>, entries: Entries<Name>): string {
  const rows = (Object.keys(numbers) as Name[]).map((name) => [
    String(numbers[name]),
    entries[name].cause,
    entries[name].fix,
  ]);
  return table(HEAD, rows);
}

/** The parts of docs/errors.md. */
export const errorParts: Readonly<Record<string, () => string>> = {
  'tool-errors': coded(toolErrors),
  'send-errors': coded(sendErrors),
  'guest-tool-errors': coded(guestToolErrors),
  exclusions: coded(exclusions),
  problems: () =>
    table(
      ['status', 'type', 'cause', 'fix'],
      Object.entries(problems).map(([name, { status, cause, fix }]) => [String(status), code(name), cause, fix]),
    ),
  'end-reasons': coded(endReasons),
  errnos: () =>
    table(
      ['name', 'number', 'cause', 'fix'],
      errnoNames.map((name) => [code(name), String(errno[name]), errnos[name].cause, errnos[name].fix]),
    ),
  'guest-exits': () => exitTable(exitCodes, guestExits),
  'spear-exits': () => exitTable(spearExitCodes, spearExits),
};
