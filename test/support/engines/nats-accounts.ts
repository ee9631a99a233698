import { hash } from 'node:crypto';
import { nkeys } from '@nats-io/transport-node';

type KeyPair = ReturnType<typeof nkeys.createUser>;

/** What a server reads to know accounts, and the files by which somebody signs in, as `nsc` would make them. */
export interface NatsAccounts {
  /** For the server's configuration. */
  readonly config: string;
  /** Credentials of a new user of an account; `expires`: seconds since 1970. */
  creds(account: string, expires?: number): string;
}

const base64 = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url');
const textOf = (bytes: Uint8Array) => new TextDecoder().decode(bytes);

/** A claim that its issuer has signed. */
function token(issuer: KeyPair, subject: KeyPair, name: string, nats: object, expires?: number): string {
  const claim = {
    iat: Math.floor(Date.now() / 1000),
    iss: issuer.getPublicKey(),
    name,
    sub: subject.getPublicKey(),
    nats: { ...nats, version: 2 },
    ...(expires === undefined ? {} : { exp: expires }),
  };
  const payload = { ...claim, jti: hash('sha256', JSON.stringify(claim)) };
  const signed = `${base64({ typ: 'JWT', alg: 'ed25519-nkey' })}.${base64(payload)}`;
  return `${signed}.${Buffer.from(issuer.sign(new TextEncoder().encode(signed))).toString('base64url')}`;
}

const unlimited = { subs: -1, data: -1, payload: -1, imports: -1, exports: -1, wildcards: true, conn: -1, leaf: -1 };
const streaming = { mem_storage: -1, disk_storage: -1, streams: -1, consumer: -1 };

/** An operator with these accounts; those of `without` have no JetStream. */
export function natsAccounts(names: readonly string[], without: readonly string[] = []): NatsAccounts {
  const operator = nkeys.createOperator();
  const accounts = new Map([...names, ...without, 'SYS'].map((name) => [name, nkeys.createAccount()]));
  const preload = [...accounts].map(([name, account]) => {
    const limits = { ...unlimited, ...(names.includes(name) ? streaming : {}) };
    return `${account.getPublicKey()}: ${token(operator, account, name, { type: 'account', limits })}`;
  });
  const system = accounts.get('SYS')?.getPublicKey();
  const own = token(operator, operator, 'operator', { type: 'operator', system_account: system });
  return {
    config: [
      `operator: ${own}`,
      `system_account: ${system}`,
      'resolver: MEMORY',
      `resolver_preload: {\n${preload.join('\n')}\n}`,
    ].join('\n'),
    creds(name, expires) {
      const account = accounts.get(name);
      if (account === undefined) throw new Error(`there is no account ${name}`);
      const user = nkeys.createUser();
      const jwt = token(account, user, `a user of ${name}`, { type: 'user', subs: -1, data: -1, payload: -1 }, expires);
      const seed = textOf(user.getSeed());
      return [
        `-----BEGIN NATS USER JWT-----\n${jwt}\n------END NATS USER JWT------`,
        `-----BEGIN USER NKEY SEED-----\n${seed}\n------END USER NKEY SEED------\n`,
      ].join('\n\n');
    },
  };
}
