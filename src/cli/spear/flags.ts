import { parseFlags, wholeNumber } from '../parse-flags.ts';
import { UsageError } from '../usage-error.ts';

const options = {
  sms: { type: 'string' },
  token: { type: 'string' },
  'token-file': { type: 'string' },
  ca: { type: 'string' },
  'timeout-ms': { type: 'string' },
  json: { type: 'boolean' },
  'dry-run': { type: 'boolean' },
  yes: { type: 'boolean', short: 'y' },
  reveal: { type: 'boolean' },
  'allow-env': { type: 'string', multiple: true },
  'no-browser': { type: 'boolean' },
  'mcp-dir': { type: 'string' },
  port: { type: 'string' },
  role: { type: 'string', multiple: true },
  namespace: { type: 'string' },
  journals: { type: 'boolean' },
  expires: { type: 'string' },
  overlap: { type: 'string' },
  session: { type: 'boolean' },
  reason: { type: 'string' },
  status: { type: 'string' },
  full: { type: 'boolean' },
  description: { type: 'string' },
  out: { type: 'string', short: 'o' },
  help: { type: 'boolean', short: 'h' },
  version: { type: 'boolean', short: 'V' },
} as const;

export interface SpearFlags {
  /** What to do it with: `servers`, `nodes`. */
  readonly noun: string;
  /** Empty where none was given. */
  readonly verb: string;
  readonly args: readonly string[];
  readonly sms: string | undefined;
  readonly token: string | undefined;
  readonly tokenFile: string | undefined;
  readonly ca: string | undefined;
  readonly timeoutMs: number | undefined;
  readonly json: boolean;
  readonly dryRun: boolean;
  readonly yes: boolean;
  readonly reveal: boolean;
  readonly allowEnv: readonly string[];
  /** Whether one may be opened. */
  readonly browser: boolean;
  readonly mcpDir: string | undefined;
  readonly port: number | undefined;
  /** Of a token. */
  readonly roles: readonly string[];
  readonly namespace: string | undefined;
  readonly journals: boolean;
  /** Times as they were written. */
  readonly expires: string | undefined;
  readonly overlap: string | undefined;
  readonly description: string | undefined;
  /** Of a decision: for the whole session, and why. */
  readonly session: boolean;
  readonly reason: string | undefined;
  readonly status: string | undefined;
  /** Everything, unmasked. */
  readonly full: boolean;
  /** A file for what would go to stdout. */
  readonly out: string | undefined;
}

const MAX_TIMEOUT_MS = 3_600_000;
const MAX_PORT = 65_535;

/** `help`: the words of the command that help is wanted about. */
export function parseSpearFlags(argv: readonly string[]): SpearFlags | { readonly help: string[] } | 'version' {
  const { values, positionals } = parseFlags(argv, options, 'spear');
  if (values.help) return { help: positionals };
  if (values.version) return 'version';
  const [noun, verb = '', ...args] = positionals;
  if (noun === undefined) throw new UsageError('what to do? for example: spear servers ls; spear --help lists all');
  if (values.token !== undefined && values['token-file'] !== undefined) {
    throw new UsageError('--token and --token-file cannot be combined');
  }
  return {
    noun,
    verb,
    args,
    sms: values.sms,
    token: values.token,
    tokenFile: values['token-file'],
    ca: values.ca,
    timeoutMs: wholeNumber('timeout-ms', values['timeout-ms'], { min: 1, max: MAX_TIMEOUT_MS }),
    json: values.json ?? false,
    dryRun: values['dry-run'] ?? false,
    yes: values.yes ?? false,
    reveal: values.reveal ?? false,
    allowEnv: values['allow-env'] ?? [],
    browser: !values['no-browser'],
    mcpDir: values['mcp-dir'],
    port: wholeNumber('port', values.port, { min: 1, max: MAX_PORT }),
    roles: values.role ?? [],
    namespace: values.namespace,
    journals: values.journals ?? false,
    expires: values.expires,
    overlap: values.overlap,
    description: values.description,
    session: values.session ?? false,
    reason: values.reason,
    status: values.status,
    full: values.full ?? false,
    out: values.out,
  };
}
