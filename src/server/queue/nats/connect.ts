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
import { isUntrustedCertificate } from '../../../base/certificate-problem.ts';
import { errorCode, errorText } from '../../../base/error-text.ts';
import type { Secret } from '../../secrets/secret.ts';
import { NatsSetupError } from './nats-setup-error.ts';
import { type NatsTls, tlsOptions } from './nats-tls.ts';
import { isForbidden } from './patience.ts';
import { Requests } from './requests.ts';
import { OLDEST_SERVER } from './streams.ts';
import { certificateAlert } from './tls-trial.ts';

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
