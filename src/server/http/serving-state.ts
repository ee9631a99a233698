import { Listeners } from '../../base/listeners.ts';

/** Whether this process wants requests: it does not while it starts, and no longer when it is asked to end. */
export class ServingState {
  #state: 'starting' | 'serving' | 'stopping' = 'starting';
  readonly #listeners = new Listeners<void>();

  get current(): 'starting' | 'serving' | 'stopping' {
    return this.#state;
  }

  get isServing(): boolean {
    return this.#state === 'serving';
  }

  become(state: 'serving' | 'stopping'): void {
    this.#state = state;
    this.#listeners.tell();
  }

  onChange(listener: () => void): () => void {
    return this.#listeners.add(listener);
  }
}
