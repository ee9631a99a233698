import type { SmsFlags } from '../../config/sms/sms-config.ts';
import { parseFlags } from '../parse-flags.ts';
import { UsageError } from '../usage-error.ts';

const options = {
  grpc: { type: 'string' },
  http: { type: 'string' },
  data: { type: 'string' },
  store: { type: 'string' },
  queue: { type: 'string' },
  'mcp-registry-dir': { type: 'string' },
  'mcp-dir': { type: 'string' },
  'task-dir': { type: 'string' },
  strict: { type: 'boolean' },
  'allow-mass-removal': { type: 'boolean' },
  'dry-run': { type: 'boolean' },
  'tls-cert': { type: 'string' },
  'tls-key': { type: 'string' },
  'insecure-no-auth': { type: 'boolean' },
  'allow-plaintext-beyond-loopback': { type: 'boolean' },
  from: { type: 'string' },
  to: { type: 'string' },
  config: { type: 'string' },
  help: { type: 'boolean', short: 'h' },
  version: { type: 'boolean', short: 'V' },
} as const;

export type SmsCommand =
  | { readonly kind: 'serve'; readonly dryRun: boolean; readonly flags: SmsFlags }
  | { readonly kind: 'backup' | 'restore'; readonly file: string; readonly flags: SmsFlags }
  | { readonly kind: 'migrate'; readonly from: string; readonly to: string; readonly flags: SmsFlags };

/** What `spear-sms` is to do, or what to print instead. */
export function parseSmsFlags(argv: readonly string[]): SmsCommand | 'help' | 'version' {
  const { values, positionals } = parseFlags(argv, options, 'spear-sms');
  if (values.help) return 'help';
  if (values.version) return 'version';
  const flags: SmsFlags = {
    config: values.config,
    grpc: values.grpc,
    http: values.http,
    data: values.data,
    store: values.store,
    queue: values.queue,
    registryDir: values['mcp-registry-dir'] ?? values['mcp-dir'],
    taskDir: values['task-dir'],
    strict: values.strict,
    allowMassRemoval: values['allow-mass-removal'],
    tlsCert: values['tls-cert'],
    tlsKey: values['tls-key'],
    insecureNoAuth: values['insecure-no-auth'],
    allowPlaintextBeyondLoopback: values['allow-plaintext-beyond-loopback'],
  };
  const dryRun = values['dry-run'] ?? false;
  const [command, file, ...more] = positionals;
  const { from, to } = values;
  if (command === 'migrate') {
    if (file !== undefined || from === undefined || to === undefined || dryRun) {
      throw new UsageError(
        'usage: spear-sms migrate --from sqlite:FILE --to etcd://HOST:PORT,… (or the other way round)',
      );
    }
    return { kind: 'migrate', from, to, flags };
  }
  if (from !== undefined || to !== undefined) throw new UsageError('--from and --to are for spear-sms migrate');
  if (command === undefined) return { kind: 'serve', dryRun, flags };
  if (command !== 'backup' && command !== 'restore') {
    throw new UsageError(
      `unknown command ${JSON.stringify(command)}; there are backup, restore and migrate, or none to serve`,
    );
  }
  if (file === undefined || more.length > 0) throw new UsageError(`usage: spear-sms ${command} FILE`);
  if (dryRun) throw new UsageError(`--dry-run does not go with ${command}`);
  return { kind: command, file, flags };
}
