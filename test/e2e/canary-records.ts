import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { sandboxOf } from '../pool/pool-records.ts';
import { fixture as server, startHttp } from '../pool/pool-samples.ts';
import { Canaries } from './canaries.ts';
import { scratch } from './spear-run.ts';
import type { ModelRequest, SteeredModel } from './steered-model.ts';

let made = 0;
export function folder(): string {
  const path = join(scratch, `canary-${++made}`);
  mkdirSync(path);
  return path;
}

export function privateFile(name: string, content: string): string {
  const path = join(folder(), name);
  writeFileSync(path, content, { mode: 0o600 });
  return path;
}

const reference = (name: string) => `\${ENV:${name}}`;

interface Planted {
  readonly canaries: Canaries;
  readonly records: Readonly<Record<string, object>>;
  readonly env: Readonly<Record<string, string>>;
}

/** Records of servers that repeat every secret they get, and the environment that the secrets come from. */
export async function plantRecords(): Promise<Planted> {
  const canaries = new Canaries();
  const env = {
    MCP_CANARY: canaries.plant('env-reference'),
    MCP_HEADER: canaries.plant('header-reference', true),
    MCP_AUTH: canaries.plant('auth-env', true),
    MCP_QUERY: canaries.plant('query-reference', true),
    MCP_LINES: `first line of nothing\n${canaries.plant('env-of-lines')}\nlast line of nothing\n`,
  };
  const authFile = privateFile('token', `${canaries.plant('auth-file', true)}\n`);
  const { url } = await startHttp(server('leaky-http.mjs'), []);
  const common = { allowed_tools: ['*'], budgets: { connect_timeout_ms: 30_000, tool_timeout_ms: 30_000 } };
  const http = (id: string, config: object) => ({
    server_id: id,
    transport: 'streamable_http',
    http: config,
    ...common,
  });
  const userinfo = `${url('/userinfo')}`.replace('http://', `http://bob:${canaries.plant('url-password', true)}@`);
  const query = `${url('/query')}?api_key=${canaries.plant('query-literal', true)}&also=${reference('MCP_QUERY')}`;
  const records = {
    leaky: {
      server_id: 'leaky',
      transport: 'stdio',
      stdio: {
        command: process.execPath,
        args: [server('leaky.mjs')],
        env: {
          SECRET_REFERENCE: reference('MCP_CANARY'),
          SECRET_PART: `postgres://me:${reference('MCP_CANARY')}@db/main`,
          SECRET_LINES: reference('MCP_LINES'),
          SECRET_TOKEN: canaries.plant('env-literal'),
        },
      },
      sandbox: sandboxOf(),
      ...common,
    },
    header: http('header', {
      url: url('/header'),
      headers: { 'X-Api-Key': reference('MCP_HEADER'), 'X-Token': canaries.plant('header-literal', true) },
    }),
    auth: http('auth', { url: url('/auth'), auth_ref: 'env:MCP_AUTH' }),
    authfile: http('authfile', { url: url('/authfile'), auth_ref: `file:${authFile}` }),
    userinfo: http('userinfo', { url: userinfo }),
    query: http('query', { url: query }),
    refusing: http('refusing', { url: url('/refuse'), auth_ref: 'env:MCP_AUTH' }),
  };
  return { canaries, records, env };
}

export const taskConfig = (servers: readonly string[], env: Record<string, string> = {}) => {
  const config = { 'mcp.enabled': 'true', 'mcp.default_server_ids': JSON.stringify(servers) };
  return privateFile('task.json', JSON.stringify({ name: 'canary', config, args: ['go'], env }));
};

export function hostConfig(
  canaries: Canaries,
  baseUrl: string,
  more = '',
): { file: string; env: Record<string, string> } {
  const header = canaries.plant('model-header', true);
  const file = privateFile(
    'config.toml',
    `[backends.main]\nkind = "openai"\nbase_url = "${baseUrl}"\nmodel = "m"\napi_key = "env:MODEL_KEY"\n` +
      `max_retries = 0\nheaders = { "X-Gateway-Token" = "${header}" }\n${more}`,
  );
  return { file, env: { MODEL_KEY: canaries.plant('model-key', true) } };
}

/** The calls that make the servers tell what they know, in rounds: one of them ends its server. */
const rounds: readonly (readonly string[])[] = [
  ['result', 'failure', 'rpc_error', 'invalid', 'garbage'].map((tool) => `leaky_${tool}`),
  ['leaky_die'],
  [
    'leaky_result',
    ...['header', 'auth', 'authfile', 'userinfo', 'query'].flatMap((id) =>
      ['result', 'http_error', 'rpc_error'].map((tool) => `${id}_${tool}`),
    ),
  ],
];
export const calls = rounds.flat();

/** Plays the model: calls every tool once, and keeps all that it was sent. */
export async function playModel(model: SteeredModel, password: string): Promise<{ heard: string; answers: string[] }> {
  const heard: ModelRequest[] = [];
  const answers: string[] = [];
  for (const round of rounds) {
    const request = await model.next();
    heard.push(request);
    request.callAll(round.map((name) => [name, { password, note: 'x' }]));
  }
  const last = await model.next();
  heard.push(last);
  for (const { role, content } of last.messages) if (role === 'tool') answers.push(String(content));
  // What it says is what the guest prints.
  last.say(answers.join('\n'));
  return { heard: JSON.stringify(heard), answers };
}
