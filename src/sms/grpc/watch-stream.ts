import type { WatchMcpServersResponse } from '../../protocol/generated/sms/mcp_registry_pb.ts';
import { EventReader } from '../event-reader.ts';
import type { RegistryStore } from '../store/store.ts';
import { eventResponse, heartbeatResponse } from './encoded-messages.ts';

export interface WatchStreamOptions {
  readonly store: RegistryStore;
  readonly since: number;
  /** Events carry their records, and heartbeats come: a reader that knows neither would list again at every one. */
  readonly includeRecords: boolean;
  readonly heartbeatMs: number;
  readonly signal: AbortSignal;
  /** Called once the watch is known to have begun, before there is anything to send. */
  readonly onBegun: () => void;
}

/** The stream of one watcher. Ends with `signal`; fails as the store's watch does. */
export async function* watchStream(options: WatchStreamOptions): AsyncGenerator<WatchMcpServersResponse> {
  const { store, includeRecords, signal } = options;
  // Subscribed before anything is awaited, so that nothing falls between the two.
  const reader = new EventReader(store.watch(options.since, signal)[Symbol.asyncIterator]());
  try {
    let sent = options.since;
    const epoch = await store.epoch();
    await reader.settle();
    options.onBegun();
    if (includeRecords && (await store.revision()) === sent) yield heartbeatResponse(epoch, sent);
    while (!signal.aborted) {
      const event = await reader.next(includeRecords ? options.heartbeatMs : null);
      if (event === 'ended') return;
      if (event !== 'silence') {
        sent = event.revision;
        yield eventResponse(event, includeRecords);
      } else if ((await store.revision()) === sent) {
        // Otherwise an event is on its way, and says more.
        yield heartbeatResponse(epoch, sent);
      }
    }
  } finally {
    reader.close();
  }
}
