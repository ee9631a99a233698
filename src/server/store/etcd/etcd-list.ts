import type { EtcdClient } from './etcd-client.ts';
import { type EtcdKeys, type KindName, textOf } from './etcd-keys.ts';
import { rangeAll, rangeOf } from './etcd-operations.ts';
import { firstSpace, type KindListing } from './kind-mirror.ts';

const LIST_MS = 30_000;

interface Etcd {
  readonly client: EtcdClient;
  readonly keys: EtcdKeys;
}

export interface EtcdListing {
  /** Of etcd: everything up to here is in it. */
  readonly revision: bigint;
  readonly kinds: ReadonlyMap<string, KindListing>;
}

/** All records of these kinds at one revision. */
export async function listKinds(etcd: Etcd, names: readonly KindName[]): Promise<EtcdListing> {
  const { client, keys } = etcd;
  const request = { success: [rangeAll(keys.heads()), rangeAll(keys.spaces())] };
  const { header, responses } = await client.ask(({ kv }, options) => kv.txn(request, options), {
    deadlineMs: LIST_MS,
  });
  const revision = header?.revision ?? 0n;
  const found = [...rangeOf(responses[0]), ...rangeOf(responses[1])].map((kv) => ({
    meaning: keys.meaning(kv.key),
    kv,
  }));
  const kinds = new Map<string, KindListing>();
  for (const kind of names) {
    const of = (what: 'head' | 'space') =>
      found.find(({ meaning }) => meaning.what === what && meaning.kind === kind)?.kv;
    const [head, space] = [of('head'), of('space')];
    const about = {
      head: head?.modRevision ?? 0n,
      write: head === undefined ? '' : textOf(head.value),
      space: space === undefined ? firstSpace : { name: textOf(space.value), revision: space.modRevision },
    };
    kinds.set(kind, await listKind(etcd, kind, about, revision));
  }
  return { revision, kinds };
}

/** The records of one kind as they were at `revision`. */
export async function listKind(
  { client, keys }: Etcd,
  kind: KindName,
  about: Omit<KindListing, 'records'>,
  revision: bigint,
): Promise<KindListing> {
  const request = { ...keys.records(kind, about.space.name), revision };
  const { kvs } = await client.ask(({ kv }, options) => kv.range(request, options), { deadlineMs: LIST_MS });
  const records = kvs.flatMap((kv) => {
    const meaning = keys.meaning(kv.key);
    return meaning.what === 'record' ? [{ id: meaning.id, kv }] : [];
  });
  return { ...about, records };
}
