import { randomUUID } from 'node:crypto';
import type { MessageInitShape } from '@bufbuild/protobuf';
import type { KeyValue, ResponseHeader } from '../../../generated/proto/etcdserverpb/key_value_pb.ts';
import {
  Compare_CompareResult as CompareResult,
  type CompareSchema,
  Compare_CompareTarget as CompareTarget,
  type RequestOpSchema,
  type ResponseOp,
} from '../../../generated/proto/etcdserverpb/kv_pb.ts';
import type { RecordKind, StoreStamps } from '../../records/record-kind.ts';
import type { EtcdClient } from './etcd-client.ts';

export type KindName = RecordKind<StoreStamps>['name'];

const text = new TextEncoder();
const utf8 = new TextDecoder();

export const bytesOf = (value: string): Uint8Array => text.encode(value);
export const textOf = (value: Uint8Array): string => utf8.decode(value);

export interface KeyRange {
  readonly key: Uint8Array;
  readonly rangeEnd: Uint8Array;
}

/** What a key stores. */
export type KeyMeaning =
  | { readonly what: 'head'; readonly kind: string }
  | { readonly what: 'space'; readonly kind: string }
  | { readonly what: 'record'; readonly kind: string; readonly space: string; readonly id: string }
  | { readonly what: 'other' };

/** Space of a kind before its first import. */
export const FIRST_SPACE = '0';

/**
 * Key layout. Every change of a kind writes `heads/KIND`, whose mod revision is the revision of the kind. Its records are in the
 * space that `spaces/KIND` names: an import fills another space and becomes visible when that is named. `staging/KIND/SPACE`
 * exists while a space is filled or removed; `fences/WRITE` rejects a write that may still be in flight.
 */
export class EtcdKeys {
  readonly #prefix: string;

  constructor(prefix: string) {
    this.#prefix = prefix;
  }

  readonly all = (): KeyRange => prefixRange(`${this.#prefix}/`);
  readonly epoch = () => bytesOf(`${this.#prefix}/epoch`);
  readonly head = (kind: KindName) => bytesOf(`${this.#prefix}/heads/${kind}`);
  readonly heads = (): KeyRange => prefixRange(`${this.#prefix}/heads/`);
  readonly space = (kind: KindName) => bytesOf(`${this.#prefix}/spaces/${kind}`);
  readonly spaces = (): KeyRange => prefixRange(`${this.#prefix}/spaces/`);
  readonly record = (kind: KindName, space: string, id: string) =>
    bytesOf(`${this.#prefix}/records/${kind}/${space}/${id}`);
  readonly records = (kind: string, space: string): KeyRange =>
    prefixRange(`${this.#prefix}/records/${kind}/${space}/`);
  readonly staging = (kind: string, space: string) => bytesOf(`${this.#prefix}/staging/${kind}/${space}`);
  readonly allStaging = (): KeyRange => prefixRange(`${this.#prefix}/staging/`);
  readonly fence = (write: string) => bytesOf(`${this.#prefix}/fences/${write}`);

  meaning(key: Uint8Array): KeyMeaning {
    const path = textOf(key).slice(this.#prefix.length + 1);
    const [group, kind = '', space = ''] = path.split('/', 3);
    if (group === 'heads') return { what: 'head', kind };
    if (group === 'spaces') return { what: 'space', kind };
    if (group !== 'records') return { what: 'other' };
    // An id may contain slashes.
    const id = path.slice(group.length + kind.length + space.length + 3);
    return { what: 'record', kind, space, id };
  }

  /** KIND and SPACE of a key of `staging`. */
  staged(key: Uint8Array): { readonly kind: string; readonly space: string } {
    const [, kind = '', space = ''] = textOf(key)
      .slice(this.#prefix.length + 1)
      .split('/', 3);
    return { kind, space };
  }
}

/** All keys with this prefix. Its last byte is ASCII, so a next byte exists. */
function prefixRange(start: string): KeyRange {
  const rangeEnd = bytesOf(start);
  const last = rangeEnd.length - 1;
  rangeEnd[last] = (rangeEnd[last] ?? 0) + 1;
  return { key: bytesOf(start), rangeEnd };
}

export type Operation = MessageInitShape<typeof RequestOpSchema>;
export type Condition = MessageInitShape<typeof CompareSchema>;

export const put = (key: Uint8Array, value: Uint8Array, lease = 0n): Operation => ({
  request: { case: 'requestPut', value: { key, value, lease } },
});

export const drop = (key: Uint8Array): Operation => ({ request: { case: 'requestDeleteRange', value: { key } } });

export const dropAll = (keys: KeyRange): Operation => ({ request: { case: 'requestDeleteRange', value: keys } });

export const range = (key: Uint8Array): Operation => ({ request: { case: 'requestRange', value: { key } } });

export const rangeAll = (keys: KeyRange): Operation => ({ request: { case: 'requestRange', value: keys } });

/** The result of a range request in a transaction. */
export function rangeOf(response: ResponseOp | undefined): readonly KeyValue[] {
  return response?.response.case === 'responseRange' ? response.response.value.kvs : [];
}

/** The key was last changed at this revision; 0: absent. */
export const keyAt = (key: Uint8Array, modRevision: bigint): Condition => ({
  result: CompareResult.EQUAL,
  target: CompareTarget.MOD,
  key,
  targetUnion: { case: 'modRevision', value: modRevision },
});

export const keyAbsent = (key: Uint8Array): Condition => keyAt(key, 0n);

export const keyPresent = (key: Uint8Array): Condition => ({ ...keyAbsent(key), result: CompareResult.GREATER });

export interface EtcdEpoch {
  /** Combines the registry's id and the etcd cluster's id: a copy in another cluster is a different registry. */
  readonly epoch: string;
  /** Added to etcd's revisions. */
  readonly base: number;
}

/** Reads the epoch, or creates it. `base` is for a migrated registry. */
export async function ensureEpoch(
  client: EtcdClient,
  keys: EtcdKeys,
  deadlineMs: number,
  base = 0,
): Promise<EtcdEpoch> {
  const key = keys.epoch();
  const value = bytesOf(JSON.stringify({ id: randomUUID(), base }));
  const request = { compare: [keyAbsent(key)], success: [put(key, value)], failure: [range(key)] };
  const answer = await client.ask(({ kv }, options) => kv.txn(request, options), { deadlineMs });
  const [found] = answer.succeeded ? [] : rangeOf(answer.responses[0]);
  const epoch = readEpoch(found?.value ?? value, answer.header);
  if (epoch === null)
    throw new Error(`${textOf(key)} at ${client.name} is not a registry epoch; is the prefix used by another program?`);
  return epoch;
}

/** Null: unreadable. */
export function readEpoch(value: KeyValue['value'] | undefined, header: ResponseHeader | undefined): EtcdEpoch | null {
  try {
    const { id, base } = JSON.parse(textOf(value ?? new Uint8Array())) as { id: unknown; base: unknown };
    if (typeof id !== 'string' || typeof base !== 'number' || !Number.isSafeInteger(base)) return null;
    return { epoch: `${id}@${(header?.clusterId ?? 0n).toString(16)}`, base };
  } catch {
    return null;
  }
}
