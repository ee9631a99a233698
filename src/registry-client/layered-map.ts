/** Changes kept beside the shared map before a new one is made. */
const MAX_LAYER = 128;

/**
 * A map that never changes and whose successor costs little: copying ten thousand records for every change of one of
 * them takes milliseconds, so a new version shares the large map and keeps its own few changes beside it.
 */
export class LayeredMap<V extends object> implements ReadonlyMap<string, V> {
  readonly #base: ReadonlyMap<string, V>;
  /** What differs from the base; null is a deletion. */
  readonly #layer: ReadonlyMap<string, V | null>;
  readonly size: number;

  private constructor(base: ReadonlyMap<string, V>, layer: ReadonlyMap<string, V | null>, size: number) {
    this.#base = base;
    this.#layer = layer;
    this.size = size;
  }

  static of<V extends object>(entries: Iterable<readonly [string, V]>): LayeredMap<V> {
    const base = new Map(entries);
    return new LayeredMap(base, new Map(), base.size);
  }

  /** A map with these changes on top; null deletes. */
  with(changes: Iterable<readonly [string, V | null]>): LayeredMap<V> {
    const layer = new Map(this.#layer);
    let size = this.size;
    for (const [key, value] of changes) {
      const before = layer.get(key) ?? (layer.has(key) ? undefined : this.#base.get(key));
      size += (value === null ? 0 : 1) - (before === undefined ? 0 : 1);
      layer.set(key, value);
    }
    const next = new LayeredMap(this.#base, layer, size);
    return layer.size > MAX_LAYER ? LayeredMap.of(next) : next;
  }

  get(key: string): V | undefined {
    const own = this.#layer.get(key);
    return own === undefined ? this.#base.get(key) : (own ?? undefined);
  }

  has(key: string): boolean {
    return this.get(key) !== undefined;
  }

  *entries(): MapIterator<[string, V]> {
    for (const [key, value] of this.#base) if (!this.#layer.has(key)) yield [key, value];
    for (const [key, value] of this.#layer) if (value !== null) yield [key, value];
  }

  *keys(): MapIterator<string> {
    for (const [key] of this) yield key;
  }

  *values(): MapIterator<V> {
    for (const [, value] of this) yield value;
  }

  [Symbol.iterator](): MapIterator<[string, V]> {
    return this.entries();
  }

  forEach(callback: (value: V, key: string, map: ReadonlyMap<string, V>) => void): void {
    for (const [key, value] of this) callback(value, key, this);
  }
}
