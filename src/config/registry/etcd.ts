import { resolve } from 'node:path';
import { z } from 'zod';
import { errorCode } from '../../base/errors.ts';
import type { Secret } from '../../server/secrets/secret.ts';
import { readSecretFile, SecretFileError } from '../../server/secrets/secret-file.ts';
import { isLoopbackHost, parseListenAddress } from '../address.ts';
import { ConfigError } from '../config-error.ts';
import { readTextFile } from '../config-file.ts';
import { schemaKit, strictTable } from '../document.ts';
import { readSecret } from '../secret-reference.ts';

/** Connection to the etcd with the records of a registry. */
export interface EtcdConfig {
  /** With scheme, the same for all: `http://127.0.0.1:2379`. */
  readonly endpoints: readonly string[];
  /** Prefix of every key, so that several registries can share one etcd. */
  readonly prefix: string;
  /** PEM texts; null: not given. */
  readonly tls: { readonly ca: string | null; readonly cert: string | null; readonly key: string | null };
  /** The password is read at every login, so a changed password needs no restart; null: no authentication. */
  readonly login: { readonly user: string; readonly password: () => Secret } | null;
}

const { nonEmpty: text } = schemaKit;

/** `[store.etcd]`. */
export const etcdTable = strictTable({
  ca: text.optional(),
  cert: text.optional(),
  key: text.optional(),
  user: text.optional(),
  password: schemaKit.secretReference.optional(),
  allow_plaintext: z.boolean().optional(),
});

export const ETCD_SCHEME = 'etcd://';
const DEFAULT_PREFIX = 'spear';
const MAX_MEMBERS = 32;
const prefixShape = /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/;

/**
 * Combines `etcd://HOST:PORT,…[/PREFIX]` with `[store.etcd]`. `from` names the source of the address in messages; paths
 * are relative to `folder`.
 */
export function compileEtcd(
  address: string,
  from: string,
  table: z.infer<typeof etcdTable> | undefined,
  folder: string,
  env: NodeJS.ProcessEnv,
): EtcdConfig {
  const [hosts = '', prefix = DEFAULT_PREFIX, ...more] = address.slice(ETCD_SCHEME.length).split('/');
  const members = hosts.split(',').map((member) => ({ member, listen: parseListenAddress(member) }));
  const wrong = members.find(({ listen }) => listen === null || listen.port === 0);
  if (wrong !== undefined || members.length > MAX_MEMBERS || more.length > 0 || !prefixShape.test(prefix)) {
    const shown = hosts.includes('@')
      ? 'a credential: set store.etcd.user and store.etcd.password instead'
      : `"${address}"`;
    throw new ConfigError(`${from}: expected ${ETCD_SCHEME}HOST:PORT,HOST:PORT[/PREFIX], found ${shown}`);
  }
  const { ca, cert, key, user, password, allow_plaintext: allowPlaintext = false } = table ?? {};
  if ((cert === undefined) !== (key === undefined))
    throw new ConfigError('store.etcd: cert and key must be set together');
  if ((user === undefined) !== (password === undefined)) {
    throw new ConfigError('store.etcd: user and password must be set together');
  }
  const isLocal = members.every(({ listen }) => listen !== null && isLoopbackHost(listen.host));
  const hasTls = ca !== undefined || cert !== undefined;
  if (hasTls && allowPlaintext) throw new ConfigError('store.etcd: allow_plaintext cannot be combined with ca or cert');
  // Records and tokens use this connection: it is unencrypted beyond loopback only if allow_plaintext is set.
  const scheme = hasTls || !(isLocal || allowPlaintext) ? 'https' : 'http';
  return Object.freeze({
    endpoints: members.map(({ member }) => `${scheme}://${member}`),
    prefix,
    tls: {
      ca: ca === undefined ? null : readPem('ca', resolve(folder, ca), readTextFile),
      cert: cert === undefined ? null : readPem('cert', resolve(folder, cert), readTextFile),
      key: key === undefined ? null : readPem('key', resolve(folder, key), readSecretFile),
    },
    login:
      user === undefined || password === undefined
        ? null
        : { user, password: () => readSecret(password, 'store.etcd.password', { env, readFile: readSecretFile }) },
  });
}

function readPem(field: string, path: string, read: (path: string) => string): string {
  try {
    return read(path);
  } catch (error) {
    if (error instanceof SecretFileError) throw new ConfigError(`store.etcd.${field}: ${error.message}`);
    throw new ConfigError(`store.etcd.${field}: ${path} cannot be read (${errorCode(error) ?? String(error)})`);
  }
}
