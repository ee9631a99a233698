import { createHash } from 'node:crypto';
import { type Prepared, type PrepareOptions, prepare } from '../wasm/prepare.ts';

/** Total size of the retained modules; the least recently used are evicted first. */
const MAX_BYTES = 256 * 1024 * 1024;

interface CachedModule {
  readonly prepared: Promise<Prepared>;
  readonly bytes: number;
}

/** sha256 of modules, computed once per buffer. */
const digests = new WeakMap<Uint8Array, string>();

export function moduleDigest(bytes: Uint8Array): string {
  const known = digests.get(bytes);
  if (known !== undefined) return known;
  const digest = createHash('sha256').update(bytes).digest('hex');
  digests.set(bytes, digest);
  return digest;
}

/** Cache of prepared (admitted, bounded, compiled) modules, by digest and by the limits that bound them. */
export class ModuleCache {
  readonly #cached = new Map<string, CachedModule>();
  readonly #maxBytes: number;
  #bytes = 0;

  constructor(maxBytes = MAX_BYTES) {
    this.#maxBytes = maxBytes;
  }

  /** @throws ModuleError */
  async prepare(
    bytes: Uint8Array,
    options: PrepareOptions & Required<Pick<PrepareOptions, 'preemptible'>>,
  ): Promise<Prepared> {
    const { memory_bytes, table_elements, module_bytes } = options.limits;
    const bounds = [
      memory_bytes,
      table_elements,
      module_bytes,
      Number(options.allowUnknownImports),
      Number(options.preemptible),
    ];
    const key = [moduleDigest(bytes), ...bounds].join(' ');
    const known = this.#cached.get(key);
    if (known !== undefined) {
      this.#cached.delete(key);
      this.#cached.set(key, known);
      return known.prepared;
    }
    // Not cancelled with the run that asked first: other runs may wait for the same module.
    const { signal: _signal, ...shared } = options;
    const entry: CachedModule = { prepared: prepare(bytes, shared), bytes: bytes.byteLength };
    this.#cached.set(key, entry);
    this.#bytes += entry.bytes;
    entry.prepared.catch(() => this.#evict(key, entry));
    for (const [oldest, { bytes: size }] of this.#cached) {
      if (this.#bytes <= this.#maxBytes || oldest === key) break;
      this.#cached.delete(oldest);
      this.#bytes -= size;
    }
    return entry.prepared;
  }

  #evict(key: string, entry: CachedModule): void {
    if (this.#cached.get(key) !== entry) return;
    this.#cached.delete(key);
    this.#bytes -= entry.bytes;
  }
}
