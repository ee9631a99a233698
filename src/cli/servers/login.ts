import { spawn } from 'node:child_process';
import { stateDirectory } from '../../base/xdg-directories.ts';
import { ConfigError } from '../../config/config-error.ts';
import { loadHostConfig } from '../../config/host/host-config.ts';
import { EgressRules, egressOf } from '../../pool/egress.ts';
import { createHttpClient } from '../../pool/http-client.ts';
import { LoginStore } from '../../pool/oauth/login-store.ts';
import { loginsDirectory } from '../../pool/pool-options.ts';
import { resolveRecord } from '../../pool/resolved-record.ts';
import type { McpOAuth, McpServerRecord } from '../../protocol/record.ts';
import { isServerId, serverIdRule } from '../../protocol/record.ts';
import { parseRecord } from '../../protocol/record-parse.ts';
import type { ReferencePolicy } from '../../secrets/reference-policy.ts';
import { createSecretSource } from '../../secrets/secret-source.ts';
import { spearExitCodes } from '../exit-codes.ts';
import { oneArgument, type SpearCommand, type SpearContext } from '../spear/command.ts';
import { UsageError } from '../usage-error.ts';

/** Sends somebody to the authorization server of a server, and keeps the tokens for runs of this user. */
export const logInToServer: SpearCommand = async (context) => {
  const { flags, env, print, say } = context;
  const id = oneArgument(flags, 'ID [--no-browser]');
  const logins = openLogins(env);
  const record = await recordOf(id, context);
  if (record === null) return spearExitCodes.failed;
  const oauth = loginBlock(record);
  if (oauth === null) {
    say(`${id}: nobody logs in to it: its record has no http.oauth with grant = "authorization_code"`);
    return spearExitCodes.failed;
  }
  const { mcp, egress, keyVariables } = await loadHostConfig({ env }).catch((error: unknown) => {
    throw error instanceof ConfigError ? new UsageError(error.message) : error;
  });
  const mode: ReferencePolicy['mode'] = flags.mcpDir === undefined ? 'listed' : 'user_owned';
  const names = [...mcp.allowEnv, ...flags.allowEnv];
  const policy = { mode, names, paths: mcp.allowFiles, backendKeyNames: keyVariables };
  const interrupt = new AbortController();
  const onSignal = () => interrupt.abort(new UsageError('interrupted; nothing was kept'));
  process.once('SIGINT', onSignal);
  process.once('SIGTERM', onSignal);
  const library = await import('@modelcontextprotocol/client');
  const [{ login }, { oauthFailure }] = await Promise.all([
    import('../../pool/oauth/login.ts'),
    import('../../pool/oauth/oauth-failure.ts'),
  ]);
  const http = await createHttpClient(new EgressRules(egressOf(egress, mode)));
  try {
    const resolved = await resolveRecord(record, createSecretSource(policy, env));
    if (resolved.http === null) throw new UsageError(`${id}: its record has no url`);
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
        if (flags.browser) openBrowser(address);
      },
      port: flags.port ?? 0,
      signal: interrupt.signal,
    });
    const { issuer, scope, expires_at_ms } = stored;
    if (flags.json) print(`${JSON.stringify({ server_id: id, issuer, scope, expires_at_ms })}\n`);
    else say(`${id}: logged in at ${issuer}${scope === null ? '' : `, for ${scope}`}`);
    return spearExitCodes.ok;
  } catch (error) {
    if (interrupt.signal.aborted) say('interrupted; nothing was kept');
    else if (isTimeout(error)) say(`${id}: nobody logged in in time; nothing was kept`);
    else say(oauthFailure(error, id, library).message);
    return spearExitCodes.failed;
  } finally {
    process.off('SIGINT', onSignal);
    process.off('SIGTERM', onSignal);
    await http.close();
  }
};

export const logOutOfServer: SpearCommand = async ({ flags, env, say }) => {
  const id = oneArgument(flags, 'ID');
  if (!isServerId(id)) throw new UsageError(`ID must be ${serverIdRule}`);
  const wasThere = openLogins(env).remove(id);
  say(wasThere ? `${id}: its tokens are removed from this machine` : `${id}: there is no login on this machine`);
  return wasThere ? spearExitCodes.ok : spearExitCodes.failed;
};

function openLogins(env: NodeJS.ProcessEnv): LoginStore {
  const state = stateDirectory(env);
  if (state === null) throw new UsageError('where are logins kept? set HOME or XDG_STATE_HOME');
  return new LoginStore(loginsDirectory(state));
}

function loginBlock({ http }: McpServerRecord): McpOAuth | null {
  return http?.oauth?.grant === 'authorization_code' ? http.oauth : null;
}

/** Of the directory that is given, else of the registry, whose admin API would hide values. */
async function recordOf(id: string, { flags, client, say }: SpearContext): Promise<McpServerRecord | null> {
  if (flags.mcpDir !== undefined) {
    const [{ scanDirectory }, { serverKind }] = await Promise.all([
      import('../../sms/directory-scan.ts'),
      import('../../protocol/server-kind.ts'),
    ]);
    const { records } = await scanDirectory(serverKind, flags.mcpDir, { strict: false });
    const found = records.find(({ record }) => record.server_id === id);
    if (found === undefined) say(`${flags.mcpDir} has no server ${id} that can be used`);
    return found?.record ?? null;
  }
  const { value } = await client.request('GET', `/api/v1/mcp/servers/${encodeURIComponent(id)}`);
  const parsed = parseRecord(value, { strict: false });
  if (parsed.ok) return parsed.record;
  for (const { path, message } of parsed.issues) say(`the registry's record of ${id}: ${path} ${message}`);
  return null;
}

function isTimeout(error: unknown): boolean {
  return error instanceof DOMException && error.name === 'TimeoutError';
}

/** Whoever has none, or a broken one, has the address on the terminal. */
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
