import { resolve } from 'node:path';
import { resolveSecret, type Secret, SecretError, type SecretSources } from '../server/secrets/secret.ts';
import { ConfigError } from './config-error.ts';
import type { ConfigFile } from './config-file.ts';
import { isLoopbackHost } from './sms/address.ts';

const DEFAULT_REPLICAS = 3;
const DEFAULT_PATIENCE_MS = 60_000;
const DEFAULT_SUBMIT_TIMEOUT_MS = 5_000;

export interface NatsDocument {
  readonly creds?: string | undefined;
  readonly ca?: string | undefined;
  readonly cert?: string | undefined;
  readonly key?: string | undefined;
  readonly plain_text?: boolean | undefined;
  readonly replicas?: number | undefined;
  readonly patience_ms?: number | undefined;
  readonly submit_timeout_ms?: number | undefined;
  readonly accounts?: Readonly<Record<string, string>> | undefined;
}

/** Files of a certificate and of its key. */
export interface NatsIdentity {
  readonly cert: string;
  readonly key: string;
}

/** `[nats]`: how the queue of a cluster is reached. */
export interface CompiledNats {
  /** Read when it is asked for; null: nobody signs in. @throws ConfigError */
  readonly creds: (() => Secret) | null;
  /** The same of namespaces that have an account of their own: for a registry, which is of all of them. */
  readonly accounts: ReadonlyMap<string, () => Secret>;
  /** File of certificates to trust instead of the system's. */
  readonly ca: string | null;
  /** Files of the certificate that is shown to servers; null: none is. */
  readonly identity: NatsIdentity | null;
  /** Whether servers beyond loopback may be spoken to in clear. */
  readonly plainText: boolean;
  /** Null: of as many servers as were named, up to three. */
  readonly replicas: number | null;
  /** How long the servers may be out of reach before what waits for them is given up. */
  readonly patienceMs: number;
  /** How long a submission waits for the servers before it fails. */
  readonly submitTimeoutMs: number;
}

export function compileNats(
  document: NatsDocument = {},
  file: Pick<ConfigFile, 'path' | 'folder'> | undefined,
  sources: SecretSources,
): CompiledNats {
  const {
    creds,
    ca,
    plain_text: plainText = false,
    replicas = null,
    patience_ms: patienceMs = DEFAULT_PATIENCE_MS,
    submit_timeout_ms: submitTimeoutMs = DEFAULT_SUBMIT_TIMEOUT_MS,
  } = document;
  const folder = file?.folder ?? '.';
  const readFile = (path: string) => sources.readFile(resolve(folder, path));
  const credsOf = (reference: string, field: string) => () =>
    readCreds(reference, `${file?.path}: ${field}`, { env: sources.env, readFile });
  const accounts = Object.entries(document.accounts ?? {});
  return Object.freeze({
    creds: creds === undefined ? null : credsOf(creds, 'nats.creds'),
    accounts: new Map(accounts.map(([name, reference]) => [name, credsOf(reference, `nats.accounts.${name}`)])),
    ca: ca === undefined ? null : resolve(folder, ca),
    identity: identityOf(document, folder),
    plainText,
    replicas,
    patienceMs,
    submitTimeoutMs,
  });
}

function identityOf({ cert, key }: NatsDocument, folder: string): NatsIdentity | null {
  if (cert === undefined && key === undefined) return null;
  if (cert === undefined || key === undefined) throw new ConfigError('nats: cert and key must be set together');
  return { cert: resolve(folder, cert), key: resolve(folder, key) };
}

function readCreds(reference: string, where: string, sources: SecretSources): Secret {
  try {
    return resolveSecret(reference, sources);
  } catch (error) {
    if (!(error instanceof SecretError)) throw error;
    throw new ConfigError(`${where}: ${error.message}`);
  }
}

/** Where a queue is. */
export interface QueueAddress {
  readonly servers: readonly string[];
  readonly tls: boolean;
  readonly replicas: number;
}

/** `nats://HOST:PORT,HOST:PORT` or `tls://…`. @throws ConfigError that names `from` */
export function queueAddress(text: string, from: string, { plainText, replicas }: CompiledNats): QueueAddress {
  const match = /^(nats|tls):\/\/([^/\s@]+)$/.exec(text);
  if (match === null) {
    throw new ConfigError(
      `${from}: expected nats://HOST:PORT,… or tls://HOST:PORT,… without a user or path, found "${text}"`,
    );
  }
  const tls = match[1] === 'tls';
  const servers = String(match[2]).split(',');
  const wrong = servers.find((server) => !/^(?:\[[0-9a-fA-F:]+\]|[A-Za-z0-9.-]+):\d{1,5}$/.test(server));
  if (wrong !== undefined) throw new ConfigError(`${from}: expected HOST:PORT, found "${wrong}"`);
  const open = servers.find(
    (server) => !isLoopbackHost(server.slice(0, server.lastIndexOf(':')).replaceAll(/[[\]]/g, '')),
  );
  if (!tls && !plainText && open !== undefined) {
    throw new ConfigError(
      `${from}: inputs, results and journals would be sent to ${open} unencrypted: use tls://, or set plain_text = true under [nats] if the network is trusted`,
    );
  }
  return { servers, tls, replicas: replicas ?? Math.min(servers.length, DEFAULT_REPLICAS) };
}
