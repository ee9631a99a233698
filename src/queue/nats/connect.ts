import { readFileSync } from 'node:fs';
import { connect, credsAuthenticator, type NatsConnection } from '@nats-io/transport-node';
import { errorText } from '../../base/error-text.ts';
import type { Secret } from '../../secrets/secret.ts';
import { OLDEST_SERVER } from './streams.ts';

export interface NatsAddress {
  readonly servers: readonly string[];
  readonly tls: boolean;
  /** File of certificates to trust instead of the system's. */
  readonly ca: string | null;
  readonly creds: Secret | null;
  /** Of this process, for whoever looks at the servers. */
  readonly name: string;
  /** The connection was lost, or is there again. */
  readonly onStatus: (status: string) => void;
}

/** What `open` makes of a connection, which it closes from then on. @throws Error that says which servers, and why */
export async function openNats<T>(address: NatsAddress, open: (nc: NatsConnection) => Promise<T>): Promise<T> {
  const { servers, tls, ca, creds, name, onStatus } = address;
  const nc = await connect({
    servers: [...servers],
    name,
    maxReconnectAttempts: -1,
    reconnectTimeWait: 250,
    pingInterval: 10_000,
    maxPingOut: 2,
    ...(creds === null ? {} : { authenticator: credsAuthenticator(new TextEncoder().encode(creds.reveal())) }),
    ...(tls || ca !== null ? { tls: ca === null ? {} : { ca: readFileSync(ca, 'utf8') } } : {}),
  }).catch((error: unknown) => {
    throw new Error(`no connection to NATS at ${servers.join(', ')}: ${errorText(error)}`);
  });
  try {
    checkVersion(nc);
    void tell(nc, onStatus);
    return await open(nc);
  } catch (error) {
    await nc.close();
    throw error;
  }
}

function checkVersion(nc: NatsConnection): void {
  const version = nc.info?.version ?? '';
  const found = version.split('.').map((part) => Number.parseInt(part, 10));
  for (const [at, oldest] of OLDEST_SERVER.entries()) {
    const part = found[at] ?? 0;
    if (part > oldest) return;
    if (part < oldest) {
      throw new Error(`NATS at ${nc.getServer()} is ${version}, and runs need ${OLDEST_SERVER.join('.')} or newer`);
    }
  }
}

async function tell(nc: NatsConnection, onStatus: (status: string) => void): Promise<void> {
  for await (const { type } of nc.status()) if (type === 'disconnect' || type === 'reconnect') onStatus(type);
}
