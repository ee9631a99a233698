import { splitOnce } from '../../base/text.ts';
import { didYouMean } from '../../base/validation.ts';
import { argumentForms, auditLimitSpecs } from '../../config/audit.ts';
import { parseStreamAddress, type StreamAddress } from '../../run/streams/stream-listener.ts';
import { journalSyncs } from '../../runtime/durable/journal.ts';
import { type LimitName, limitNames, limitProblem } from '../../runtime/port/limits.ts';
import { type Call, choice, type FlagValues, flag, number, section, text } from '../command-table.ts';
import { UsageError } from '../exit-codes.ts';

const CONFIG_FALLBACK = '$SPEAR_CONFIG, else ~/.config/spear/config.toml if it exists';

export const configFlag = text('FILE', 'host config, TOML: backends, [mcp], [audit], [journal]', {
  fallback: CONFIG_FALLBACK,
});

/** Where a run finds its MCP servers. */
export const registryFlagSpecs = {
  'mcp-dir': text('DIR', 'directory of MCP servers, one *.toml or *.json file each'),
  strict: flag('refuse to run if a file of --mcp-dir is invalid'),
  sms: text(
    'ADDRESS',
    'use a registry (spear-sms) instead: HOST:PORT of its gRPC side, https://…, or unix:PATH of its socket. Separate several addresses of one registry with commas; the next one is tried when one fails. The registry of this user on this machine is always reached through its socket. Another loopback port needs a token, and prints a warning because any local user can listen there',
  ),
  'sms-token-file': text('FILE', 'file with the node token for the registry; read again when it changes', {
    fallback: "$SPEAR_SMS_TOKEN, $SPEAR_SMS_TOKEN_FILE, else the file of this user's registry",
  }),
  'sms-token': text('TOKEN', 'the node token itself; other users of this machine can see it'),
  'sms-ca': text('FILE', "CA certificates to trust instead of the system's, PEM"),
} as const;

const { max_bytes: auditBytes, keep: auditKeep } = auditLimitSpecs;

export const runFlagSpecs = {
  ...section('Task', {
    'task-config': text(
      'FILE',
      'task file, JSON or TOML: name, config, limits, args, env, backend, and the module if none is given here',
    ),
    limit: text('NAME=VALUE', 'override one limit of the task', { multiple: true }),
    env: text('NAME=VALUE', "environment variable for the guest, which sees none of the host's", { multiple: true }),
    isolation: choice(
      ['thread', 'shared'],
      'thread: the guest has its own thread. shared: guests share threads as on a node and yield inside loops; a module that cannot share gets its own thread, and the reason is printed',
      { default: 'thread' },
    ),
    'allow-unknown-imports': flag(
      'link imports that this host does not provide; calling one returns ENOSYS. Core modules only',
    ),
    'no-cache': flag('compile a component again and do not cache the result'),
  }),
  ...section('Model', {
    config: configFlag,
    backend: text('NAME', 'backend of sessions that name none', {
      fallback:
        'the backend of the task, else default_backend of the config; OPENAI_BASE_URL, OPENAI_API_KEY and OPENAI_MODEL are enough without a config file',
    }),
    script: text('FILE', 'answer with a scripted model instead of any backend'),
    trace: text(
      'FILE',
      'append every model request and response to FILE, one JSON object per line, with known secrets removed. New files are readable by their owner only; at most 256 MiB per run',
    ),
    follow: flag('print model output and tool calls to stderr while they happen'),
  }),
  ...section('MCP tools (enabled by the task config: mcp.enabled, mcp.default_server_ids)', {
    ...registryFlagSpecs,
    'require-registry': flag(
      'exit with 125 if no registry answers within mcp.first_snapshot_ms and no cached servers are valid. Without this flag the run starts without MCP tools, says so, and gets them when the registry answers',
    ),
    approve: choice(
      ['prompt', 'sms', 'deny'],
      'who decides on tool calls that need an approval, and answers questions of servers: prompt asks on this terminal; sms asks the approvers of the registry (--sms), who answer no questions of servers; deny denies both',
      { fallback: 'prompt if there is a terminal, else deny' },
    ),
  }),
  ...section("User streams (a client at the other end of the guest's user_stream_* calls)", {
    stream: text(
      'WHERE',
      'stdio: frames on stdin and stdout; guest output goes to stderr, and the guest has no stdin. unix:PATH: a socket for this user only. ws://127.0.0.1:PORT: WebSocket (port 0: any free port); the address with its token is printed. One client at a time',
    ),
  }),
  ...section('Metrics', {
    metrics: text(
      'ADDRESS',
      'serve Prometheus metrics at http://ADDRESS/metrics while the guest runs: HOST:PORT, or :PORT for loopback (:0: any free port)',
    ),
  }),
  ...section('Audit log ([audit] of the config sets the same for every run)', {
    audit: text(
      'FILE',
      'append audit events to FILE, one hash-chained JSON object per line; - is stdout, guest output then goes to stderr',
    ),
    'audit-args': choice(
      argumentForms,
      'form of tool arguments in the audit log; redacted leaves out values of sensitive names and values that look like credentials',
      { fallback: 'redacted' },
    ),
    'audit-max-bytes': number('N', 'rotate FILE to FILE.1, FILE.2, … before it grows beyond N bytes; 0: never', {
      min: auditBytes.min,
      max: auditBytes.max,
      fallback: String(auditBytes.default),
    }),
    'audit-keep': number('N', 'rotated files to retain', {
      min: auditKeep.min,
      max: auditKeep.max,
      fallback: String(auditKeep.default),
    }),
  }),
  ...section('Journal ("spear replay FILE" replays it offline)', {
    journal: text('FILE', 'record the run in FILE, which must not exist; readable by its owner only'),
    'journal-sync': choice(
      journalSyncs,
      'durability before each model or tool call: write survives the end of this process, disk the end of the machine',
      { fallback: 'write' },
    ),
    'journal-key': text(
      'REF',
      'file:PATH or env:NAME of the key that encrypts the journal, or opens that of --resume',
      {
        fallback: '[journal] key of the config',
      },
    ),
    resume: text(
      'FILE',
      'resume the run of this journal: recorded calls are not made again. Module, arguments, environment and limits are the recorded ones; other flags keep their recorded value unless given again',
    ),
  }),
  ...section('Output', {
    json: flag('print one result object on stdout at the end; guest output goes to stderr'),
    verbose: flag('also print debug and trace logs of the guest, and its hostcall counts', { short: 'v' }),
    'dry-run': flag('check module, task, config and registry without running the guest'),
  }),
} as const;

export type RunFlagValues = FlagValues<typeof runFlagSpecs>;
export type AuditFlags = Pick<RunFlagValues, 'audit' | 'auditArgs' | 'auditMaxBytes' | 'auditKeep'>;

export interface RunFlags extends Omit<RunFlagValues, 'limit' | 'env' | 'stream'> {
  /** Empty: the module of the resumed journal, or of the task file. */
  readonly wasm: string;
  readonly guestArgs: readonly string[];
  readonly limits: Readonly<Partial<Record<LimitName, number>>>;
  readonly env: Readonly<Record<string, string>>;
  readonly stream: StreamAddress | undefined;
}

/** @throws UsageError where flags do not go together */
export function runFlags({ flags, args, rest }: Pick<Call<RunFlagValues>, 'flags' | 'args' | 'rest'>): RunFlags {
  const [wasm = ''] = args;
  if (wasm === '' && flags.resume === undefined && flags.taskConfig === undefined) {
    throw new UsageError('missing module; usage: spear-run FILE.wasm [options] [-- GUEST_ARGS...]');
  }
  if (flags.journal !== undefined && flags.resume !== undefined) {
    throw new UsageError('--journal and --resume cannot be combined: a resumed run continues its own journal');
  }
  return {
    ...flags,
    wasm,
    guestArgs: rest,
    limits: Object.fromEntries(flags.limit.map(parseLimit)),
    env: Object.fromEntries(flags.env.map(parseEnv)),
    stream: flags.stream === undefined ? undefined : parseStreamAddress(flags.stream, '--stream'),
  };
}

/** One `--limit NAME=VALUE`. */
export function parseLimit(given: string): [LimitName, number] {
  const [name, value] = splitOnce(given, '=');
  const known = limitNames.find((limit) => limit === name);
  if (known === undefined) {
    const hint = didYouMean(name, limitNames) ?? `valid: ${limitNames.join(', ')}`;
    throw new UsageError(`--limit ${given}: unknown limit "${name}"; ${hint}`);
  }
  const amount = value !== null && /^\d+$/.test(value) ? Number(value) : Number.NaN;
  if (limitProblem(known, amount) === null) return [known, amount];
  throw new UsageError(`--limit ${given}: ${limitProblem(known, value ?? '')}`);
}

function parseEnv(given: string): [string, string] {
  const [name, value] = splitOnce(given, '=');
  // The text may be a secret without its name: do not repeat it.
  if (name === '' || value === null) throw new UsageError('--env: expected NAME=VALUE');
  return [name, value];
}
