import { fixture, sandboxOf } from '../agent/mcp/client/pool-records.ts';
import type { ModelRequest, SteeredModel } from './steered-model.ts';

/** Makes a secret for a place; `plain`: where only characters of a header or a url can be used. */
export type Plant = (place: string, plain?: boolean) => string;

const reference = (name: string) => `\${ENV:${name}}`;

/** The variables that the records of {@link leakyRecords} refer to. */
export function plantVariables(plant: Plant): Record<string, string> {
  return {
    MCP_CANARY: plant('env-reference'),
    MCP_HEADER: plant('header-reference', true),
    MCP_AUTH: plant('auth-env', true),
    MCP_QUERY: plant('query-reference', true),
    MCP_LINES: `first line of nothing\n${plant('env-of-lines')}\nlast line of nothing\n`,
  };
}

/** Records of servers that repeat every secret they get. `url` leads to leaky-http.mjs, `authFile` holds a token. */
export function leakyRecords(
  plant: Plant,
  { url, authFile }: { readonly url: (path: string) => string; readonly authFile: string },
): Record<string, object> {
  const common = { allowed_tools: ['*'], budgets: { connect_timeout_ms: 30_000, tool_timeout_ms: 30_000 } };
  const http = (id: string, config: object) => ({
    server_id: id,
    transport: 'streamable_http',
    http: config,
    ...common,
  });
  const userinfo = `${url('/userinfo')}`.replace('http://', `http://bob:${plant('url-password', true)}@`);
  const query = `${url('/query')}?api_key=${plant('query-literal', true)}&also=${reference('MCP_QUERY')}`;
  return {
    leaky: {
      server_id: 'leaky',
      transport: 'stdio',
      stdio: {
        command: process.execPath,
        args: [fixture('leaky.mjs')],
        env: {
          SECRET_REFERENCE: reference('MCP_CANARY'),
          SECRET_PART: `postgres://me:${reference('MCP_CANARY')}@db/main`,
          SECRET_LINES: reference('MCP_LINES'),
          SECRET_TOKEN: plant('env-literal'),
        },
      },
      sandbox: sandboxOf(),
      ...common,
    },
    header: http('header', {
      url: url('/header'),
      headers: { 'X-Api-Key': reference('MCP_HEADER'), 'X-Token': plant('header-literal', true) },
    }),
    auth: http('auth', { url: url('/auth'), auth_ref: 'env:MCP_AUTH' }),
    authfile: http('authfile', { url: url('/authfile'), auth_ref: `file:${authFile}` }),
    userinfo: http('userinfo', { url: userinfo }),
    query: http('query', { url: query }),
    refusing: http('refusing', { url: url('/refuse'), auth_ref: 'env:MCP_AUTH' }),
  };
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
