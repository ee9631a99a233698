import grpc from '@grpc/grpc-js';
import { originalDefinition } from '../registry/original-client.ts';
import { onStop } from '../registry/running-sms.ts';

type Watch = grpc.ServerWritableStream<{ since_revision: number }, object>;

export interface OldRecord {
  readonly server_id: string;
  readonly display_name?: string;
  readonly transport: string;
  readonly stdio?: object;
  readonly http?: object;
  readonly allowed_tools?: readonly string[];
}

/**
 * A fake of an SMS that knows the original fields alone: no epoch, no records in events, no heartbeats. Made with
 * another library and another .proto than ours.
 */
export class FakeOldSms {
  readonly #server = new grpc.Server();
  readonly #records = new Map<string, OldRecord>();
  readonly #watches = new Set<Watch>();
  revision = 0;
  lists = 0;
  address = '';

  async start(): Promise<this> {
    const service = originalDefinition['sms.McpRegistryService'] as unknown as grpc.ServiceDefinition;
    this.#server.addService(service, {
      ListMcpServers: (_call: unknown, answer: grpc.sendUnaryData<object>) => {
        this.lists += 1;
        answer(null, { revision: this.revision, servers: [...this.#records.values()] });
      },
      WatchMcpServers: (watch: Watch) => {
        this.#watches.add(watch);
        watch.on('cancelled', () => this.#watches.delete(watch));
      },
    });
    const port = await new Promise<number>((resolve, reject) => {
      this.#server.bindAsync('127.0.0.1:0', grpc.ServerCredentials.createInsecure(), (error, bound) => {
        if (error === null) resolve(bound);
        else reject(error);
      });
    });
    this.address = `127.0.0.1:${port}`;
    onStop(() => this.#server.forceShutdown());
    return this;
  }

  get watchers(): number {
    return this.#watches.size;
  }

  upsert(record: OldRecord): void {
    this.#records.set(record.server_id, record);
    this.#tell({ upserts: [record.server_id] });
  }

  remove(serverId: string): void {
    this.#records.delete(serverId);
    this.#tell({ deletes: [serverId] });
  }

  #tell(change: object): void {
    this.revision += 1;
    for (const watch of this.#watches) watch.write({ event: { revision: this.revision, ...change } });
  }
}
