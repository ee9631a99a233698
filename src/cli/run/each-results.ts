import { closeSync, existsSync, openSync, readFileSync, writeSync } from 'node:fs';
import { errorCode } from '../../base/error-text.ts';
import { isJsonObject, parseJson } from '../../base/json.ts';
import { UsageError } from '../usage-error.ts';

const PRIVATE = 0o600;

/** Result of one input; one line of the file. */
export interface EachResult {
  readonly index: number;
  /** Of the input. */
  readonly sha256: string;
  /** The guest's own; null: it has none. */
  readonly exit: number | null;
  readonly reason: string;
  readonly output?: string;
  /** Instead of `output` where that is no text. */
  readonly output_base64?: string;
  readonly tokens?: number;
  /** Where runs are traced. */
  readonly trace_id?: string;
  /** Of a guest that failed: what went wrong, and the end of its log. */
  readonly message?: string;
  readonly log?: string;
}

/** Result file: a line is written as soon as its guest has ended. */
export class EachResults {
  readonly #fd: number;
  readonly #done = new Set<string>();

  /** @throws UsageError */
  constructor(file: string, appends: boolean) {
    const before = existsSync(file) ? readFileSync(file, 'utf8') : '';
    if (before !== '' && !appends) {
      throw new UsageError(`--results ${file}: already exists; add --skip-done to continue it, or name another file`);
    }
    for (const line of before.split('\n')) this.#note(line);
    try {
      this.#fd = openSync(file, 'a', PRIVATE);
    } catch (error) {
      throw new UsageError(`--results ${file}: cannot be written (${errorCode(error)})`);
    }
    // Terminate the incomplete line of a killed process.
    if (before !== '' && !before.endsWith('\n')) writeSync(this.#fd, '\n');
  }

  /** Whether there is a good result of this input. */
  has(index: number, sha256: string): boolean {
    return this.#done.has(`${index} ${sha256}`);
  }

  add(result: EachResult): void {
    writeSync(this.#fd, `${JSON.stringify(result)}\n`);
  }

  close(): void {
    closeSync(this.#fd);
  }

  #note(line: string): void {
    const value = parseJson(line);
    if (isJsonObject(value ?? null)) {
      const { index, sha256, exit } = value as Partial<EachResult>;
      if (exit === 0) this.#done.add(`${index} ${sha256}`);
    }
  }
}
