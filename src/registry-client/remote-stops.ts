import { type Client, Code, ConnectError, createClient, type Transport } from '@connectrpc/connect';
import { untilAborted } from '../base/abort.ts';
import { StopService, type Stop as WireStop } from '../generated/proto/sms/stop_pb.ts';
import type { RegistryListing } from '../server/records/record-kind.ts';
import type { StopRecord } from '../server/records/stop.ts';
import { stopKind } from '../server/records/stop-kind.ts';
import { wireToStopInput } from '../server/records/wire.ts';
import type { RegistrySource, RegistryWatchItem } from './source.ts';
import { WireRecords } from './wire-records.ts';

/** The stops of a registry over the network. A registry of an earlier version has none. */
export class RemoteStops implements RegistrySource<StopRecord> {
  readonly canWatchRecords = true;
  readonly #client: Client<typeof StopService>;
  readonly #records: WireRecords<WireStop, StopRecord>;
  readonly #explain: (error: unknown) => never;

  constructor(transport: Transport, explain: (error: unknown) => never) {
    this.#client = createClient(StopService, transport);
    this.#records = new WireRecords({ kind: stopKind, idOf: ({ stopId }) => stopId, input: wireToStopInput }, () => {});
    this.#explain = explain;
  }

  async list(signal: AbortSignal): Promise<RegistryListing<StopRecord>> {
    try {
      const { epoch, revision, stops } = await this.#client.listStops({}, { signal });
      const records = await this.#records.readAll(epoch, stops, signal);
      return { epoch, revision: Number(revision), records };
    } catch (error) {
      if (isUnknownService(error)) return { epoch: '', revision: 0, records: [] };
      return this.#explain(error);
    }
  }

  async *watch(since: number, signal: AbortSignal): AsyncGenerator<RegistryWatchItem<StopRecord>> {
    try {
      for await (const { event } of this.#client.watchStops({ sinceRevision: BigInt(since) }, { signal })) {
        if (event === undefined) continue;
        if (event.heartbeat) yield { heartbeat: true, epoch: event.epoch, revision: Number(event.revision) };
        else yield await this.#records.readEvent(event, signal);
      }
    } catch (error) {
      if (!isUnknownService(error)) this.#explain(error);
      // The cache polls: it notices when the registry is replaced by one that has stops.
      yield { heartbeat: true, epoch: '', revision: 0 };
      await untilAborted(new Promise<never>(() => {}), signal);
    }
  }
}

function isUnknownService(error: unknown): boolean {
  return error instanceof ConnectError && error.code === Code.Unimplemented;
}
