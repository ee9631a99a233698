import { spawn } from 'node:child_process';
import { LoginStore } from '../../agent/mcp/client/oauth/login-store.ts';
import { loginsDirectory } from '../../agent/mcp/client/pool-options.ts';
import { resolveRecord } from '../../agent/mcp/client/resolved-record.ts';
import { ConfigError } from '../../config/config-error.ts';
import { stateDirectory } from '../../config/directories.ts';
import { loadHostConfig } from '../../config/host/host-config.ts';
import { EgressRules, egressOf } from '../../server/egress/egress.ts';
import { createHttpClient } from '../../server/egress/http-client.ts';
import { isServerId, serverIdRule } from '../../server/records/field-rules.ts';
import { type McpOAuth, type McpServerRecord, parseRecord } from '../../server/records/server.ts';
import type { ReferencePolicy } from '../../server/secrets/references.ts';
import { createSecretSource } from '../../server/secrets/secret-file.ts';
import { spearExitCodes, UsageError } from '../exit-codes.ts';
import type { JsonFlag, SpearCommand, SpearContext } from '../spear/command.ts';

interface LoginFlags extends JsonFlag {
  readonly mcpDir: string | undefined;
  readonly allowEnv: readonly string[];
  readonly noBrowser: boolean;
  readonly port: number | undefined;
}

/** Runs the OAuth login of a server in the browser, and stores the tokens for runs of this user. */
export const logInToServer: SpearCommand<LoginFlags> = async (context) => {
  const { flags, args, env, print, say } = context;
  const [id = ''] = args;
  const logins = openLogins(env);
  const record = await recordOf(id, context);
  if (record === null) return spearExitCodes.failed;
  const oauth = loginBlock(record);
  if (oauth === null) {
    say(`${id}: has no login: http.oauth.grant of this server is not "authorization_code"`);
    return spearExitCodes.failed;
  }
  const { mcp, egress, keyVariables } = await loadHostConfig({ env }).catch((error: unknown) => {
    throw error instanceof ConfigError ? new UsageError(error.message) : error;
  });
  const mode: ReferencePolicy['mode'] = flags.mcpDir === undefined ? 'listed' : 'user_owned';
  const names = [...mcp.allowEnv, ...flags.allowEnv];
  const policy = { mode, names, paths: mcp.allowFiles, backendKeyNames: keyVariables };
  const interrupt = new AbortController();
  const onSignal = () => interrupt.abort(new UsageError('interrupted; no token was stored'));
  process.once('SIGINT', onSignal);
  process.once('SIGTERM', onSignal);
  const library = await import('@modelcontextprotocol/client');
  const [{ login }, { tokenFailure }] = await Promise.all([
    import('../../agent/mcp/client/oauth/login.ts'),
    import('../../agent/mcp/client/oauth/token-errors.ts'),
  ]);
  const http = await createHttpClient(new EgressRules(egressOf(egress, mode)));
  try {
    const resolved = await resolveRecord(record, createSecretSource(policy, env));
    if (resolved.http === null) throw new UsageError(`${id}: the server has no url`);
    const stored = await login({
      serverId: id,
      target: resolved.http,
      transport: record.transport,
      oauth,
      proof: resolved.clientProof,
      library,
      fetch: http.fetch,
      logins,
      wallClock: Date.now,
      show: (address) => {
        say(`log in at ${address.href}`);
        if (!flags.noBrowser) openBrowser(address);
      },
      port: flags.port ?? 0,
      signal: interrupt.signal,
    });
    const { issuer, scope, expires_at_ms } = stored;
    if (flags.json) print(`${JSON.stringify({ server_id: id, issuer, scope, expires_at_ms })}\n`);
    else say(`${id}: logged in at ${issuer}${scope === null ? '' : `, scope ${scope}`}`);
    return spearExitCodes.ok;
  } catch (error) {
    if (interrupt.signal.aborted) say('interrupted; no token was stored');
    else if (isTimeout(error)) say(`${id}: login timed out; no token was stored`);
    else say(tokenFailure(error, id, library).message);
    return spearExitCodes.failed;
  } finally {
    process.off('SIGINT', onSignal);
    process.off('SIGTERM', onSignal);
    await http.close();
  }
};

export const logOutOfServer: SpearCommand = async ({ args, env, say }) => {
  const [id = ''] = args;
  if (!isServerId(id)) throw new UsageError(`ID must be ${serverIdRule}`);
  const wasThere = openLogins(env).remove(id);
  say(wasThere ? `${id}: logged out; its tokens were removed from this machine` : `${id}: no login on this machine`);
  return wasThere ? spearExitCodes.ok : spearExitCodes.failed;
};

function openLogins(env: NodeJS.ProcessEnv): LoginStore {
  const state = stateDirectory(env);
  if (state === null) throw new UsageError('no directory for logins: set HOME or XDG_STATE_HOME');
  return new LoginStore(loginsDirectory(state));
}

function loginBlock({ http }: McpServerRecord): McpOAuth | null {
  return http?.oauth?.grant === 'authorization_code' ? http.oauth : null;
}

/** From --mcp-dir, else from the registry; not from its admin API, which masks values. */
async function recordOf(id: string, { flags, client, say }: SpearContext<LoginFlags>): Promise<McpServerRecord | null> {
  if (flags.mcpDir !== undefined) {
    const [{ scanDirectory }, { serverKind }] = await Promise.all([
      import('../../server/store/directory/directory.ts'),
      import('../../server/records/server.ts'),
    ]);
    const { records } = await scanDirectory(serverKind, flags.mcpDir, { strict: false });
    const found = records.find(({ record }) => record.server_id === id);
    if (found === undefined) say(`${flags.mcpDir}: no valid server ${id}`);
    return found?.record ?? null;
  }
  const { value } = await client.request('GET', `/api/v1/mcp/servers/${encodeURIComponent(id)}`);
  const parsed = parseRecord(value, { strict: false });
  if (parsed.ok) return parsed.record;
  for (const { path, message } of parsed.issues) say(`server ${id} of the registry is invalid: ${path} ${message}`);
  return null;
}

function isTimeout(error: unknown): boolean {
  return error instanceof DOMException && error.name === 'TimeoutError';
}

/** Best effort: the address is on the terminal as well. */
function openBrowser(address: URL): void {
  const [command, ...args] = openers[process.platform] ?? ['xdg-open'];
  const child = spawn(command as string, [...args, address.href], { stdio: 'ignore', detached: true });
  child.on('error', () => {});
  child.unref();
}

const openers: Partial<Record<NodeJS.Platform, readonly string[]>> = {
  darwin: ['open'],
  win32: ['rundll32', 'url.dll,FileProtocolHandler'],
};
