const REDRAWN_EVERY_MS = 100;
const ERASE = '\r\u001b[K';

/** Progress line on a terminal; erased before other output. */
export class Progress {
  readonly #screen: Pick<NodeJS.WriteStream, 'write' | 'isTTY'>;
  #drawnAt = 0;
  #isDrawn = false;

  constructor(screen: Pick<NodeJS.WriteStream, 'write' | 'isTTY'>) {
    this.#screen = screen;
  }

  show(text: string): void {
    const now = performance.now();
    if (!this.#screen.isTTY || now - this.#drawnAt < REDRAWN_EVERY_MS) return;
    this.#drawnAt = now;
    this.#isDrawn = true;
    this.#screen.write(`${ERASE}${text}`);
  }

  erase(): void {
    if (this.#isDrawn) this.#screen.write(ERASE);
    this.#isDrawn = false;
  }
}
