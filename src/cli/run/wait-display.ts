import type { Wait, Waiting } from '../../base/listeners.ts';
import { visible } from '../../base/text.ts';

/** Longer waits are printed. */
export const SHOWN_AFTER_MS = 2_000;
const REDRAWN_EVERY_MS = 1_000;

export interface WaitDisplayPorts {
  /** Prints one line. */
  readonly say: (text: string) => void;
  /** Replaces the current line; empty text erases it. Null: no terminal. */
  readonly draw: ((text: string) => void) | null;
}

interface RunningWait {
  readonly wait: Wait;
  readonly startedAt: number;
  isLong: boolean;
}

/**
 * Prints long waits of a run. On a terminal one line is updated and erased when the wait ends; elsewhere each wait is one
 * line, and concurrent waits for the same thing share it.
 */
export class WaitDisplay {
  readonly #ports: WaitDisplayPorts;
  readonly #waits = new Set<RunningWait>();
  readonly #said = new Set<string>();
  /** One timer for all waits: each tool call is a wait, and most end before they are shown. */
  #look: NodeJS.Timeout | null = null;
  #redraw: NodeJS.Timeout | undefined;
  #drawn = false;
  #holds = 0;

  constructor(ports: WaitDisplayPorts) {
    this.#ports = ports;
  }

  readonly waiting: Waiting = (wait) => {
    const running: RunningWait = { wait, startedAt: performance.now(), isLong: false };
    this.#waits.add(running);
    if (this.#look === null) this.#lookIn(SHOWN_AFTER_MS);
    return () => this.#end(running);
  };

  /** Hides waits while a prompt is open; call the result to show them again. */
  hold(): () => void {
    this.#holds += 1;
    this.erase();
    return () => {
      this.#holds -= 1;
      this.#show();
    };
  }

  /** Call before other output; the line is redrawn later. */
  erase(): void {
    if (this.#drawn) this.#ports.draw?.('');
    this.#drawn = false;
  }

  #end(running: RunningWait): void {
    this.#waits.delete(running);
    if (this.#said.size > 0) this.#forget(running.wait.what);
    if (running.isLong) this.#show();
  }

  /** The same wait may be printed again when no other run part waits for it. */
  #forget(what: string): void {
    if (![...this.#waits].some(({ wait }) => wait.what === what)) this.#said.delete(what);
  }

  #lookIn(ms: number): void {
    this.#look = setTimeout(() => this.#lookForLong(), ms).unref();
  }

  #lookForLong(): void {
    this.#look = null;
    const since = performance.now() - SHOWN_AFTER_MS;
    let hasNews = false;
    let next = Number.POSITIVE_INFINITY;
    for (const running of this.#waits) {
      if (running.isLong) continue;
      if (running.startedAt > since) next = Math.min(next, running.startedAt - since);
      else {
        running.isLong = true;
        hasNews = true;
      }
    }
    if (next < Number.POSITIVE_INFINITY) this.#lookIn(next);
    if (hasNews) this.#show();
  }

  #show(): void {
    if (this.#holds > 0) return;
    const long = [...this.#waits].filter(({ isLong }) => isLong);
    if (this.#ports.draw === null) this.#sayEach(long);
    else this.#drawFirst(long, this.#ports.draw);
  }

  #drawFirst(waits: readonly RunningWait[], draw: (text: string) => void): void {
    clearInterval(this.#redraw);
    const [first] = waits;
    if (first === undefined) {
      this.erase();
      return;
    }
    const more = new Set(waits.map(({ wait }) => wait.what)).size - 1;
    draw(`${describe(first)}${more === 0 ? '' : `; and ${more} more`}`);
    this.#drawn = true;
    this.#redraw = setInterval(() => this.#show(), REDRAWN_EVERY_MS);
    this.#redraw.unref();
  }

  #sayEach(waits: readonly RunningWait[]): void {
    for (const running of waits) {
      const { what } = running.wait;
      if (this.#said.has(what)) continue;
      this.#said.add(what);
      this.#ports.say(describe(running));
    }
  }
}

function describe({ wait: { what, atMostMs }, startedAt }: RunningWait): string {
  const waited = performance.now() - startedAt;
  const left = atMostMs === null ? '' : `, at most ${seconds(Math.max(0, atMostMs - waited))} more`;
  return `waiting for ${visible(what)} (${seconds(waited)}${left})`;
}

const seconds = (ms: number) => `${Math.round(ms / 1_000)} s`;
