import type { ContextValues, ServiceImpl } from '@connectrpc/connect';
import type { StopService } from '../../generated/proto/sms/stop_pb.ts';
import { ALL_NAMESPACES } from '../../server/records/permissions.ts';
import { namespaceOfStop, type StopRecord } from '../../server/records/stop.ts';
import type { StoreReader } from '../../server/store/store.ts';
import { stopMessages } from './encoded-messages.ts';
import { identityOf } from './grpc-call.ts';
import { KindReads, type KindServiceDeps, namespaceView } from './kind-reads.ts';

/** Stops as nodes follow them. A node of one namespace does not see stops of another namespace. */
export function stopService(store: StoreReader<StopRecord>, deps: KindServiceDeps): ServiceImpl<typeof StopService> {
  const ofAll = new KindReads(store, stopMessages, deps);
  const reads = (values: ContextValues): KindReads<StopRecord> => {
    const { namespace } = identityOf(values);
    if (namespace === ALL_NAMESPACES) return ofAll;
    const isVisible = (stop: StopRecord) => (namespaceOfStop(stop) ?? namespace) === namespace;
    // Ids of lifted stops are random and reveal nothing.
    return new KindReads(
      namespaceView(store, isVisible, () => true),
      stopMessages,
      deps,
    );
  };
  return {
    listStops: (_, { values }) => reads(values).list(values),
    watchStops: ({ sinceRevision }, { signal, values }) =>
      reads(values).watch({ sinceRevision, includeRecords: true }, signal, values),
  };
}
