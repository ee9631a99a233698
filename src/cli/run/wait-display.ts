import type { Wait, Waiting } from '../../base/waiting.ts';
import { visible } from './visible-text.ts';

/** Whoever waits longer than this is told what for. */
export const TOLD_AFTER_MS = 2_000;
const REDRAWN_EVERY_MS = 1_000;

export interface WaitDisplayPorts {
  /** One whole line, for good. */
  readonly say: (text: string) => void;
  /** Puts this text into the line that the cursor is in; an empty one takes it away. Null: there is no terminal. */
  readonly draw: ((text: string) => void) | null;
}

interface RunningWait extends Wait {
  readonly startedAt: number;
  timer: NodeJS.Timeout;
  isLong: boolean;
}

/**
 * Says what a run waits for, once it waits for long. On a terminal that is one line which is kept up to date and goes
 * away with the wait; elsewhere it is a plain line, and waits for the same thing at the same time share it.
 */
export class WaitDisplay {
  readonly #ports: WaitDisplayPorts;
  readonly #waits = new Set<RunningWait>();
  readonly #said = new Set<string>();
  #redraw: NodeJS.Timeout | undefined;
  #drawn = false;
  #holds = 0;

  constructor(ports: WaitDisplayPorts) {
    this.#ports = ports;
  }

  readonly waiting: Waiting = (wait) => {
    const running: RunningWait = {
      ...wait,
      startedAt: performance.now(),
      isLong: false,
      timer: setTimeout(() => {
        running.isLong = true;
        this.#show();
      }, TOLD_AFTER_MS),
    };
    running.timer.unref();
    this.#waits.add(running);
    return () => this.#end(running);
  };

  /** Nothing is shown until what is returned here is called: the terminal is needed for a question. */
  hold(): () => void {
    this.#holds += 1;
    this.erase();
    return () => {
      this.#holds -= 1;
      this.#show();
    };
  }

  /** Before anything else is written to the terminal; the line comes back by itself. */
  erase(): void {
    if (this.#drawn) this.#ports.draw?.('');
    this.#drawn = false;
  }

  #end(wait: RunningWait): void {
    clearTimeout(wait.timer);
    this.#waits.delete(wait);
    if (![...this.#waits].some(({ what }) => what === wait.what)) this.#said.delete(wait.what);
    if (wait.isLong) this.#show();
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
    const more = new Set(waits.map(({ what }) => what)).size - 1;
    draw(`${describe(first)}${more === 0 ? '' : `; and for ${more} more`}`);
    this.#drawn = true;
    this.#redraw = setInterval(() => this.#show(), REDRAWN_EVERY_MS);
    this.#redraw.unref();
  }

  #sayEach(waits: readonly RunningWait[]): void {
    for (const wait of waits) {
      if (this.#said.has(wait.what)) continue;
      this.#said.add(wait.what);
      this.#ports.say(describe(wait));
    }
  }
}

function describe({ what, atMostMs, startedAt }: RunningWait): string {
  const waited = performance.now() - startedAt;
  const left = atMostMs === null ? '' : `, at most ${seconds(Math.max(0, atMostMs - waited))} more`;
  return `waiting for ${visible(what)} (${seconds(waited)}${left})`;
}

const seconds = (ms: number) => `${Math.round(ms / 1_000)} s`;
