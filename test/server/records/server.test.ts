import { describe, expect, it } from 'vitest';
import { budgetRanges, recordLimits } from '../../../src/server/records/field-rules.ts';
import type { ParseOptions } from '../../../src/server/records/record-kind.ts';
import { parseRecord } from '../../../src/server/records/server.ts';

const stdio = { server_id: 'fs', transport: 'stdio', stdio: { command: 'npx' }, allowed_tools: ['*'] };
const http = {
  server_id: 'web',
  transport: 'streamable_http',
  http: { url: 'https://mcp.example/mcp' },
  allowed_tools: ['*'],
};

const inStdio = (fields: object) => ({ ...stdio, stdio: { ...stdio.stdio, ...fields } });
const inHttp = (fields: object) => ({ ...http, http: { ...http.http, ...fields } });
const ref = (inner: string) => `\${ENV:${inner}}`;

function issuesOf(input: unknown, options: ParseOptions = { strict: false }): string[] {
  const parsed = parseRecord(input, options);
  return parsed.ok ? [] : parsed.issues.map(({ path, message }) => `${path}: ${message}`);
}

function warningsOf(input: unknown, options: ParseOptions = { strict: false }): string[] {
  const parsed = parseRecord(input, options);
  if (!parsed.ok) throw new Error(JSON.stringify(parsed.issues));
  return parsed.warnings.map(({ path, message }) => `${path}: ${message}`);
}

describe('a record', () => {
  it('is completed with every default and deeply frozen [record.defaults]', () => {
    const parsed = parseRecord({ server_id: 'fs', transport: 'stdio', stdio: { command: 'npx' } }, { strict: true });
    if (!parsed.ok) throw new Error('refused');
    expect(parsed.record).toEqual({
      server_id: 'fs',
      display_name: 'fs',
      transport: 'stdio',
      stdio: { command: 'npx', args: [], env: {}, cwd: null },
      http: null,
      tool_namespace: 'mcp.fs',
      tool_prefix: 'fs',
      allowed_tools: [],
      approval_policy: { default: 'never', per_tool: {} },
      budgets: {
        tool_timeout_ms: 8000,
        max_tool_timeout_ms: 0,
        max_concurrency: 8,
        max_tool_output_bytes: 65536,
        connect_timeout_ms: 60000,
      },
      protocol: 'auto',
      tags: [],
      sandbox: null,
      strict_schemas: false,
      repeatable: [],
      pins: {},
      connection_scope: 'task',
      client_features: { elicitation: [], roots: [] },
      allowed_resources: [],
      allowed_prompts: [],
      namespaces: ['*'],
      updated_at_ms: 0,
      mod_revision: 0,
    });
    const { record } = parsed;
    for (const part of [record, record.stdio, record.stdio?.env, record.allowed_tools, record.budgets]) {
      expect(Object.isFrozen(part)).toBe(true);
    }
  });

  it('keeps every given field', () => {
    const input = {
      server_id: 'Web.1_x-y',
      display_name: 'Web',
      transport: 'http_sse_legacy',
      stdio: null,
      http: { url: 'http://localhost:1/sse', headers: { 'X-Key': ref('MCP_KEY') }, auth_ref: 'env:MCP_TOKEN' },
      tool_namespace: 'mcp.web',
      tool_prefix: 'w',
      allowed_tools: ['read_*', 'a/b?'],
      approval_policy: { default: 'policy', per_tool: { 'delete_*': 'always' } },
      budgets: {
        tool_timeout_ms: 100,
        max_tool_timeout_ms: 200,
        max_concurrency: 1,
        max_tool_output_bytes: 10485760,
        connect_timeout_ms: 5000,
      },
      protocol: 'auto',
      tags: ['scm'],
      sandbox: null,
      strict_schemas: false,
      repeatable: ['read_*'],
      pins: { read_a: 'a'.repeat(64) },
      connection_scope: 'run',
      client_features: { elicitation: ['form', 'url'], roots: [{ uri: 'file:///srv', name: 'Srv' }] },
      allowed_resources: ['file:///srv/*'],
      allowed_prompts: ['review_?'],
      namespaces: ['default', 'team-*'],
      updated_at_ms: 5,
      mod_revision: 6,
    };
    const parsed = parseRecord({ version: 1, ...input }, { strict: true });
    expect(parsed).toMatchObject({ ok: true, record: input, warnings: [] });
  });

  it('reads null, an empty text and a zero budget as not given [record.defaults]', () => {
    const parsed = parseRecord(
      {
        ...stdio,
        display_name: '',
        http: null,
        tool_namespace: null,
        budgets: { tool_timeout_ms: 0, max_concurrency: null },
        approval_policy: { default: '' },
        stdio: { command: 'npx', cwd: '', args: null, env: null },
      },
      { strict: true },
    );
    expect(parsed).toMatchObject({
      record: {
        display_name: 'fs',
        tool_namespace: 'mcp.fs',
        stdio: { cwd: null, args: [], env: {} },
        budgets: { tool_timeout_ms: 8000, max_concurrency: 8 },
        approval_policy: { default: 'never' },
      },
    });
  });

  it('with a sandbox block requires the sandbox by default', () => {
    const parsed = parseRecord({ ...stdio, sandbox: { network: 'deny', writable_paths: ['/data'] } }, { strict: true });
    expect(parsed).toMatchObject({
      record: { sandbox: { mode: 'required', network: 'deny', read_only_paths: [], writable_paths: ['/data'] } },
    });
  });

  it('may list env_from variables in a file only', () => {
    const input = inStdio({ env: { A: '1' }, env_from: ['MCP_TOKEN'] });
    expect(parseRecord(input, { strict: true, fromFile: true })).toMatchObject({
      record: { stdio: { env: { A: '1', MCP_TOKEN: ref('MCP_TOKEN') } } },
    });
    expect(issuesOf(input)).toEqual([expect.stringMatching(/^stdio\.env_from: is allowed in files only/)]);
    const twice = inStdio({ env: { A: '1' }, env_from: ['A'] });
    expect(issuesOf(twice, { strict: false, fromFile: true })).toEqual(['stdio.env.A: is also set in env_from']);
  });
});

describe('a record is refused', () => {
  const cases: [string, unknown, string][] = [
    ['that is no object', 'fs', ': must be a table of fields'],
    ['that is null', null, ': must be a table of fields'],
    ['that is a list', [], ': must be a table of fields'],
    ['without server_id', { ...stdio, server_id: undefined }, 'server_id: is required'],
    ['with a leading dot in server_id', { ...stdio, server_id: '.fs' }, 'server_id: must be 1 to 64 characters'],
    ['with a slash in server_id', { ...stdio, server_id: 'a/b' }, 'server_id: must be 1 to 64 characters'],
    ['with a line break after server_id', { ...stdio, server_id: 'fs\n' }, 'server_id: must be 1 to 64 characters'],
    ['with 65 characters in server_id', { ...stdio, server_id: 'a'.repeat(65) }, 'server_id: must be 1 to 64'],
    ['with another version', { ...stdio, version: 2 }, 'version: must be 1'],
    ['without transport', { ...stdio, transport: undefined }, 'transport: is required'],
    ['with an unknown transport', { ...stdio, transport: 'ftp' }, 'transport: must be "stdio" or "streamable_http" or'],
    ['with stdio and no stdio block', { ...stdio, stdio: undefined }, 'stdio: is required for transport "stdio"'],
    ['with http and no http block', { ...http, http: null }, 'http: is required for transport "streamable_http"'],
    ['without a command', inStdio({ command: undefined }), 'stdio.command: is required'],
    ['with an empty command', inStdio({ command: '' }), 'stdio.command: must not be empty'],
    ['with NUL in an argument', inStdio({ args: ['a\0b'] }), 'stdio.args[0]: must not contain NUL'],
    ['with too many arguments', inStdio({ args: Array(129).fill('a') }), 'stdio.args: has more than 128 items'],
    ['with arguments that are a text', inStdio({ args: '-v' }), 'stdio.args: must be a list'],
    ['with "=" in a variable name', inStdio({ env: { 'A=B': '1' } }), 'stdio.env["A=B"]: a variable name'],
    ['with a line break in a variable name', inStdio({ env: { 'A\nB': '1' } }), 'stdio.env["A\\nB"]: must not contain'],
    ['with an empty variable name', inStdio({ env: { '': '1' } }), 'stdio.env[""]: must not be empty'],
    ['with __proto__ as a variable', inStdio({ env: JSON.parse('{"__proto__":"1"}') }), 'stdio.env.__proto__: '],
    ['with a number as a variable', inStdio({ env: { A: 1 } }), 'stdio.env.A: must be a string'],
    ['with NUL in a value', inStdio({ env: { A: '\0' } }), 'stdio.env.A: must not contain NUL'],
    ['with a reference without end', inStdio({ env: { A: '$'.concat('{ENV:X') } }), 'stdio.env.A: has a malformed'],
    ['with a reference to no name', inStdio({ env: { A: ref('') } }), 'stdio.env.A: has a malformed reference'],
    ['with a reference to a bad name', inStdio({ env: { A: ref('1X') } }), 'stdio.env.A: has a malformed reference'],
    ['with a half default', inStdio({ env: { A: ref('X:d') } }), 'stdio.env.A: has a malformed reference'],
    ['without a url', inHttp({ url: null }), 'http.url: must be a string'],
    ['with another scheme', inHttp({ url: 'file:///etc/passwd' }), 'http.url: must be an absolute url that starts'],
    ['with a relative url', inHttp({ url: '/mcp' }), 'http.url: must be an absolute url that starts'],
    ['with a url without a host', inHttp({ url: 'http://' }), 'http.url: is not a valid url'],
    ['with a line break in the url', inHttp({ url: 'http://a/\nb' }), 'http.url: must not contain control characters'],
    ['with a bad header name', inHttp({ headers: { 'a b': '1' } }), 'http.headers["a b"]: is not a valid header name'],
    [
      'with a line break in a header',
      inHttp({ headers: { a: '1\r\nb: 2' } }),
      'http.headers.a: must not contain control',
    ],
    ['with a header beyond Latin-1', inHttp({ headers: { a: '→' } }), 'http.headers.a: must not contain characters'],
    [
      'with a header of the client',
      inHttp({ headers: { 'Content-Length': '1' } }),
      'http.headers.Content-Length: is set',
    ],
    ['with a header twice', inHttp({ headers: { A: '1', a: '2' } }), 'http.headers.a: is set twice'],
    ['with another kind of auth_ref', inHttp({ auth_ref: 'vault:x' }), 'http.auth_ref: must be env:NAME or file:PATH'],
    ['with a bad name in auth_ref', inHttp({ auth_ref: 'env:A-B' }), 'http.auth_ref: must be env:NAME or file:PATH'],
    ['with an empty pattern', { ...stdio, allowed_tools: [''] }, 'allowed_tools[0]: must not be empty'],
    [
      'with a pattern of 257',
      { ...stdio, allowed_tools: ['a', 'b'.repeat(257)] },
      'allowed_tools[1]: has 257 characters',
    ],
    ['with a control character in a pattern', { ...stdio, allowed_tools: ['a\u0007'] }, 'allowed_tools[0]: must not'],
    ['with half a character in a pattern', { ...stdio, allowed_tools: ['\ud83d'] }, 'allowed_tools[0]: is not valid'],
    [
      'with an unknown approval',
      { ...stdio, approval_policy: { default: 'maybe' } },
      'approval_policy.default: must be',
    ],
    [
      'with an unknown approval of a tool',
      { ...stdio, approval_policy: { per_tool: { x: 'no' } } },
      'approval_policy.per',
    ],
    ['with a bad prefix', { ...stdio, tool_prefix: 'a b' }, 'tool_prefix: must contain only letters'],
    ['with a bad namespace', { ...stdio, tool_namespace: '.x' }, 'tool_namespace: must contain only letters'],
    ['with http in a sandbox', { ...http, sandbox: { mode: 'required' } }, 'sandbox: only a stdio server'],
    ['with an unknown sandbox', { ...stdio, sandbox: { mode: 'strong' } }, 'sandbox.mode: must be "none" or'],
    ['with a half revision', { ...stdio, mod_revision: 0.5 }, 'mod_revision: must be a'],
    ['with an empty repeatable', { ...stdio, repeatable: [''] }, 'repeatable[0]: must not be empty'],
    ['with a pin that is no hash', { ...stdio, pins: { read: 'A'.repeat(64) } }, 'pins.read: must be a sha256'],
    ['with a pin of no tool', { ...stdio, pins: { '': 'a'.repeat(64) } }, 'pins[""]: must not be empty'],
    ['with __proto__ pinned', { ...stdio, pins: JSON.parse('{"__proto__":"1"}') }, 'pins.__proto__: '],
    ['with pins as a list', { ...stdio, pins: ['read'] }, 'pins: must be a table of fields'],
    [
      'with another scope',
      { ...stdio, connection_scope: 'world' },
      'connection_scope: must be "run" or "task" or "node"',
    ],
    [
      'with another way to ask',
      { ...stdio, client_features: { elicitation: ['voice'] } },
      'client_features.elicitation[0]: must be "form" or "url"',
    ],
    [
      'with a root that is no file',
      { ...stdio, client_features: { roots: [{ uri: 'https://a.example/' }] } },
      'client_features.roots[0].uri: must be a file:// url',
    ],
    [
      'with a reference in a root',
      { ...stdio, client_features: { roots: [{ uri: `file:///${ref('HOME')}` }] } },
      'client_features.roots[0].uri: must be a file:// url, without references',
    ],
    [
      'with a root without uri',
      { ...stdio, client_features: { roots: [{ name: 'a' }] } },
      'client_features.roots[0].uri: is required',
    ],
    ['with resources as a text', { ...stdio, allowed_resources: '*' }, 'allowed_resources: must be a list'],
    ['with a prompt of NUL', { ...stdio, allowed_prompts: ['\0'] }, 'allowed_prompts[0]: must not contain'],
    ['with a namespace too long', { ...stdio, namespaces: ['n'.repeat(257)] }, 'namespaces[0]: has 257 characters'],
    ['with too many namespaces', { ...stdio, namespaces: Array(513).fill('n') }, 'namespaces: has more than 512 items'],
    ['with a tag too long', { ...stdio, tags: ['t'.repeat(65)] }, 'tags[0]: has 65 characters, at most 64'],
  ];

  it.each(cases)('%s [record.validation]', (_what, input, expected) => {
    expect(issuesOf(input)).toEqual([expect.stringContaining(expected)]);
  });

  it.each(Object.entries(budgetRanges))('when %s is out of its range [record.budgets]', (name, { min, max }) => {
    const withBudget = (value: unknown) => issuesOf({ ...stdio, budgets: { [name]: value } });
    expect(withBudget(min)).toEqual([]);
    expect(withBudget(max)).toEqual([]);
    expect(withBudget(max + 1)).toEqual([`budgets.${name}: must be at most ${max}`]);
    expect(withBudget(-1)).toEqual([`budgets.${name}: must be at least ${min}`]);
    expect(withBudget(min + 0.5)).toEqual([expect.stringContaining(`budgets.${name}: must be a`)]);
    expect(withBudget('8')).toEqual([expect.stringContaining(`budgets.${name}: must be a`)]);
    if (min > 1) expect(withBudget(min - 1)).toEqual([`budgets.${name}: must be at least ${min}`]);
  });

  it('when the whole record is too large, whatever its parts', () => {
    const args = Array.from({ length: 5 }, () => 'a'.repeat(recordLimits.argChars));
    expect(issuesOf(inStdio({ args }))).toEqual([
      expect.stringMatching(/^: the server has \d+ bytes; the limit is 65536/),
    ]);
  });

  it('with all issues at once [record.validation]', () => {
    const issues = issuesOf({ transport: 'ftp', budgets: { tool_timeout_ms: 1 }, allowed_tools: [7] });
    expect(issues.map((issue) => issue.split(':')[0])).toEqual([
      'server_id',
      'transport',
      'allowed_tools[0]',
      'budgets.tool_timeout_ms',
    ]);
  });

  it('for an unknown protocol in strict mode only; otherwise it is read as legacy [record.protocol]', () => {
    const read = parseRecord({ ...stdio, protocol: 'newest' }, { strict: false });
    expect(read).toMatchObject({ ok: true, record: { protocol: 'legacy' }, warnings: [{ path: 'protocol' }] });
    const written = parseRecord({ ...stdio, protocol: 'newest' }, { strict: true });
    expect(written).toMatchObject({ ok: false, issues: [{ path: 'protocol' }] });
    for (const protocol of ['auto', 'legacy', '2026-07-28', '2031-01-01']) {
      expect(parseRecord({ ...stdio, protocol }, { strict: true })).toMatchObject({ ok: true, record: { protocol } });
    }
  });

  it('with a bounded number of issues, for a file that is not a record', () => {
    expect(issuesOf({ ...stdio, allowed_tools: Array(500).fill('') })).toHaveLength(100);
  });
});

describe('unknown fields', () => {
  const roots = [{ uri: 'file:///a' }, { uri: 'file:///b', title: 'B' }];
  const features = { client_features: { sampling: true, roots } };
  const input = { ...inStdio({ comand: 'x' }), alowed_tools: [], budgets: { timeout: 1 }, ...features };
  const expected = [
    'alowed_tools',
    'stdio.comand',
    'budgets.timeout',
    'client_features.sampling',
    'client_features.roots[1].title',
  ].map((path) => `${path}: is not a field of a server`);

  it('are warnings', () => {
    expect(warningsOf(input)).toEqual(expected);
  });

  it('are issues when strict', () => {
    expect(issuesOf(input, { strict: true })).toEqual(expected);
  });
});

describe('a record with a likely mistake is accepted with a warning', () => {
  const secret = 'hunter2-hunter2';
  const cases: [string, unknown, string][] = [
    ['a secret variable in clear', inStdio({ env: { API_TOKEN: secret } }), 'stdio.env.API_TOKEN: looks like'],
    ['a password', inStdio({ env: { DB_PASSWORD: secret } }), 'stdio.env.DB_PASSWORD: looks like'],
    ['a numbered secret', inStdio({ env: { SECRET_2: secret } }), 'stdio.env.SECRET_2: looks like'],
    ['a known form', inStdio({ env: { X: 'sk-abcdefgh12345678' } }), 'stdio.env.X: looks like a plaintext credential'],
    ['a secret default', inStdio({ env: { X: ref('T:-ghp_0123456789abcdefghij') } }), 'stdio.env.X: looks like'],
    ['a long opaque text', inStdio({ env: { X: 'a8F3kQ9zL1mN7pR2sT4vW6xY0bC5dE8g' } }), 'stdio.env.X: looks like'],
    [
      'a bearer header',
      inHttp({ headers: { Authorization: `Bearer ${secret}` } }),
      'http.headers.Authorization: looks',
    ],
    ['a key header', inHttp({ headers: { 'X-Api-Key': secret } }), 'http.headers.X-Api-Key: looks like'],
    ['a password in the url', inHttp({ url: `https://u:${secret}@mcp.example/` }), 'http.url: looks like it contains'],
    ['a key in the url', inHttp({ url: `https://mcp.example/?api_key=${secret}` }), 'http.url: looks like it contains'],
    ['a flag with its value', inStdio({ args: ['--api-key', secret] }), 'stdio.args[1]: looks like a credential'],
    ['a flag with "="', inStdio({ args: [`--token=${secret}`] }), 'stdio.args[0]: looks like a credential'],
    ['a known form as argument', inStdio({ args: ['x', 'xoxb-1234567890'] }), 'stdio.args[1]: looks like a credential'],
    ['a reference in an argument', inStdio({ args: [ref('X')] }), 'stdio.args[0]: has a reference, but'],
    ['another kind of reference', inStdio({ env: { A: '$'.concat('{HOME}') } }), 'stdio.env.A: has a "$'],
    ['a block of another transport', { ...stdio, http: http.http }, 'http: is ignored: the transport is "stdio"'],
    ['no tools', { ...stdio, allowed_tools: [] }, 'allowed_tools: is empty, so every tool'],
    [
      'a longest time that is none',
      { ...stdio, budgets: { max_tool_timeout_ms: 8000 } },
      'budgets.max_tool_timeout_ms: is not greater than',
    ],
    ['no namespaces', { ...stdio, namespaces: [] }, 'namespaces: is empty, so no task'],
    [
      'two ways to authorize',
      inHttp({ auth_ref: 'env:MCP_T', headers: { authorization: ref('MCP_T') } }),
      'http.auth_ref: overrides the Authorization header',
    ],
  ];

  it.each(cases)('%s', (_what, input, expected) => {
    const warnings = warningsOf(input);
    expect(warnings).toEqual([expect.stringContaining(expected)]);
    for (const value of [secret, 'abcdefgh12345678', '0123456789abcdef', '1234567890', 'kQ9zL1mN7pR2sT4v']) {
      expect(warnings.join()).not.toContain(value);
    }
  });

  it.each([
    ['a secret by reference', inStdio({ env: { API_TOKEN: ref('MCP_TOKEN') } })],
    ['a bearer token by reference', inHttp({ headers: { Authorization: `Bearer ${ref('MCP_TOKEN')}` } })],
    ['a password by reference in the url', inHttp({ url: `https://u:${ref('MCP_PW')}@mcp.example/` })],
    ['an empty secret', inStdio({ env: { API_TOKEN: '' } })],
    ['ordinary variables', inStdio({ env: { NODE_ENV: 'production', TOKENIZER: 'bpe', MONKEY: 'george' } })],
    ['ordinary arguments', inStdio({ args: ['-y', '@modelcontextprotocol/server-filesystem@2026.8.31', '/srv/data'] })],
    ['a host by reference', inHttp({ url: `https://${ref('MCP_HOST')}:${ref('MCP_PORT:-443')}/mcp` })],
    ['a whole url by reference', inHttp({ url: ref('MCP_URL') })],
  ])('and none for %s', (_what, input) => {
    expect(warningsOf(input)).toEqual([]);
  });

  it('issues do not repeat values either', () => {
    const broken = {
      server_id: `x ${secret}`,
      transport: secret,
      stdio: {
        command: `${secret}\n`,
        args: [`${secret}\0`],
        env: { A: `${secret}\0`, B: `$`.concat(`{ENV:${secret}`) },
      },
      http: { url: `ftp://${secret}`, headers: { a: `${secret}\n` }, auth_ref: secret },
      protocol: secret,
      approval_policy: secret,
    };
    const issues = issuesOf(broken);
    expect(issues.length).toBeGreaterThan(8);
    expect(issues.join()).not.toContain(secret);
  });
});
