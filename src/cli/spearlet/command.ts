import { resolve } from 'node:path';
import { errorText } from '../../base/error-text.ts';
import { version } from '../../base/version.ts';
import { visible } from '../../base/visible-text.ts';
import { ConfigError } from '../../config/config-error.ts';
import { loadHostConfig } from '../../config/host/host-config.ts';
import { defaultNodeDirectory } from '../../config/node/paths.ts';
import { processEnvironment } from '../../config/process-environment.ts';
import { knownSecrets } from '../../secrets/redactor.ts';
import { openServiceLog, type ServiceLog } from '../../sms/service-log.ts';
import { type RunningSpearlet, startSpearlet, TasksRefused } from '../../spearlet/spearlet.ts';
import { flagWords } from '../run/registry-flags.ts';
import { UsageError } from '../usage-error.ts';
import { parseSpearletFlags, type SpearletFlags } from './flags.ts';
import { spearletHelp } from './help.ts';

const exitCodes = { ok: 0, failed: 1, usage: 2, refused: 3, interrupted: 130, terminated: 143 } as const;

const say = (text: string) => process.stderr.write(`spearlet: ${visible(knownSecrets.redact(text))}\n`);

/** `spearlet`: from the command line to an exit code. */
export async function main(argv: readonly string[]): Promise<number> {
  try {
    const flags = parseSpearletFlags(argv);
    if (flags === 'help') return print(spearletHelp);
    if (flags === 'version') return print(`spearlet ${version}\n`);
    return await serve(flags);
  } catch (error) {
    for (const line of errorText(error).split('\n')) say(line);
    if (error instanceof UsageError || error instanceof ConfigError) return exitCodes.usage;
    return error instanceof TasksRefused ? exitCodes.refused : exitCodes.failed;
  }
}

async function serve(flags: SpearletFlags): Promise<number> {
  const log = openServiceLog();
  const host = await loadHostConfig({ file: flags.config, env: processEnvironment });
  const { sms: address, smsToken: token, smsTokenFile: tokenFile, smsCa: ca, mcpDir: directory } = flags;
  if (address !== undefined && directory !== undefined) {
    throw new UsageError('--mcp-dir and --sms: records come from one of them; leave the other out');
  }
  const node = await startSpearlet({
    host,
    data: dataDirectory(flags, host.node.data),
    listen: flags.listen ?? host.node.listen,
    slots: flags.slots ?? host.node.limits.slots,
    queue: flags.queue ?? host.node.queue,
    taskDir: flags.taskDir === undefined ? null : resolve(flags.taskDir),
    strict: flags.strict,
    registry: { directory, sms: address === undefined ? undefined : { address, token, tokenFile, ca } },
    words: flagWords,
    log,
  });
  const ended = untilSignalled(node, log);
  const { directory: data, adminToken: admin_token, submitterToken: submitter_token } = node.files;
  log('info', 'ready', { data, admin_token, ...(address === undefined ? { submitter_token } : { people: address }) });
  process.stdout.write(`${JSON.stringify({ http: node.url })}\n`);
  await ended;
  await node.close();
  return exitCodes.ok;
}

function dataDirectory({ data }: SpearletFlags, configured: string | null): string {
  const directory = data === undefined ? (configured ?? defaultNodeDirectory(processEnvironment)) : resolve(data);
  if (directory !== null) return directory;
  throw new ConfigError('where to keep the data? there is neither --data nor XDG_STATE_HOME nor HOME');
}

/** The first SIGINT or SIGTERM ends it in good order, the second at once; SIGHUP reads tokens, tasks and records again. */
function untilSignalled(node: RunningSpearlet, log: ServiceLog): Promise<void> {
  process.on('SIGHUP', () => {
    node.reload().then(
      () => log('info', 'reloaded'),
      (error: unknown) => log('error', 'not_reloaded', { message: errorText(error), kept: true }),
    );
  });
  return new Promise((done) => {
    let asked = false;
    for (const signal of ['SIGINT', 'SIGTERM'] as const) {
      process.on(signal, () => {
        if (asked) process.exit(signal === 'SIGINT' ? exitCodes.interrupted : exitCodes.terminated);
        asked = true;
        log('info', 'draining', { signal });
        done();
      });
    }
  });
}

function print(text: string): number {
  process.stdout.write(text);
  return exitCodes.ok;
}
