import { resolve } from 'node:path';
import { errorText } from '../../base/errors.ts';
import { ConfigError } from '../../config/config-error.ts';
import { defaultNodeDirectory } from '../../config/directories.ts';
import { loadHostConfig } from '../../config/host/host-config.ts';
import { processEnvironment } from '../../config/process-environment.ts';
import { type RunningSpearlet, startSpearlet, TasksRefused } from '../../node/node.ts';
import { openServiceLog, type ServiceLog } from '../../server/log/service-log.ts';
import type { Call, FlagValues } from '../command-table.ts';
import { UsageError } from '../exit-codes.ts';
import { flagWords } from '../run/registry-flags.ts';
import { outputOf } from '../say.ts';
import type { spearletFlags } from './flags.ts';

const exitCodes = { ok: 0, failed: 1, usage: 2, refused: 3, interrupted: 130, terminated: 143 } as const;

type SpearletFlags = FlagValues<typeof spearletFlags>;

/** `spearlet`, and `spear node serve`. */
export async function serveNode({ flags, program }: Call<SpearletFlags>): Promise<number> {
  try {
    return await serve(flags);
  } catch (error) {
    if (error instanceof UsageError || error instanceof ConfigError) throw error;
    for (const line of errorText(error).split('\n')) outputOf(program.name).say(line);
    return error instanceof TasksRefused ? exitCodes.refused : exitCodes.failed;
  }
}

async function serve(flags: SpearletFlags): Promise<number> {
  const log = openServiceLog();
  const host = await loadHostConfig({ file: flags.config, env: processEnvironment });
  const { sms: address, smsToken: token, smsTokenFile: tokenFile, smsCa: ca, mcpDir: directory } = flags;
  if (address !== undefined && directory !== undefined) {
    throw new UsageError('--mcp-dir and --sms cannot be combined: MCP servers come from one of them');
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

/** The directory that a flag names, else the config, else that of this user. @throws ConfigError */
export function dataDirectory({ data }: Pick<SpearletFlags, 'data'>, configured: string | null): string {
  const directory = data === undefined ? (configured ?? defaultNodeDirectory(processEnvironment)) : resolve(data);
  if (directory !== null) return directory;
  throw new ConfigError('no data directory: set --data, XDG_STATE_HOME or HOME');
}

/** The first SIGINT or SIGTERM shuts down gracefully, the second at once; SIGHUP reloads tokens, tasks and servers. */
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
