/**
 * The end of something under way, once and for a reason: what an AbortController is, without its events, which cost a
 * request more than everything else that watches over it.
 */
export class Ending {
  #over: { readonly reason: unknown } | null = null;
  #controller: AbortController | null = null;
  /** Told of the end. There is one at a time. */
  onEnd: ((reason: unknown) => void) | null = null;

  end(reason: unknown): void {
    if (this.#over !== null) return;
    this.#over = { reason };
    this.onEnd?.(reason);
    this.#controller?.abort(reason);
  }

  throwIfOver(): void {
    if (this.#over !== null) throw this.#over.reason;
  }

  /** For whoever takes nothing else; made when it is first asked for. */
  get signal(): AbortSignal {
    this.#controller ??= new AbortController();
    if (this.#over !== null) this.#controller.abort(this.#over.reason);
    return this.#controller.signal;
  }
}
