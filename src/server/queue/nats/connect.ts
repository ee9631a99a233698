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
import { isCertificateAlert, isUntrustedCertificate } from '../../../base/certificate-problem.ts';
import { errorCode, errorText } from '../../../base/error-text.ts';
import type { NatsIdentity } from '../../../config/nats.ts';
import type { Secret } from '../../secrets/secret.ts';
import { readSecretFile, SecretFileError } from '../../secrets/secret-file.ts';
import { isForbidden, NatsSetupError } from './nats-errors.ts';
import { Requests } from './requests.ts';
import { OLDEST_SERVER } from './streams.ts';

const UNANSWERED_PINGS = 2;

export interface NatsAddress extends NatsTls {
  readonly servers: readonly string[];
  /** Read again for every connection, so that renewed ones need no restart; null: nobody signs in. @throws Error */
  readonly creds: (() => Secret) | null;
  /** Where the config has them, for messages. @default nats.creds */
  readonly credsField?: string | undefined;
  /** Of this process, for whoever looks at the servers. */
  readonly name: string;
  /** How long nothing may come over a connection that nobody has ended, before it is left for another. */
  readonly silenceMs: number;
  /** The connection was lost, or is there again. */
  readonly onStatus: (status: string) => void;
}

/** What `open` makes of a connection, which it closes from then on. @throws Error that says which servers, and why */
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
    // Whoever is refused for a while may be let in again: credentials are renewed.
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
    Requests.replace(nc);
    void tell(nc, onStatus);
    return await open(nc);
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

/** What cannot be read for a connection that is made again is taken as it was. */
function signer(read: () => Secret, field: string): Authenticator {
  let last = read().reveal();
  // A secret has no line feed at its end, and the library's reader wants one after the last line.
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

async function tell(nc: NatsConnection, onStatus: (status: string) => void): Promise<void> {
  for await (const { type } of nc.status()) if (type === 'disconnect' || type === 'reconnect') onStatus(type);
}

/** Whom to trust, and as whom to be known. */
export interface NatsTls {
  readonly tls: boolean;
  /** File of certificates to trust instead of the system's. */
  readonly ca: string | null;
  /** Files of the certificate that is shown to servers, and of its key; null: none is. */
  readonly identity: NatsIdentity | null;
}

/** Undefined: in clear. @throws NatsSetupError that names the field */
export function tlsOptions({ tls, ca, identity }: NatsTls): TlsOptions | undefined {
  if (!tls && ca === null && identity === null) return undefined;
  if (identity !== null) checkIdentity(identity.cert, identity.key);
  return {
    ...(ca === null ? {} : { ca: readText(ca, 'nats.ca') }),
    // Read by the client for every connection, so that renewed ones need no restart.
    ...(identity === null ? {} : { certFile: identity.cert, keyFile: identity.key }),
  };
}

/** Servers tell little about what is wrong with a certificate, and some of them after a minute. */
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

const TRIAL_MS = 3_000;
const SPOKEN_TO = 'PING\r\n';

/**
 * Why a server does not take the certificate that it is shown, or wants one: the code of its alert. Null: it has no such
 * objection, or says nothing. It comes after the handshake, and the client of the library makes a timeout of it.
 */
export async function certificateAlert(server: string, options: TlsOptions): Promise<string | null> {
  const { hostname, port } = new URL(`nats://${server}`);
  const host = hostname.replaceAll(/[[\]]/g, '');
  const { ca, certFile, keyFile } = options;
  const shown = certFile && keyFile ? { cert: readFileSync(certFile), key: readFileSync(keyFile) } : {};
  const secureContext = createSecureContext({ ...(ca ? { ca } : {}), ...shown });
  const { promise, resolve } = Promise.withResolvers<string | null>();
  const socket = connectPlainly(Number(port), host);
  const timer = setTimeout(() => resolve(null), TRIAL_MS);
  const fail = (error: Error) => {
    const code = errorCode(error);
    resolve(isCertificateAlert(code) ? (code ?? null) : null);
  };
  socket.once('error', fail);
  socket.once('close', () => resolve(null));
  // Servers speak first, in clear, and TLS begins after that.
  socket.once('data', () => {
    const secure = connectByTls({ socket, secureContext, ...(isIP(host) ? { host } : { servername: host }) });
    secure.once('error', fail);
    secure.once('close', () => resolve(null));
    secure.once('secureConnect', () => secure.write(SPOKEN_TO));
    secure.once('data', () => resolve(null));
  });
  return promise.finally(() => {
    clearTimeout(timer);
    socket.on('error', () => {});
    socket.destroy();
  });
}
