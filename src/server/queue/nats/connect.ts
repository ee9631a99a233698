import { createPrivateKey, X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { connect as connectPlainly, isIP } from 'node:net';
import { connect as connectByTls, createSecureContext } from 'node:tls';
import {
  type Authenticator,
  AuthorizationError,
  type ConnectionOptions,
  connect,
  credsAuthenticator,
  type NatsConnection,
  type TlsOptions,
  UserAuthenticationExpiredError,
} from '@nats-io/transport-node';
import { errorCode, errorText, isCertificateAlert, isUntrustedCertificate } from '../../../base/errors.ts';
import type { NatsIdentity } from '../../../config/nats.ts';
import type { Secret } from '../../secrets/secret.ts';
import { readSecretFile, SecretFileError } from '../../secrets/secret-file.ts';
import { isForbidden, NatsSetupError } from './nats-errors.ts';
import { withFailFastRequests } from './requests.ts';
import { OLDEST_SERVER } from './streams.ts';

const UNANSWERED_PINGS = 2;

export interface NatsAddress extends NatsTls {
  readonly servers: readonly string[];
  /** Reads the credentials, again for every connection, so that renewed ones need no restart. Null: no authentication. @throws Error */
  readonly creds: (() => Secret) | null;
  /** Config key of the credentials, for messages. @default nats.creds */
  readonly credsField?: string | undefined;
  /** Name of this process in the connection list of the servers. */
  readonly name: string;
  /** A connection that received nothing for this long is replaced. */
  readonly silenceMs: number;
  /** Called with `disconnect` and `reconnect`. */
  readonly onStatus: (status: string) => void;
}

/** Connects, and returns what `open` returns, which owns the connection from then on. @throws Error that names the servers and the reason */
export async function openNats<T>(address: NatsAddress, open: (nc: NatsConnection) => Promise<T>): Promise<T> {
  const { servers, name, onStatus } = address;
  const tls = tlsOptions(address);
  const options: ConnectionOptions = {
    servers: [...servers],
    name,
    maxReconnectAttempts: -1,
    reconnectTimeWait: 250,
    pingInterval: address.silenceMs / (UNANSWERED_PINGS + 1),
    maxPingOut: UNANSWERED_PINGS,
    // Rejected credentials may become valid again: they are renewed.
    ignoreAuthErrorAbort: true,
    ...(address.creds === null ? {} : { authenticator: signer(address.creds, fieldOf(address)) }),
    ...(tls === undefined ? {} : { tls }),
  };
  if (tls !== undefined) await checkCertificate(address, tls);
  const nc = await connect(options).catch((error: unknown) => {
    throw failure(address, error);
  });
  try {
    checkVersion(nc);
    void forwardStatus(nc, onStatus);
    return await open(withFailFastRequests(nc));
  } catch (error) {
    await nc.close();
    if (!isForbidden(error)) throw error;
    const advice = 'grant the NATS user this permission, which the run queue needs';
    throw new NatsSetupError(`NATS at ${servers.join(', ')}: ${error.message}: ${advice}`);
  }
}

async function checkCertificate({ servers, identity }: NatsAddress, tls: TlsOptions): Promise<void> {
  const alerts = await Promise.all(servers.map((server) => certificateAlert(server, tls)));
  for (const [at, alert] of alerts.entries()) {
    if (alert === null) continue;
    const advice =
      identity === null
        ? 'a client certificate is required; set nats.cert and nats.key'
        : `the server rejected the client certificate ${identity.cert} (nats.cert)`;
    throw new NatsSetupError(`no connection to NATS at ${servers[at]}: ${advice} (${alert})`);
  }
}

/** If the credentials cannot be read for a reconnect, the previous ones are used. */
function signer(read: () => Secret, field: string): Authenticator {
  let last = read().reveal();
  // The library's parser requires a line feed after the last line, and a secret does not end with one.
  const sign = credsAuthenticator(() => new TextEncoder().encode(`${last}\n`));
  try {
    sign('a try');
  } catch {
    throw new NatsSetupError(`${field}: expected a NATS credentials file, as created by nsc`);
  }
  return (nonce) => {
    try {
      last = read().reveal();
      return sign(nonce);
    } catch {
      return sign(nonce);
    }
  };
}

const fieldOf = ({ credsField = 'nats.creds' }: NatsAddress) => credsField;

function failure(address: NatsAddress, error: unknown): Error {
  const { servers, creds, ca } = address;
  const at = `no connection to NATS at ${servers.join(', ')}`;
  const code = errorCode(error);
  if (error instanceof AuthorizationError || error instanceof UserAuthenticationExpiredError) {
    const advice =
      creds === null
        ? 'authentication is required; set nats.creds'
        : `the server rejected the credentials in ${fieldOf(address)}`;
    return new NatsSetupError(`${at}: ${advice} (${error.message})`);
  }
  if (isUntrustedCertificate(code)) {
    const advice = ca === null ? 'set nats.ca to the CA that issued it' : `it was not issued by ${ca} (nats.ca)`;
    return new NatsSetupError(`${at}: the server certificate is not trusted (${code}): ${advice}`);
  }
  if (/does not support 'tls'/.test(errorText(error))) {
    return new NatsSetupError(`${at}: the server does not support TLS, which tls:// or nats.ca requires`);
  }
  return new Error(`${at}: ${errorText(error)}`);
}

function checkVersion(nc: NatsConnection): void {
  const version = nc.info?.version ?? '';
  const found = version.split('.').map((part) => Number.parseInt(part, 10));
  for (const [at, oldest] of OLDEST_SERVER.entries()) {
    const part = found[at] ?? 0;
    if (part > oldest) return;
    if (part < oldest) {
      const needed = OLDEST_SERVER.join('.');
      throw new NatsSetupError(
        `NATS at ${nc.getServer()} is version ${version}; the run queue needs ${needed} or newer`,
      );
    }
  }
}

async function forwardStatus(nc: NatsConnection, onStatus: (status: string) => void): Promise<void> {
  for await (const { type } of nc.status()) if (type === 'disconnect' || type === 'reconnect') onStatus(type);
}

/** Trusted certificates, and the client certificate of this process. */
export interface NatsTls {
  readonly tls: boolean;
  /** File with the certificates to trust; null: the system's. */
  readonly ca: string | null;
  /** Files of the client certificate and its key; null: none. */
  readonly identity: NatsIdentity | null;
}

/** Undefined: no TLS. @throws NatsSetupError that names the field */
export function tlsOptions({ tls, ca, identity }: NatsTls): TlsOptions | undefined {
  if (!tls && ca === null && identity === null) return undefined;
  if (identity !== null) checkIdentity(identity.cert, identity.key);
  return {
    ...(ca === null ? {} : { ca: readText(ca, 'nats.ca') }),
    // Read by the client for every connection, so that renewed ones need no restart.
    ...(identity === null ? {} : { certFile: identity.cert, keyFile: identity.key }),
  };
}

/** Checked here, because servers report little about a wrong certificate, some of them after a minute. */
function checkIdentity(cert: string, key: string): void {
  const shown = readText(cert, 'nats.cert');
  let isPair: boolean;
  try {
    isPair = new X509Certificate(shown).checkPrivateKey(createPrivateKey(readKey(key)));
  } catch (error) {
    if (error instanceof NatsSetupError) throw error;
    throw new NatsSetupError(
      `nats.cert and nats.key: expected PEM files with a certificate and its key (${cert}, ${key})`,
    );
  }
  if (!isPair) throw new NatsSetupError(`nats.key: ${key} is not the key of the certificate in ${cert} (nats.cert)`);
}

function readText(path: string, field: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    throw new NatsSetupError(`${field}: ${path} cannot be read (${errorCode(error)})`);
  }
}

function readKey(path: string): string {
  try {
    return readSecretFile(path);
  } catch (error) {
    const why = error instanceof SecretFileError ? errorText(error) : `${path} cannot be read (${errorCode(error)})`;
    throw new NatsSetupError(`nats.key: ${why}`);
  }
}

const PROBE_MS = 3_000;

/**
 * Code of the TLS alert with which a server rejects the client certificate or its absence; null: the server sent no such
 * alert. The alert arrives after the handshake, and the library reports it as a timeout.
 */
export async function certificateAlert(server: string, options: TlsOptions): Promise<string | null> {
  const { hostname, port } = new URL(`nats://${server}`);
  const host = hostname.replaceAll(/[[\]]/g, '');
  const { ca, certFile, keyFile } = options;
  const shown = certFile && keyFile ? { cert: readFileSync(certFile), key: readFileSync(keyFile) } : {};
  const secureContext = createSecureContext({ ...(ca ? { ca } : {}), ...shown });
  const { promise, resolve } = Promise.withResolvers<string | null>();
  const socket = connectPlainly(Number(port), host);
  const timer = setTimeout(() => resolve(null), PROBE_MS);
  const fail = (error: Error) => {
    const code = errorCode(error);
    resolve(isCertificateAlert(code) ? (code ?? null) : null);
  };
  socket.once('error', fail);
  socket.once('close', () => resolve(null));
  // NATS servers send a line in clear first; TLS starts after it.
  socket.once('data', () => {
    const secure = connectByTls({ socket, secureContext, ...(isIP(host) ? { host } : { servername: host }) });
    secure.once('error', fail);
    secure.once('close', () => resolve(null));
    secure.once('secureConnect', () => secure.write('PING\r\n'));
    secure.once('data', () => resolve(null));
  });
  return promise.finally(() => {
    clearTimeout(timer);
    socket.on('error', () => {});
    socket.destroy();
  });
}
