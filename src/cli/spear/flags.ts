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
  help: { type: 'boolean', short: 'h' },
  version: { type: 'boolean', short: 'V' },
} as const;

export interface SpearFlags {
  /** What to do it with: `servers`, `nodes`. */
  readonly noun: string;
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
}

const MAX_TIMEOUT_MS = 3_600_000;

export function parseSpearFlags(argv: readonly string[]): SpearFlags | 'help' | 'version' {
  const { values, positionals } = parseFlags(argv, options, 'spear');
  if (values.help) return 'help';
  if (values.version) return 'version';
  const [noun, verb, ...args] = positionals;
  if (noun === undefined) throw new UsageError('what to do? for example: spear servers ls; spear --help lists all');
  if (verb === undefined) throw new UsageError(`spear ${noun}: what to do with them? spear --help lists all`);
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
  };
}
