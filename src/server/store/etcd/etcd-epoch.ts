import { randomUUID } from 'node:crypto';
import type { KeyValue, ResponseHeader } from '../../../generated/proto/etcdserverpb/key_value_pb.ts';
import type { EtcdClient } from './etcd-client.ts';
import { bytesOf, type EtcdKeys, textOf } from './etcd-keys.ts';
import { keyAbsent, put, range, rangeOf } from './etcd-operations.ts';

export interface EtcdEpoch {
  /** Of the registry, and of the cluster that it is in: a copy elsewhere is another one. */
  readonly epoch: string;
  /** What is added to etcd's revisions. */
  readonly base: number;
}

/** The epoch that is there, or that this makes. `base` is for a registry that comes from elsewhere. */
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

/** Null: it cannot be read. */
export function readEpoch(value: KeyValue['value'] | undefined, header: ResponseHeader | undefined): EtcdEpoch | null {
  try {
    const { id, base } = JSON.parse(textOf(value ?? new Uint8Array())) as { id: unknown; base: unknown };
    if (typeof id !== 'string' || typeof base !== 'number' || !Number.isSafeInteger(base)) return null;
    return { epoch: `${id}@${(header?.clusterId ?? 0n).toString(16)}`, base };
  } catch {
    return null;
  }
}
