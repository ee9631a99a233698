import { join } from 'node:path';
import { loginsDirectory, stdioPolicyOf } from '../../agent/mcp/client/pool-options.ts';
import { ConfigError } from '../../config/config-error.ts';
import { stateDirectory } from '../../config/directories.ts';
import { loadHostConfig } from '../../config/host/host-config.ts';
import type { ServerTestResult } from '../../registry/server-test.ts';
import { egressOf } from '../../server/egress/egress.ts';
import { parseRecord } from '../../server/records/server.ts';
import { createSecretSource } from '../../server/secrets/secret-file.ts';
import { spearExitCodes, UsageError } from '../exit-codes.ts';
import { table } from '../formatting.ts';
import type { JsonFlag, SpearCommand, SpearContext } from '../spear/command.ts';

export interface RunServerFlags extends JsonFlag {
  readonly allowEnv: readonly string[];
}

/** Runs a registered server as a node on this machine would, and lists its tools. */
export const testRegisteredServer: SpearCommand<RunServerFlags> = async (context) => {
  const { flags, args, print, say } = context;
  const [id = ''] = args;
  const result = await testHere(context, id, false);
  if (result === null) return spearExitCodes.failed;
  if (flags.json) print(`${JSON.stringify(result)}\n`);
  else if (result.error !== null) sayFailure(context, result);
  else {
    const rows = result.tools.map((tool) => [tool.allowed ? 'yes' : 'no', tool.name, tool.description.slice(0, 80)]);
    print(table(['ALLOWED', 'TOOL', 'DESCRIPTION'], rows));
    for (const { name, reason } of result.dropped) say(`dropped: ${name} (${reason})`);
    if (result.notice !== null) say(`${id}: ${result.notice}`);
    say(`${id}: ${result.tools.length} tools, ${result.duration_ms} ms`);
  }
  return result.ok ? spearExitCodes.ok : spearExitCodes.failed;
};

/** Starts a server and lists its tools; null: it failed, and the reason was printed. */
export async function runServer(context: SpearContext<RunServerFlags>, id: string): Promise<ServerTestResult | null> {
  const result = await testHere(context, id, true);
  if (result === null || result.error === null) return result;
  sayFailure(context, result);
  return null;
}

function sayFailure({ say }: Pick<SpearContext, 'say'>, { error }: ServerTestResult): void {
  if (error === null) return;
  say(`${error.code}: ${error.message}`);
  if (/does not allow servers to use/.test(error.message))
    say('--allow-env NAME lets the server use an environment variable');
}

async function testHere(
  { flags, client, env, say }: SpearContext<RunServerFlags>,
  id: string,
  definitions: boolean,
): Promise<ServerTestResult | null> {
  // The admin API masks values that the server needs.
  const { value } = await client.request('GET', `/api/v1/mcp/servers/${encodeURIComponent(id)}`);
  const parsed = parseRecord(value, { strict: false });
  if (!parsed.ok) {
    for (const { path, message } of parsed.issues) say(`server ${id} of the registry is invalid: ${path} ${message}`);
    return null;
  }
  const state = stateDirectory(env);
  if (state === null) throw new UsageError('no directory for files of the server: set HOME or XDG_STATE_HOME');
  const { mcp, egress, keyVariables } = await loadHostConfig({ env }).catch((error: unknown) => {
    throw error instanceof ConfigError ? new UsageError(error.message) : error;
  });
  const interrupt = new AbortController();
  const onSignal = () => interrupt.abort();
  process.once('SIGINT', onSignal);
  process.once('SIGTERM', onSignal);
  const { testServer } = await import('../../registry/server-test.ts');
  const policy = {
    mode: 'listed',
    names: [...mcp.allowEnv, ...flags.allowEnv],
    paths: mcp.allowFiles,
    backendKeyNames: keyVariables,
  } as const;
  const result = await testServer(parsed.record, {
    stateDir: join(state, 'mcp'),
    loginsDir: loginsDirectory(state),
    path: env.PATH ?? '',
    secrets: createSecretSource(policy, env),
    egress: egressOf(egress, policy.mode),
    stdio: stdioPolicyOf(mcp.stdio, policy.mode),
    signal: interrupt.signal,
    definitions,
    ...(flags.json ? {} : { onStderr: (line: string) => say(`${id}: ${line}`) }),
  });
  process.off('SIGINT', onSignal);
  process.off('SIGTERM', onSignal);
  return result;
}
