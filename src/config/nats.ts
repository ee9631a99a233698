import { resolve } from 'node:path';
import type { z } from 'zod';
import type { Secret, SecretSources } from '../server/secrets/secret.ts';
import { isLoopbackHost } from './address.ts';
import { ConfigError } from './config-error.ts';
import type { SchemaKit } from './document.ts';
import { type ConfigOrigin, readSecret, secretSourcesOf } from './secret-reference.ts';

const DEFAULT_REPLICAS = 3;
const DEFAULT_PATIENCE_MS = 60_000;
const DEFAULT_SUBMIT_TIMEOUT_MS = 5_000;

const fields = ({ z, nonEmpty, secretReference }: SchemaKit) => ({
  creds: secretReference.optional(),
  ca: nonEmpty.optional(),
  cert: nonEmpty.optional(),
  key: nonEmpty.optional(),
  plain_text: z.boolean().optional(),
  replicas: z.int().min(1).max(5).optional(),
  patience_ms: z.int().min(1_000).max(3_600_000).optional(),
  submit_timeout_ms: z.int().min(100).max(600_000).optional(),
});

/** `[nats]` of a node: connection to the queue of its cluster. */
export const natsTable = (kit: SchemaKit) => kit.strictTable(fields(kit));

/** `[nats]` of a registry, which may have one account per namespace. */
export const registryNatsTable = (kit: SchemaKit) =>
  kit.strictTable({ ...fields(kit), accounts: kit.z.record(kit.plainName, kit.secretReference).optional() });

type NatsDocument = z.infer<ReturnType<typeof registryNatsTable>>;

/** Files of a TLS client certificate and its key. */
export interface NatsIdentity {
  readonly cert: string;
  readonly key: string;
}

export interface CompiledNats {
  /** Reads the credentials when a connection is opened; null: connect without credentials. @throws ConfigError */
  readonly creds: (() => Secret) | null;
  /** Credentials by namespace, for a registry with one account per namespace. */
  readonly accounts: ReadonlyMap<string, () => Secret>;
  /** File of certificates to trust instead of the system's. */
  readonly ca: string | null;
  /** Client certificate; null: none. */
  readonly identity: NatsIdentity | null;
  /** Whether connections beyond loopback may be unencrypted. */
  readonly plainText: boolean;
  /** Null: the number of named servers, at most three. */
  readonly replicas: number | null;
  /** How long the servers may be unreachable before pending work fails. */
  readonly patienceMs: number;
  /** How long a submission waits for the servers before it fails. */
  readonly submitTimeoutMs: number;
}

export function compileNats(document: NatsDocument = {}, file: ConfigOrigin, sources: SecretSources): CompiledNats {
  const {
    creds,
    ca,
    plain_text: plainText = false,
    replicas = null,
    patience_ms: patienceMs = DEFAULT_PATIENCE_MS,
    submit_timeout_ms: submitTimeoutMs = DEFAULT_SUBMIT_TIMEOUT_MS,
  } = document;
  const folder = file?.folder ?? '.';
  const credsOf = (reference: string, field: string) => () =>
    readSecret(reference, `${file?.path}: ${field}`, secretSourcesOf(file, sources));
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

/** Address of a run queue. */
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
