import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { Agent, fetch, type Headers } from 'undici';
import { loadRegistryConfig, type RegistryConfig } from '../../src/config/registry/registry-config.ts';
import { type RunningRegistry, startRegistry } from '../../src/registry/registry.ts';
import { createRemoteSource, type RemoteSource } from '../../src/registry-client/remote-source.ts';
import { createSecretSource } from '../../src/server/secrets/secret-file.ts';

export interface TestSms {
  readonly sms: RunningRegistry;
  readonly config: RegistryConfig;
  readonly adminToken: string;
  readonly nodeToken: string;
  /** Lines of its log, as they were given. */
  readonly logged: readonly string[];
  /** A request to the HTTP side, as the admin unless told otherwise. */
  http(method: string, path: string, options?: HttpOptions): Promise<HttpAnswer>;
  /** A node's source on the gRPC side; closed with the rest. */
  source(token?: string): RemoteSource;
  /** Changes what its config says, for when it reads it again. */
  reconfigure(change: Partial<RegistryConfig>): void;
  /** Ends it and starts it again on the same data and the same ports. */
  restart(): Promise<void>;
}

export interface HttpOptions {
  readonly json?: unknown;
  readonly text?: string;
  readonly token?: string | null;
  readonly headers?: Readonly<Record<string, string>>;
}

export interface HttpAnswer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  readonly body: Answer;
}

/** A JSON answer, as loosely typed as a reader of it is. */
export interface Answer {
  readonly [field: string]: unknown;
}

export type ConfigChange = Partial<RegistryConfig> & { readonly limit?: Partial<RegistryConfig['limits']> };

const cleanups: (() => Promise<void> | void)[] = [];

/** To be called after each test. */
export async function stopAll(): Promise<void> {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
}

export function onStop(cleanup: () => Promise<void> | void): void {
  cleanups.push(cleanup);
}

export function temporaryDirectory(): string {
  const directory = mkdtempSync(join(tmpdir(), 'spear-sms-'));
  onStop(() => rmSync(directory, { recursive: true, force: true }));
  return directory;
}

/** A registry in this process, with everything real but the process boundary. */
export async function startTestSms({ limit, ...change }: ConfigChange = {}, data?: string): Promise<TestSms> {
  const directory = data === undefined ? temporaryDirectory() : dirname(data);
  const base = loadRegistryConfig({
    flags: { grpc: '127.0.0.1:0', http: '127.0.0.1:0', data: data ?? join(directory, 'registry.db') },
    env: { HOME: directory },
  });
  let config: RegistryConfig = { ...base, limits: { ...base.limits, ...limit }, ...change };
  const logged: string[] = [];
  const start = () =>
    startRegistry(config, {
      readAgain: () => config,
      log: (level, event, fields = {}) => logged.push(`${level} ${event} ${JSON.stringify(fields)}`),
      serverTest: {
        stateDir: join(directory, 'state'),
        path: process.env.PATH ?? '',
        secrets: createSecretSource({ mode: 'listed', names: [], paths: [], backendKeyNames: [] }, {}),
      },
    });
  let sms = await start();
  onStop(() => sms.close());
  let connections = new Agent();
  onStop(() => connections.destroy());
  const token = (file: string) => (config.auth ? readFileSync(file, 'utf8').trim() : '');
  const adminToken = token(config.files.adminToken);
  const nodeToken = token(config.files.nodeToken);

  return {
    get sms() {
      return sms;
    },
    get config() {
      return config;
    },
    adminToken,
    nodeToken,
    logged,
    http: (method, path, options = {}) =>
      request(`${sms.http}${path}`, method, { token: adminToken, ...options }, connections),
    source: (given = nodeToken) => {
      const source = createRemoteSource({ address: sms.grpc, token: given });
      onStop(() => source.close());
      return source;
    },
    reconfigure(changed) {
      config = { ...config, ...changed };
    },
    async restart() {
      const portOf = (address: string) => Number(address.split(':').at(-1));
      config = {
        ...config,
        grpc: { ...config.grpc, port: portOf(sms.grpc) },
        http: { ...config.http, port: portOf(sms.http) },
      };
      await sms.close();
      // A connection of the old process may not know yet that it is closed.
      await connections.destroy();
      connections = new Agent();
      sms = await start();
    },
  };
}

async function request(url: string, method: string, options: HttpOptions, dispatcher: Agent): Promise<HttpAnswer> {
  const body = options.text ?? (options.json === undefined ? null : JSON.stringify(options.json));
  const response = await fetch(url, {
    ...{ method, body, dispatcher },
    headers: {
      ...(options.json === undefined ? {} : { 'content-type': 'application/json' }),
      ...(options.token == null || options.token === '' ? {} : { authorization: `Bearer ${options.token}` }),
      ...options.headers,
    },
  });
  const text = await response.text();
  return { status: response.status, headers: response.headers, text, body: parse(text) };
}

function parse(text: string): Answer {
  try {
    return JSON.parse(text) as Answer;
  } catch {
    return {};
  }
}

export const fsRecord = {
  server_id: 'fs',
  transport: 'stdio',
  stdio: { command: 'mcp-fs', args: ['/data'], env: { LOG: 'debug', TOKEN: `\${ENV:MCP_TOKEN}` } },
  allowed_tools: ['read_*'],
};
