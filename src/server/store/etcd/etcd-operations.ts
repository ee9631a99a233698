import type { MessageInitShape } from '@bufbuild/protobuf';
import type { KeyValue } from '../../../generated/proto/etcdserverpb/key_value_pb.ts';
import {
  Compare_CompareResult as CompareResult,
  type CompareSchema,
  Compare_CompareTarget as CompareTarget,
  type RequestOpSchema,
  type ResponseOp,
} from '../../../generated/proto/etcdserverpb/kv_pb.ts';
import type { KeyRange } from './etcd-keys.ts';

export type Operation = MessageInitShape<typeof RequestOpSchema>;
export type Condition = MessageInitShape<typeof CompareSchema>;

export const put = (key: Uint8Array, value: Uint8Array, lease = 0n): Operation => ({
  request: { case: 'requestPut', value: { key, value, lease } },
});

export const drop = (key: Uint8Array): Operation => ({ request: { case: 'requestDeleteRange', value: { key } } });

export const dropAll = (keys: KeyRange): Operation => ({ request: { case: 'requestDeleteRange', value: keys } });

export const range = (key: Uint8Array): Operation => ({ request: { case: 'requestRange', value: { key } } });

export const rangeAll = (keys: KeyRange): Operation => ({ request: { case: 'requestRange', value: keys } });

/** What a range of a transaction found. */
export function rangeOf(response: ResponseOp | undefined): readonly KeyValue[] {
  return response?.response.case === 'responseRange' ? response.response.value.kvs : [];
}

/** The key was last changed at this revision; 0: it is not there. */
export const keyAt = (key: Uint8Array, modRevision: bigint): Condition => ({
  result: CompareResult.EQUAL,
  target: CompareTarget.MOD,
  key,
  targetUnion: { case: 'modRevision', value: modRevision },
});

export const keyAbsent = (key: Uint8Array): Condition => keyAt(key, 0n);

export const keyPresent = (key: Uint8Array): Condition => ({ ...keyAbsent(key), result: CompareResult.GREATER });
