import { createHash } from 'node:crypto';
import { type Prepared, type PrepareOptions, prepare } from '../wasm/prepare.ts';

/** What all modules that are kept took as bytes; those that were not used for longest go first. */
const MAX_BYTES = 256 * 1024 * 1024;

interface Kept {
  readonly prepared: Promise<Prepared>;
  readonly bytes: number;
}

/** sha256 of a module, worked out once for the same bytes. */
const digests = new WeakMap<Uint8Array, string>();

export function moduleDigest(bytes: Uint8Array): string {
  const known = digests.get(bytes);
  if (known !== undefined) return known;
  const digest = createHash('sha256').update(bytes).digest('hex');
  digests.set(bytes, digest);
  return digest;
}

/** Modules that were admitted, bounded and compiled, by what they are and the limits they were bounded by. */
export class ModuleCache {
  readonly #kept = new Map<string, Kept>();
  readonly #maxBytes: number;
  #bytes = 0;

  constructor(maxBytes = MAX_BYTES) {
    this.#maxBytes = maxBytes;
  }

  /** @throws ModuleError */
  async prepare(bytes: Uint8Array, options: PrepareOptions & { readonly preemptible: boolean }): Promise<Prepared> {
    const { memory_bytes, table_elements, module_bytes } = options.limits;
    const bounds = [
      memory_bytes,
      table_elements,
      module_bytes,
      Number(options.allowUnknownImports),
      Number(options.preemptible),
    ];
    const key = [moduleDigest(bytes), ...bounds].join(' ');
    const known = this.#kept.get(key);
    if (known !== undefined) {
      this.#kept.delete(key);
      this.#kept.set(key, known);
      return known.prepared;
    }
    // Not ended with the run that asked first: others may wait for the same.
    const { signal: _signal, ...shared } = options;
    const kept: Kept = { prepared: prepare(bytes, shared), bytes: bytes.byteLength };
    this.#kept.set(key, kept);
    this.#bytes += kept.bytes;
    kept.prepared.catch(() => this.#forget(key, kept));
    for (const [oldest, { bytes: size }] of this.#kept) {
      if (this.#bytes <= this.#maxBytes || oldest === key) break;
      this.#kept.delete(oldest);
      this.#bytes -= size;
    }
    return kept.prepared;
  }

  #forget(key: string, kept: Kept): void {
    if (this.#kept.get(key) !== kept) return;
    this.#kept.delete(key);
    this.#bytes -= kept.bytes;
  }
}
