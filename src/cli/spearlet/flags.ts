import { nodeLimitSpecs } from '../../config/host/node-limits.ts';
import { parseFlags, wholeNumber } from '../parse-flags.ts';
import { UsageError } from '../usage-error.ts';

const options = {
  'task-dir': { type: 'string' },
  'mcp-dir': { type: 'string' },
  sms: { type: 'string' },
  'sms-token': { type: 'string' },
  'sms-token-file': { type: 'string' },
  'sms-ca': { type: 'string' },
  data: { type: 'string' },
  listen: { type: 'string' },
  slots: { type: 'string' },
  queue: { type: 'string' },
  strict: { type: 'boolean' },
  config: { type: 'string' },
  help: { type: 'boolean', short: 'h' },
  version: { type: 'boolean', short: 'V' },
} as const;

export interface SpearletFlags {
  readonly taskDir: string | undefined;
  readonly mcpDir: string | undefined;
  readonly sms: string | undefined;
  readonly smsToken: string | undefined;
  readonly smsTokenFile: string | undefined;
  readonly smsCa: string | undefined;
  readonly data: string | undefined;
  readonly listen: string | undefined;
  readonly slots: number | undefined;
  readonly queue: string | undefined;
  readonly strict: boolean;
  readonly config: string | undefined;
}

/** The flags of `spearlet`, or what to print instead of serving. */
export function parseSpearletFlags(argv: readonly string[]): SpearletFlags | 'help' | 'version' {
  const { values, positionals } = parseFlags(argv, options, 'spearlet');
  if (values.help) return 'help';
  if (values.version) return 'version';
  if (positionals.length > 0) {
    throw new UsageError(
      `unknown word ${JSON.stringify(positionals[0])}; tasks come from --task-dir or spear tasks apply`,
    );
  }
  return {
    taskDir: values['task-dir'],
    mcpDir: values['mcp-dir'],
    sms: values.sms,
    smsToken: values['sms-token'],
    smsTokenFile: values['sms-token-file'],
    smsCa: values['sms-ca'],
    data: values.data,
    listen: values.listen,
    slots: wholeNumber('slots', values.slots, nodeLimitSpecs.slots),
    queue: values.queue,
    strict: values.strict ?? false,
    config: values.config,
  };
}
