/** Whether this process wants requests: it does not while it starts, and no longer when it is asked to end. */
export class ServingState {
  #state: 'starting' | 'serving' | 'stopping' = 'starting';
  readonly #listeners = new Set<() => void>();

  get current(): 'starting' | 'serving' | 'stopping' {
    return this.#state;
  }

  get isServing(): boolean {
    return this.#state === 'serving';
  }

  become(state: 'serving' | 'stopping'): void {
    this.#state = state;
    for (const listener of [...this.#listeners]) listener();
  }

  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }
}
