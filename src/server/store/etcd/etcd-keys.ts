import type { RecordKind, StoreStamps } from '../../records/record-kind.ts';

export type KindName = RecordKind<StoreStamps>['name'];

const text = new TextEncoder();
const utf8 = new TextDecoder();

export const bytesOf = (value: string): Uint8Array => text.encode(value);
export const textOf = (value: Uint8Array): string => utf8.decode(value);

export interface KeyRange {
  readonly key: Uint8Array;
  readonly rangeEnd: Uint8Array;
}

/** What a key is about. */
export type KeyMeaning =
  | { readonly what: 'head'; readonly kind: string }
  | { readonly what: 'space'; readonly kind: string }
  | { readonly what: 'record'; readonly kind: string; readonly space: string; readonly id: string }
  | { readonly what: 'other' };

/** A kind that has seen no import keeps its records here. */
export const FIRST_SPACE = '0';

/**
 * Where everything is. Every change of a kind writes its `heads/KIND`, whose mod revision is the kind's. Its records are in the
 * space that `spaces/KIND` names: an import fills another one and is made visible by naming that. `staging/KIND/SPACE` stands
 * while a space is filled or emptied, `fences/WRITE` forbids a write that may still be on its way.
 */
export class EtcdKeys {
  readonly #prefix: string;

  constructor(prefix: string) {
    this.#prefix = prefix;
  }

  readonly all = (): KeyRange => rangeOf(`${this.#prefix}/`);
  readonly epoch = () => bytesOf(`${this.#prefix}/epoch`);
  readonly head = (kind: KindName) => bytesOf(`${this.#prefix}/heads/${kind}`);
  readonly heads = (): KeyRange => rangeOf(`${this.#prefix}/heads/`);
  readonly space = (kind: KindName) => bytesOf(`${this.#prefix}/spaces/${kind}`);
  readonly spaces = (): KeyRange => rangeOf(`${this.#prefix}/spaces/`);
  readonly record = (kind: KindName, space: string, id: string) =>
    bytesOf(`${this.#prefix}/records/${kind}/${space}/${id}`);
  readonly records = (kind: string, space: string): KeyRange => rangeOf(`${this.#prefix}/records/${kind}/${space}/`);
  readonly staging = (kind: string, space: string) => bytesOf(`${this.#prefix}/staging/${kind}/${space}`);
  readonly allStaging = (): KeyRange => rangeOf(`${this.#prefix}/staging/`);
  readonly fence = (write: string) => bytesOf(`${this.#prefix}/fences/${write}`);

  meaning(key: Uint8Array): KeyMeaning {
    const path = textOf(key).slice(this.#prefix.length + 1);
    const [group, kind = '', space = ''] = path.split('/', 3);
    if (group === 'heads') return { what: 'head', kind };
    if (group === 'spaces') return { what: 'space', kind };
    if (group !== 'records') return { what: 'other' };
    // An id may have slashes of its own.
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

/** All keys that begin so. The last byte is an ASCII one, so the next one exists. */
function rangeOf(start: string): KeyRange {
  const rangeEnd = bytesOf(start);
  const last = rangeEnd.length - 1;
  rangeEnd[last] = (rangeEnd[last] ?? 0) + 1;
  return { key: bytesOf(start), rangeEnd };
}
