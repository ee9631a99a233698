import { McpTransport } from '../../../src/generated/proto/sms/mcp_server_record_pb.ts';
import { Random } from '../random.ts';
import type { Failures } from '../topic.ts';
import type { Ledger } from './ledger.ts';
import { connectTo, isAnswer, type SmsClient } from './sms-client.ts';
import type { Addresses } from './sms-life.ts';

const WRITERS = 4;
const IDS_OF_WRITER = 6;
const MAX_PADDING = 3_000;
const BATCH = 20;
const LARGE_BATCH = 250;
const ONE_BATCH_IN = 10;
const ONE_LARGE_IN = 8;

export interface WritersOptions {
  readonly addresses: Addresses;
  readonly token: string;
  readonly ledger: Ledger;
  readonly seed: number;
  readonly failures: Failures;
  /** Whether it is right that a write is refused, as on a full disk. @default false */
  readonly mayRefuse?: boolean;
}

/** Writers that write as fast as they are answered, by both protocols, until they are stopped or cut off. */
export class Writers {
  readonly #options: WritersOptions;
  readonly #clients: SmsClient[] = [];
  readonly #done: Promise<void>;
  #stopped = false;
  #acknowledged = 0;
  #onAnswer = () => {};
  /** Revisions that were acknowledged, oldest first for each writer. */
  readonly revisions: number[] = [];
  refused = 0;
  /** Since the last write that was acknowledged. */
  refusedInARow = 0;
  /** Writers that a broken connection ended. */
  cutOff = 0;

  constructor(options: WritersOptions) {
    this.#options = options;
    const random = new Random(options.seed);
    const seeds = Array.from({ length: WRITERS }, () => random.seed());
    this.#done = Promise.all(seeds.map((seed, writer) => this.#write(writer, new Random(seed)))).then(() => {});
  }

  /** Resolves when so many writes are acknowledged, or all writers are cut off. */
  acknowledged(count: number): Promise<void> {
    return this.#until(() => this.#acknowledged >= count);
  }

  /** The same for writes that were refused. */
  refusals(count: number): Promise<void> {
    return this.#until(() => this.refused >= count);
  }

  /** Each writer ends with the answer to what it has sent. */
  async stop(): Promise<void> {
    this.#stopped = true;
    await this.#done;
    for (const client of this.#clients) client.close();
  }

  #until(enough: () => boolean): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#onAnswer = () => enough() && resolve();
    this.#onAnswer();
    return Promise.race([promise, this.#done]);
  }

  async #write(writer: number, random: Random): Promise<void> {
    const { addresses, token } = this.#options;
    const client = connectTo(addresses, token);
    this.#clients.push(client);
    for (let number = 0; !this.#stopped; number++) {
      const value = `${this.#options.seed}/${writer}/${number}`;
      const outcome = random.chance(ONE_BATCH_IN)
        ? await this.#importBatch(client, writer, value, random)
        : await this.#change(client, writer, value, random);
      if (outcome === 'cut off') {
        this.cutOff++;
        return;
      }
    }
  }

  async #change(client: SmsClient, writer: number, value: string, random: Random): Promise<'cut off' | 'answered'> {
    const id = `w${writer}-${random.below(IDS_OF_WRITER)}`;
    const byGrpc = random.chance(2);
    if (random.chance(4) && this.#options.ledger.has(id)) {
      return this.#attempt([id], null, () => (byGrpc ? deleteByGrpc(client, id) : deleteByHttp(client, id)));
    }
    const padding = 'y'.repeat(random.below(MAX_PADDING));
    return this.#attempt([id], value, () =>
      byGrpc ? putByGrpc(client, id, value, padding) : putByHttp(client, id, value, padding),
    );
  }

  #importBatch(client: SmsClient, writer: number, value: string, random: Random): Promise<'cut off' | 'answered'> {
    const size = random.chance(ONE_LARGE_IN) ? LARGE_BATCH : BATCH;
    const ids = Array.from({ length: size }, (_, index) => `b${writer}-${size}-${index}`);
    return this.#attempt(ids, value, async () => {
      const servers = ids.map((id) => recordOf(id, value, ''));
      const path = '/admin/api/mcp/servers/import';
      const { plan } = JSON.parse(checked(await client.http('POST', path, servers))) as { plan: string };
      const applied = checked(await client.http('POST', `${path}?apply=${plan}`, servers));
      return (JSON.parse(applied) as { revision: number }).revision;
    });
  }

  async #attempt(ids: readonly string[], value: string | null, write: () => Promise<number>) {
    const { ledger, failures, mayRefuse = false } = this.#options;
    const attempt = ledger.begin(ids, value);
    try {
      const revision = await write();
      attempt.acknowledged(revision);
      this.revisions.push(revision);
      this.#acknowledged++;
      this.refusedInARow = 0;
      this.#onAnswer();
      return 'answered';
    } catch (error) {
      if (!(error instanceof Refused) && !isAnswer(error)) return 'cut off';
      attempt.refused();
      this.refused++;
      this.refusedInARow++;
      this.#onAnswer();
      if (!mayRefuse) failures.add(`a write of ${ids[0]} was refused: ${error}`);
      return 'answered';
    }
  }
}

class Refused extends Error {}

function checked({ status, text }: { readonly status: number; readonly text: string }): string {
  if (status >= 400) throw new Refused(`${status} ${text}`);
  return text;
}

const recordOf = (id: string, value: string, padding: string) => ({
  server_id: id,
  display_name: value,
  transport: 'stdio',
  stdio: { command: 'x', args: [padding] },
});

async function putByGrpc({ registry }: SmsClient, id: string, value: string, padding: string): Promise<number> {
  const { server_id: serverId, display_name: displayName, stdio } = recordOf(id, value, padding);
  const transport = McpTransport.STDIO;
  return Number((await registry.upsertMcpServer({ record: { serverId, displayName, transport, stdio } })).revision);
}

async function deleteByGrpc({ registry }: SmsClient, serverId: string): Promise<number> {
  return Number((await registry.deleteMcpServer({ serverId })).revision);
}

async function putByHttp(client: SmsClient, id: string, value: string, padding: string): Promise<number> {
  const text = checked(await client.http('PUT', `/admin/api/mcp/servers/${id}`, recordOf(id, value, padding)));
  return (JSON.parse(text) as { mod_revision: number }).mod_revision;
}

async function deleteByHttp(client: SmsClient, id: string): Promise<number> {
  return (JSON.parse(checked(await client.http('DELETE', `/admin/api/mcp/servers/${id}`))) as { revision: number })
    .revision;
}
