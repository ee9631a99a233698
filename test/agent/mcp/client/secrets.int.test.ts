import { chmodSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { McpConnectionError } from '../../../../src/agent/mcp/client/errors.ts';
import { resolveRecord } from '../../../../src/agent/mcp/client/resolved-record.ts';
import { type ReferencePolicy, referenceTo } from '../../../../src/server/secrets/references.ts';
import { createSecretSource } from '../../../../src/server/secrets/secret-file.ts';
import { call, eventually, httpRecord, openPool, processesWith, stdioRecord, tempDir } from './pool-samples.ts';

const listed: ReferencePolicy = { mode: 'listed', names: [], paths: [], backendKeyNames: [] };
const web = (http: Record<string, unknown>, url = 'https://example.test/mcp') =>
  httpRecord('web', 'streamable_http', url, {}, http);

async function refusal(promise: Promise<unknown>): Promise<McpConnectionError> {
  const error = await promise.then(
    () => null,
    (reason: unknown) => reason,
  );
  if (!(error instanceof McpConnectionError)) throw new Error(`not refused: ${String(error)}`);
  return error;
}

describe('references of a record', () => {
  it('are resolved on this node, where it connects', async () => {
    const source = createSecretSource(listed, { MCP_KEY: 'key-1', MCP_HOST: 'api.example.test' });
    const { http } = await resolveRecord(
      web(
        { headers: { 'X-Key': `id ${referenceTo('MCP_KEY')}` }, auth_ref: 'env:MCP_KEY' },
        `https://${referenceTo('MCP_HOST')}/mcp`,
      ),
      source,
    );
    expect(http?.url.href).toBe('https://api.example.test/mcp');
    expect(http?.headers).toEqual({ 'X-Key': 'id key-1', authorization: 'Bearer key-1' });
  });

  it.each([
    ['a variable that is not set', { auth_ref: 'env:MCP_NONE' }, 'env_missing', 'http.auth_ref refers to MCP_NONE'],
    ['a variable that records may not use', { auth_ref: 'env:AWS_SECRET' }, 'env_refused', 'AWS_SECRET'],
    ['a header', { headers: { 'X-A': referenceTo('MCP_NONE') } }, 'env_missing', 'http.headers.X-A'],
    ['a file that records may not use', { auth_ref: 'file:/etc/passwd' }, 'env_refused', '/etc/passwd'],
    [
      'a value that is no header',
      { headers: { 'X-A': referenceTo('MCP_LINES') } },
      'record_invalid',
      'http.headers.X-A',
    ],
  ])('that cannot be resolved fail that server alone: %s', async (_, http, reason, message) => {
    const source = createSecretSource(listed, { AWS_SECRET: 'aws', MCP_LINES: 'a\nsecond-line' });
    const error = await refusal(resolveRecord(web(http), source));
    expect(error).toMatchObject({ reason, retryable: false });
    expect(error.message).toContain(message);
    expect(error.message).not.toContain('second-line');
  });

  it('may name a file, and a link does not lead out of what is allowed', async () => {
    const dir = tempDir();
    const allowed = `${join(dir, 'allowed')}/`;
    mkdirSync(allowed);
    writeFileSync(join(dir, 'outside'), 'stolen');
    writeFileSync(join(allowed, 'token'), 'Basic dXNlcjpwYXNz\n', { mode: 0o600 });
    symlinkSync(join(dir, 'outside'), join(allowed, 'link'));
    const source = createSecretSource({ ...listed, paths: [allowed] }, {});
    const { http } = await resolveRecord(web({ auth_ref: `file:${allowed}token` }), source);
    expect(http?.headers.authorization).toBe('Basic dXNlcjpwYXNz');
    expect((await refusal(resolveRecord(web({ auth_ref: `file:${allowed}link` }), source))).reason).toBe('env_refused');
    expect((await refusal(resolveRecord(web({ auth_ref: `file:${allowed}none` }), source))).reason).toBe('env_missing');
  });
});

describe('a file that others may read', () => {
  it('is refused, and what to do is said [secrets.file]', async () => {
    const path = join(tempDir(), 'token');
    writeFileSync(path, 'token-in-an-open-file');
    chmodSync(path, 0o644);
    const source = createSecretSource({ ...listed, mode: 'user_owned' }, {});
    const error = await refusal(resolveRecord(web({ auth_ref: `file:${path}` }), source));
    expect(error).toMatchObject({ reason: 'env_refused', retryable: false });
    expect(error.message).toContain(`${path} is accessible to other users (mode 644); run: chmod 600 ${path}`);
    expect(error.message).not.toContain('token-in');
  });
});

describe('what is known as a secret', () => {
  const resolved = async (env: Record<string, string>, variables: Record<string, string>) =>
    resolveRecord(
      stdioRecord('known', 'tiny.mjs', { env }),
      createSecretSource({ ...listed, mode: 'user_owned' }, variables),
    );

  it.each([
    ['a value by reference', { A: referenceTo('MCP_A') }, 'value-of-mcp-a'],
    ['a value around a reference', { A: `pre-${referenceTo('MCP_A')}` }, 'value-of-mcp-a'],
    ['a literal that looks like one', { API_TOKEN: 'literal-of-a-token' }, 'literal-of-a-token'],
    ['a default that was taken', { A: `\${ENV:MCP_NONE:-default-that-was-taken}` }, 'default-that-was-taken'],
  ])('is %s', async (_, env, secret) => {
    const { redact, redactContent } = await resolved(env, { MCP_A: 'value-of-mcp-a' });
    expect(redact(`x ${secret} y`)).toBe('x [redacted] y');
    expect(redactContent(`x ${secret} y`)).toBe('x [redacted] y');
  });

  it('is not a setting of the system, or an ordinary literal', async () => {
    const env = { ROOT: `${referenceTo('HOME')}/notes`, LEVEL: 'informative' };
    const { redact, redactContent } = await resolved(env, { HOME: '/home/somebody' });
    for (const clean of [redact, redactContent]) {
      expect(clean('/home/somebody/notes informative')).toBe('/home/somebody/notes informative');
    }
  });

  it('is a user and password in a url, which become a header', async () => {
    const record = web({}, 'https://bob:p%40ssw0rd-1@example.test/mcp?api_key=query-key-1&region=eu-central');
    const { http, redact } = await resolveRecord(record, createSecretSource(listed, {}));
    const credentials = Buffer.from('bob:p@ssw0rd-1').toString('base64');
    expect(http?.headers).toEqual({ authorization: `Basic ${credentials}` });
    expect(http?.url.href).toBe('https://example.test/mcp?api_key=query-key-1&region=eu-central');
    for (const secret of ['p%40ssw0rd-1', 'p@ssw0rd-1', 'query-key-1', credentials]) {
      expect(redact(`x ${secret} y`)).toBe('x [redacted] y');
    }
    expect(redact('eu-central')).toBe('eu-central');
  });
});

describe('a secret', () => {
  it('never reaches the log, an error or the health of its server', async () => {
    const { pool, log } = openPool({ variables: { MCP_API_TOKEN: 'tok-98765' } });
    const env = { API_TOKEN: referenceTo('MCP_API_TOKEN') };
    const record = stdioRecord('mute', 'mute.mjs', { env, budgets: { connect_timeout_ms: 60_000 } });
    let isOver = false;
    const connecting = call(pool, record, 'anything').finally(() => {
      isOver = true;
    });
    // It is started for either era, and each time killed when it has said something.
    let said = 0;
    await eventually(() => {
      const lines = log.filter(({ event }) => event === 'stderr').length;
      if (lines > said) for (const pid of processesWith('tok-98765')) process.kill(pid, 'SIGKILL');
      said = lines;
      expect(isOver).toBe(true);
    });
    const outcome = await connecting;
    expect(outcome.error?.message).toContain('waiting for a database with [redacted]');
    expect(log.find(({ event }) => event === 'stderr')?.message).toBe('waiting for a database with [redacted]');
    expect(JSON.stringify([outcome, log, pool.health()])).not.toContain('tok-98765');
  });

  it('that is missing is named, not shown, and nothing is started', async () => {
    const { pool } = openPool();
    const outcome = await call(pool, stdioRecord('tiny', 'tiny.mjs', { env: { T: referenceTo('MCP_NONE') } }), 'pid');
    expect(outcome).toMatchObject({ dispatched: false, error: { code: 'mcp_unavailable', retryable: false } });
    expect(outcome.error?.message).toContain('stdio.env.T refers to MCP_NONE');
    await eventually(() => expect(pool.stats().subprocesses).toBe(0));
  });
});
