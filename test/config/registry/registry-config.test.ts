import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { isLoopbackHost, parseListenAddress } from '../../../src/config/address.ts';
import { loadRegistryConfig, type RegistryConfigFlags } from '../../../src/config/registry/registry-config.ts';
import { findRegistryAdmin, findRegistryForNode, serverUrl } from '../../../src/config/registry/registry-endpoint.ts';
import { stopAll, temporaryDirectory } from '../../registry/running-sms.ts';

afterEach(stopAll);

/** Loads with a file system that holds nothing but `file`, at /etc/sms.toml. */
function load(flags: RegistryConfigFlags = {}, env: NodeJS.ProcessEnv = {}, file: string | null = null) {
  return loadRegistryConfig({
    flags: file === null ? flags : { config: '/etc/sms.toml', ...flags },
    env: { HOME: '/home/u', ...env },
    readFile: (path) => {
      if (path === '/etc/sms.toml' && file !== null) return file;
      throw Object.assign(new Error('not there'), { code: 'ENOENT' });
    },
  });
}

describe('precedence', () => {
  it('without anything: loopback, and files in the state directory', () => {
    expect(load()).toMatchObject({
      grpc: { host: '127.0.0.1', port: 50051 },
      http: { host: '127.0.0.1', port: 8080 },
      files: {
        data: '/home/u/.local/state/spear/sms/registry.db',
        adminToken: '/home/u/.local/state/spear/sms/admin.token',
      },
      registryDir: null,
      strict: false,
      tls: null,
      auth: true,
      limits: { kept_changes: 10_000, heartbeat_ms: 10_000 },
    });
    expect(load({}, { XDG_STATE_HOME: '/state' }).files.data).toBe('/state/spear/sms/registry.db');
    expect(load({}, { XDG_STATE_HOME: 'relative' }).files.data).toBe('/home/u/.local/state/spear/sms/registry.db');
  });

  const file = `
    [grpc]
    listen = "127.0.0.1:1001"
    [http]
    listen = "[::1]:1002"
    allowed_hosts = ["sms.internal"]
    [store]
    file = "data/r.db"
    kept_changes = 5
    [mcp]
    registry_dir = "mcp.d"
    strict = true
    [limits]
    heartbeat_ms = 500
  `;

  it('the file comes before the defaults, with paths from its own folder [sms.config.precedence]', () => {
    expect(load({}, {}, file)).toMatchObject({
      grpc: { port: 1001 },
      http: { host: '::1', port: 1002 },
      files: { data: '/etc/data/r.db', nodeToken: '/etc/data/node.token' },
      registryDir: '/etc/mcp.d',
      strict: true,
      allowedHosts: ['sms.internal'],
      limits: { kept_changes: 5, heartbeat_ms: 500, watcher_queue: 1_024 },
    });
  });

  it('variables come before the file, flags before variables [sms.config.precedence]', () => {
    const env = { SMS_GRPC: '127.0.0.1:2001', SMS_DATA: '/var/r.db', SMS_STRICT: 'false', SMS_MCP_DIR: '/env/mcp.d' };
    expect(load({}, env, file)).toMatchObject({
      grpc: { port: 2001 },
      http: { port: 1002 },
      files: { data: '/var/r.db' },
      strict: false,
      registryDir: '/env/mcp.d',
    });
    expect(load({}, { ...env, SMS_MCP_REGISTRY_DIR: '/first' }, file).registryDir).toBe('/first');
    const flags = { grpc: '127.0.0.1:3001', strict: true, registryDir: '/flag/mcp.d' };
    expect(load(flags, env, file)).toMatchObject({
      grpc: { port: 3001 },
      files: { data: '/var/r.db' },
      strict: true,
      registryDir: '/flag/mcp.d',
    });
  });

  it('SMS_CONFIG names a file too [sms.config.precedence]', () => {
    expect(() => load({}, { SMS_CONFIG: '/missing.toml' })).toThrow(
      '/missing.toml: the config file named by SMS_CONFIG cannot be read',
    );
  });
});

it.each([
  ['grcp = 1', /unknown key "grcp", did you mean "grpc"\?/],
  ['[http]\nlisten = 7', /http\.listen: expected a string, found a number/],
  ['[limits]\nheartbeat_ms = 1', /limits\.heartbeat_ms: must be at least 100, found 1/],
  ['[store', /sms\.toml:1:\d+: not valid TOML/],
])('the file %j is refused with the field and what is wrong', (file, complaint) => {
  expect(() => load({}, {}, file)).toThrow(complaint);
});

it.each<[RegistryConfigFlags, NodeJS.ProcessEnv, RegExp]>([
  [{ grpc: 'here' }, {}, /--grpc: expected HOST:PORT, found "here"/],
  [{}, { SMS_HTTP: '127.0.0.1' }, /SMS_HTTP: expected HOST:PORT/],
  [{}, { SMS_STRICT: 'perhaps' }, /SMS_STRICT: expected true or false, found "perhaps"/],
  [{ tlsCert: 'c' }, {}, /--tls-key is missing/],
  [{ tlsKey: 'k' }, {}, /--tls-cert is missing/],
  [{}, { HOME: '' }, /no data directory/],
])('%j with %j is refused', (flags, env, complaint) => {
  expect(() => load(flags, env)).toThrow(complaint);
});

describe('beyond loopback', () => {
  const tls = { tlsCert: 'c', tlsKey: 'k' };

  it.each<[RegistryConfigFlags, boolean]>([
    [{ grpc: '127.9.9.9:1', http: '[::1]:2' }, true],
    [{ grpc: 'localhost:1' }, true],
    [{ grpc: '0.0.0.0:1' }, false],
    [{ http: '0.0.0.0:1' }, false],
    [{ http: '[::]:1' }, false],
    [{ grpc: '10.0.0.1:1', ...tls }, true],
    [{ grpc: 'sms.internal:1' }, false],
    [{ grpc: '0.0.0.0:1', allowPlaintextBeyondLoopback: true }, true],
    [{ insecureNoAuth: true }, true],
    [{ insecureNoAuth: true, grpc: '0.0.0.0:1', ...tls }, false],
    [{ insecureNoAuth: true, http: '10.0.0.1:1', allowPlaintextBeyondLoopback: true }, false],
  ])('%j may start: %s [sms.exposure]', (flags, allowed) => {
    if (allowed) expect(load(flags)).toBeDefined();
    else expect(() => load(flags)).toThrow(/loopback/);
  });

  it.each([
    ['127.0.0.1', true],
    ['127.255.0.3', true],
    ['::1', true],
    ['LOCALHOST', true],
    ['0.0.0.0', false],
    ['::', false],
    ['127.0.0.1.evil.example', false],
    ['128.0.0.1', false],
    ['127.example', false],
  ])('%s is loopback: %s [sms.exposure]', (host, loopback) => {
    expect(isLoopbackHost(host)).toBe(loopback);
  });
});

it.each([
  ['127.0.0.1:0', { host: '127.0.0.1', port: 0 }],
  ['[::1]:65535', { host: '::1', port: 65_535 }],
  ['sms.internal:80', { host: 'sms.internal', port: 80 }],
  ['127.0.0.1', null],
  [':80', null],
  ['::1:80', null],
  ['[127.0.0.1]:80', null],
  ['host:65536', null],
  ['host:-1', null],
  ['a b:1', null],
])('reads the address %s', (text, address) => {
  expect(parseListenAddress(text)).toEqual(address);
});

describe('where clients find a registry', () => {
  it.each([
    ['127.0.0.1:8080', 'http://127.0.0.1:8080'],
    ['localhost:80', 'http://localhost:80'],
    ['[::1]:8080', 'http://[::1]:8080'],
    ['sms.internal:8080', 'https://sms.internal:8080'],
    ['sms.internal:80', 'https://sms.internal:80'],
    ['http://sms.internal:8080/', 'http://sms.internal:8080'],
    ['https://127.0.0.1:8443', 'https://127.0.0.1:8443'],
    ['https://sms.internal', 'https://sms.internal'],
  ])('%s is %s', (text, url) => {
    expect(serverUrl(text, '--sms')).toBe(url);
  });

  it.each(['ftp://x', '', 'a b', 'http://user:pw@host', '://'])('%j is no address', (text) => {
    expect(() => serverUrl(text, '--sms')).toThrow(/^--sms: /);
  });

  const ownRegistry = (endpoint?: object) => {
    const state = temporaryDirectory();
    const directory = join(state, 'spear', 'sms');
    mkdirSync(directory, { recursive: true });
    writeFileSync(join(directory, 'admin.token'), 'local-admin\nold-admin\n', { mode: 0o600 });
    writeFileSync(join(directory, 'node.token'), 'local-node\n', { mode: 0o600 });
    if (endpoint !== undefined) writeFileSync(join(directory, 'endpoint.json'), JSON.stringify(endpoint));
    return { state, directory, env: { XDG_STATE_HOME: state } };
  };
  const read = ({ address, token }: ReturnType<typeof findRegistryAdmin>) => [address, token()?.reveal()];
  const endpoint = { grpc: 'http://127.0.0.1:5', http: 'http://127.0.0.1:6', pid: process.pid };

  it('flags come before variables, variables before the files of the local registry', () => {
    const { state, directory, env } = ownRegistry();
    writeFileSync(join(state, 'given'), 'from-file\n', { mode: 0o600 });
    writeFileSync(join(state, 'open'), 'from-file\n', { mode: 0o644 });
    expect(read(findRegistryAdmin({}, env))).toEqual([`unix:${directory}/sockets/http.sock`, 'local-admin']);
    expect(read(findRegistryForNode({}, env))).toEqual([`unix:${directory}/sockets/grpc.sock`, 'local-node']);
    const variables = { ...env, SPEAR_SMS: 'http://127.0.0.1:7', SPEAR_SMS_TOKEN: 'from-env' };
    expect(read(findRegistryAdmin({}, variables))).toEqual(['http://127.0.0.1:7', 'from-env']);
    const flags = { sms: 'https://far.example', tokenFile: join(state, 'given') };
    expect(read(findRegistryAdmin(flags, variables))).toEqual(['https://far.example', 'from-file']);
    expect(() => findRegistryAdmin({ token: 't' }, {})).toThrow('no registry is named');
    expect(() => findRegistryAdmin({ tokenFile: join(state, 'open') }, env)).toThrow('run: chmod 600');
    expect(() => findRegistryAdmin({ tokenFile: '/no/such' }, env)).toThrow('tokenFile: /no/such cannot be read');
    const words = { sms: '--sms', tokenFile: '--token-file', ca: '--ca' };
    expect(() => findRegistryAdmin({ tokenFile: '/no/such' }, env, words)).toThrow('--token-file: /no/such cannot');
  });

  it('a token is read again whenever it is used, and the last good one stays', () => {
    const { state, env } = ownRegistry();
    const file = join(state, 'given');
    writeFileSync(file, 'first\n', { mode: 0o600 });
    const { token } = findRegistryForNode({ tokenFile: file }, env);
    writeFileSync(file, 'second\nfirst\n');
    expect(token()?.reveal()).toBe('second');
    rmSync(file);
    expect(token()?.reveal()).toBe('second');
  });

  it('the token of the local registry is never sent to another machine [sms.client.token_stays]', () => {
    const { env } = ownRegistry();
    expect(findRegistryAdmin({ sms: 'far.example:8080' }, env).token()).toBeNull();
    expect(findRegistryAdmin({}, { ...env, SPEAR_SMS: 'https://far.example' }).token()).toBeNull();
    expect(read(findRegistryAdmin({ sms: 'https://[::1]:8080' }, env))).toEqual(['https://[::1]:8080', 'local-admin']);
  });

  it.each([
    ['127.0.0.1:6', endpoint, {}, 'own', 'local-admin', null],
    ['localhost:6', endpoint, { token: 't' }, 'own', 't', null],
    ['http://127.0.0.1:6', endpoint, {}, 'own', 'local-admin', null],
    // The process that wrote the file is gone; another process may listen there now.
    ['127.0.0.1:6', { ...endpoint, pid: 2 ** 22 + 1 }, {}, 'own', 'local-admin', null],
    [
      '127.0.0.1:6',
      { ...endpoint, pid: 2 ** 22 + 1 },
      { token: 't' },
      'http://127.0.0.1:6',
      't',
      'is not authenticated',
    ],
    ['127.0.0.1:9', endpoint, {}, 'own', 'local-admin', null],
    ['127.0.0.1:9', undefined, { token: 't' }, 'http://127.0.0.1:9', 't', 'is not authenticated'],
    ['http://127.0.0.1:9', undefined, {}, 'http://127.0.0.1:9', undefined, 'is not authenticated'],
    ['http://far.example', undefined, { token: 't' }, 'http://far.example', 't', 'is not encrypted'],
  ] as const)('%s beside %j with %j is %s [sms.client.proved]', (sms, left, flags, address, token, warning) => {
    const { directory, env } = ownRegistry(left);
    const found = findRegistryAdmin({ sms, ...flags }, env);
    const expected = address === 'own' ? `unix:${directory}/sockets/http.sock` : address;
    expect(read(found)).toEqual([expected, token]);
    if (warning === null) expect(found.warning).toBeNull();
    else expect(found.warning).toContain(warning);
  });

  it('a socket is named by its path, and its registry has the token', () => {
    const { directory } = ownRegistry();
    const sms = `unix:${directory}/sockets/http.sock`;
    expect(read(findRegistryAdmin({ sms }, {}))).toEqual([sms, 'local-admin']);
    expect(() => findRegistryAdmin({ sms: 'unix:relative' }, {})).toThrow('sms: expected unix:/PATH');
  });
});

describe('[oidc]', () => {
  const table = (changed: Readonly<Record<string, string>> = {}) => {
    const fields = {
      issuer: '"https://id.example"',
      client_id: '"spear"',
      roles_claim: '"groups"',
      namespace: '"*"',
      roles: '{ sre = ["operator"] }',
      ...changed,
    };
    const lines = Object.entries(fields).filter(([, value]) => value !== '');
    return `[oidc]\n${lines.map(([name, value]) => `${name} = ${value}`).join('\n')}\n`;
  };

  it('has defaults for what it does not say [people.oidc.mapping]', () => {
    expect(load().oidc).toBeNull();
    expect(load({}, {}, table()).oidc).toMatchObject({
      issuer: 'https://id.example',
      clientSecret: null,
      audiences: ['spear'],
      scopes: ['openid', 'profile'],
      nameClaim: 'sub',
      roles: new Map([['sre', ['operator']]]),
      namespace: '*',
      namespaceClaim: null,
      sessionMs: 28_800_000,
    });
  });

  it.each([
    [{ issuer: '"http://id.example"' }, /oidc\.issuer: expected an https url/],
    [{ issuer: '"https://user:pw@id.example"' }, /oidc\.issuer: expected an https url/],
    [{ issuer: '' }, /oidc\.issuer: is missing/],
    [{ roles: '' }, /oidc\.roles: is missing/],
    [{ roles: '{ sre = ["root"] }' }, /oidc\.roles\.sre\[0\]: expected one of "viewer"/],
    [{ namespace: '' }, /set exactly one/],
    [{ namespace_claim: '"team"' }, /set exactly one/],
    [{ namespace: '"Team A"' }, /oidc\.namespace: must be \* or a namespace/],
    [{ client_secret: '"hunter2hunter2"' }, /oidc\.client_secret: must be a reference/],
    [{ clientid: '"x"' }, /unknown key "clientid", did you mean "client_id"/],
    [{ session_ms: '5' }, /oidc\.session_ms: must be at least 60000/],
  ])('with %j is refused', (changed, complaint) => {
    expect(() => load({}, {}, table(changed))).toThrow(complaint);
    expect(() => load({}, {}, table(changed))).not.toThrow(/hunter2/);
  });

  it('reads its secret when it is used, and says which one is missing', () => {
    const { oidc } = load({}, {}, table({ client_secret: '"env:OIDC_SECRET"' }));
    expect(() => oidc?.clientSecret?.()).toThrow(
      'oidc.client_secret: env:OIDC_SECRET: the environment variable is not set',
    );
    const set = load({}, { OIDC_SECRET: 's3cret-of-a-client' }, table({ client_secret: '"env:OIDC_SECRET"' }));
    expect(set.oidc?.clientSecret?.().reveal()).toBe('s3cret-of-a-client');
  });
});
