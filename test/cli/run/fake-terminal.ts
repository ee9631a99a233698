import type { PromptTerminal } from '../../../src/cli/run/prompt-terminal.ts';
import { until } from '../../support/until.ts';

/** A fake terminal: what was written to it, and a keyboard in the test's hands. */
export class FakeTerminal implements PromptTerminal {
  readonly columns = 80;
  screen = '';
  opened = 0;
  closed = 0;
  interrupts = 0;
  raw = false;
  #keys: ((keys: string) => void) | null = null;
  #lost: (() => void) | null = null;

  readonly ports = {
    open: () => {
      this.opened += 1;
      return this;
    },
    interrupt: () => {
      this.interrupts += 1;
    },
  };

  write(text: string): void {
    this.screen += text;
  }

  takeKeys(onKeys: (keys: string) => void, onLost: () => void): () => void {
    this.raw = true;
    this.#keys = onKeys;
    this.#lost = onLost;
    return () => {
      this.raw = false;
      this.#keys = null;
    };
  }

  close(): void {
    this.closed += 1;
  }

  press(keys: string): void {
    this.#keys?.(keys);
  }

  hangUp(): void {
    this.#lost?.();
  }

  /** Resolves when the question was asked so often. */
  async asks(times = 1, question = 'allow it?'): Promise<void> {
    await until(() => this.screen.split(question).length > times, 'the question');
  }
}
