import { didYouMean } from '../../base/nearest-key.ts';
import { splitOnce } from '../../base/split-once.ts';
import { type LimitName, limitNames, limitProblem } from '../../protocol/limits.ts';
import type { Isolation } from '../../run/run-result.ts';
import { parseStreamAddress, type StreamAddress } from '../../run/streams/stream-address.ts';
import { parseFlags } from '../parse-flags.ts';
import { UsageError } from '../usage-error.ts';
import { type AuditFlags, auditOptions, parseAuditFlags } from './audit-flags.ts';
import { type EachFlags, eachOptions, parseEachFlags } from './each-flags.ts';
import { type JournalFlags, journalOptions, parseJournalFlags } from './journal-flags.ts';
import type { RegistryFlags } from './registry-flags.ts';

const options = {
  'task-config': { type: 'string' },
  config: { type: 'string' },
  backend: { type: 'string' },
  script: { type: 'string' },
  'mcp-dir': { type: 'string' },
  strict: { type: 'boolean' },
  sms: { type: 'string' },
  'sms-token': { type: 'string' },
  'sms-token-file': { type: 'string' },
  'sms-ca': { type: 'string' },
  'require-registry': { type: 'boolean' },
  approve: { type: 'string' },
  ...auditOptions,
  ...journalOptions,
  ...eachOptions,
  metrics: { type: 'string' },
  stream: { type: 'string' },
  trace: { type: 'string' },
  follow: { type: 'boolean' },
  limit: { type: 'string', multiple: true },
  env: { type: 'string', multiple: true },
  isolation: { type: 'string' },
  'allow-unknown-imports': { type: 'boolean' },
  'no-cache': { type: 'boolean' },
  json: { type: 'boolean' },
  verbose: { type: 'boolean', short: 'v' },
  'dry-run': { type: 'boolean' },
  help: { type: 'boolean', short: 'h' },
  version: { type: 'boolean', short: 'V' },
} as const;

export interface RunFlags extends AuditFlags, RegistryFlags, JournalFlags {
  /** Empty: that of the journal which is resumed, or of the task's file. */
  readonly wasm: string;
  readonly guestArgs: readonly string[];
  readonly taskConfig: string | undefined;
  readonly config: string | undefined;
  readonly backend: string | undefined;
  readonly script: string | undefined;
  /** Undefined: a prompt if there is a terminal. */
  readonly approve: 'prompt' | 'deny' | 'sms' | undefined;
  readonly metrics: string | undefined;
  readonly stream: StreamAddress | undefined;
  readonly trace: string | undefined;
  readonly follow: boolean;
  readonly limits: Readonly<Partial<Record<LimitName, number>>>;
  readonly env: Readonly<Record<string, string>>;
  readonly isolation: Isolation['kind'];
  readonly allowUnknownImports: boolean;
  readonly noCache: boolean;
  readonly json: boolean;
  readonly verbose: boolean;
  readonly dryRun: boolean;
  readonly each: EachFlags | null;
}

/** The flags of `spear-run`, or what to print instead of running. */
export function parseRunFlags(argv: readonly string[]): RunFlags | 'help' | 'version' {
  const separator = argv.indexOf('--');
  const own = separator < 0 ? argv : argv.slice(0, separator);
  const guestArgs = separator < 0 ? [] : argv.slice(separator + 1);
  const { values, positionals } = parseFlags(own, options, 'spear-run');
  if (values.help) return 'help';
  if (values.version) return 'version';
  const [wasm = '', ...more] = positionals;
  if (wasm === '' && values.resume === undefined && values['task-config'] === undefined)
    throw new UsageError('which module? usage: spear-run task.wasm [options] [-- guest args]');
  if (more.length > 0) {
    throw new UsageError(
      `one module at a time, found ${JSON.stringify(more[0])} too; the guest's own arguments go after --`,
    );
  }
  return {
    wasm,
    guestArgs,
    taskConfig: values['task-config'],
    config: values.config,
    backend: values.backend,
    script: values.script,
    mcpDir: values['mcp-dir'],
    strict: values.strict ?? false,
    sms: values.sms,
    smsToken: values['sms-token'],
    smsTokenFile: values['sms-token-file'],
    smsCa: values['sms-ca'],
    requireRegistry: values['require-registry'] ?? false,
    approve: parseApprove(values.approve),
    ...parseAuditFlags(values),
    ...parseJournalFlags(values),
    metrics: values.metrics,
    stream: values.stream === undefined ? undefined : parseStreamAddress(values.stream, '--stream'),
    trace: values.trace,
    follow: values.follow ?? false,
    limits: Object.fromEntries((values.limit ?? []).map(parseLimit)),
    env: Object.fromEntries((values.env ?? []).map(parseEnv)),
    isolation: parseIsolation(values.isolation),
    allowUnknownImports: values['allow-unknown-imports'] ?? false,
    noCache: values['no-cache'] ?? false,
    json: values.json ?? false,
    verbose: values.verbose ?? false,
    dryRun: values['dry-run'] ?? false,
    each: parseEachFlags(values),
  };
}

function parseApprove(text: string | undefined): RunFlags['approve'] {
  if (text === undefined || text === 'prompt' || text === 'deny' || text === 'sms') return text;
  throw new UsageError(`--approve ${text}: expected prompt, sms or deny`);
}

function parseIsolation(text = 'thread'): RunFlags['isolation'] {
  if (text === 'thread' || text === 'shared') return text;
  throw new UsageError(`--isolation ${text}: expected thread or shared`);
}

/** One `--limit NAME=VALUE`. */
export function parseLimit(text: string): [LimitName, number] {
  const [name, value] = splitOnce(text, '=');
  const known = limitNames.find((limit) => limit === name);
  if (known === undefined) {
    const hint = didYouMean(name, limitNames) ?? `valid: ${limitNames.join(', ')}`;
    throw new UsageError(`--limit ${text}: unknown limit "${name}"; ${hint}`);
  }
  const number = value !== null && /^\d+$/.test(value) ? Number(value) : Number.NaN;
  if (limitProblem(known, number) === null) return [known, number];
  throw new UsageError(`--limit ${text}: ${limitProblem(known, value ?? '')}`);
}

function parseEnv(text: string): [string, string] {
  const [name, value] = splitOnce(text, '=');
  // What stands there may be a secret whose name was forgotten: it is not repeated.
  if (name === '' || value === null) throw new UsageError('--env: expected NAME=VALUE');
  return [name, value];
}
