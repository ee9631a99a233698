import { readFileSync } from 'node:fs';
import { connect, credsAuthenticator, type NatsConnection } from '@nats-io/transport-node';
import { errorText } from '../../base/error-text.ts';
import type { Secret } from '../../secrets/secret.ts';
import { failWithConnection } from './lost-answers.ts';
import { NatsEvents } from './nats-events.ts';
import { NatsJournals } from './nats-journals.ts';
import { NatsQueue, type NatsQueueOptions } from './nats-queue.ts';
import { OLDEST_SERVER } from './streams.ts';

const UNANSWERED_PINGS = 2;

export interface NatsAddress {
  readonly servers: readonly string[];
  readonly tls: boolean;
  /** File of certificates to trust instead of the system's. */
  readonly ca: string | null;
  readonly creds: Secret | null;
  /** Of this node, for whoever looks at the servers. */
  readonly name: string;
  /** The connection was lost, or is there again. */
  readonly onStatus: (status: string) => void;
}

/** The parts of a cluster's queue. */
export interface NatsEngine {
  readonly queue: NatsQueue;
  readonly journals: NatsJournals;
  readonly events: NatsEvents;
}

/** @throws Error that says which servers, and why */
export async function openNats(address: NatsAddress, options: NatsQueueOptions): Promise<NatsEngine> {
  const { servers, tls, ca, creds, name, onStatus } = address;
  const nc = await connect({
    servers: [...servers],
    name: `spearlet ${name}`,
    maxReconnectAttempts: -1,
    reconnectTimeWait: 250,
    // One that nobody has ended and that nothing comes through is left when the leases end that were not renewed over it.
    pingInterval: options.leaseMs / (UNANSWERED_PINGS + 1),
    maxPingOut: UNANSWERED_PINGS,
    ...(creds === null ? {} : { authenticator: credsAuthenticator(new TextEncoder().encode(creds.reveal())) }),
    ...(tls || ca !== null ? { tls: ca === null ? {} : { ca: readFileSync(ca, 'utf8') } } : {}),
  }).catch((error: unknown) => {
    throw new Error(`no connection to NATS at ${servers.join(', ')}: ${errorText(error)}`);
  });
  try {
    checkVersion(nc);
    failWithConnection(nc);
    void tell(nc, onStatus);
    const queue = await NatsQueue.open(nc, options);
    return { queue, journals: new NatsJournals(queue), events: new NatsEvents(queue) };
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
