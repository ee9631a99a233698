import { execFile } from 'node:child_process';
import { closeSync, existsSync, fstatSync, openSync, readSync } from 'node:fs';
import { promisify } from 'node:util';
import { isJsonObject, parseJson } from '../../../src/base/json.ts';
import { verifyTrail } from '../../../src/server/audit/verify.ts';
import { builtCommand } from '../../support/built-command.ts';
import type { Failures } from '../topic.ts';

/** Follows the trail of a registry from kill to kill. */
export class TrailCheck {
  readonly #file: string;
  readonly #failures: Failures;
  #readBytes = 0;

  constructor(directory: string, failures: Failures) {
    this.#file = `${directory}/audit.jsonl`;
    this.#failures = failures;
  }

  /**
   * After a kill. A last line may be torn, and those of the last moments missing, but never one before them: of the
   * acknowledged revisions all up to the last one that the trail has are in it.
   */
  afterKill(acknowledged: readonly number[], when: string): void {
    if (!existsSync(this.#file)) return;
    const { problem, lines } = verifyTrail([this.#file]);
    if (problem !== null && !(problem.kind === 'cut' && problem.line >= lines)) {
      this.#failures.add(`${when}: line ${problem.line} of the trail: ${problem.kind}, ${problem.detail}`);
    }
    const told = this.#newRevisions();
    const last = told.reduce((highest, revision) => Math.max(highest, revision), 0);
    const known = new Set(told);
    for (const revision of acknowledged) {
      if (revision <= last && !known.has(revision)) {
        this.#failures.add(`${when}: the trail goes up to revision ${last} and leaves out ${revision}`);
      }
    }
  }

  /** What an operator would run. */
  async byCommand(): Promise<void> {
    try {
      await promisify(execFile)(process.execPath, [builtCommand('spear'), 'audit', 'verify', this.#file]);
    } catch (error) {
      this.#failures.add(`spear audit verify: ${(error as { stdout?: string }).stdout ?? error}`);
    }
  }

  /** Of the lines since the last time. */
  #newRevisions(): number[] {
    const file = openSync(this.#file, 'r');
    try {
      const bytes = Buffer.alloc(fstatSync(file).size - this.#readBytes);
      readSync(file, bytes, 0, bytes.length, this.#readBytes);
      const end = bytes.lastIndexOf('\n') + 1;
      this.#readBytes += end;
      return bytes.subarray(0, end).toString().split('\n').flatMap(revisionOf);
    } finally {
      closeSync(file);
    }
  }
}

function revisionOf(line: string): number[] {
  const fields = parseJson(line);
  if (!isJsonObject(fields) || fields.event !== 'sms.record_changed') return [];
  return typeof fields.revision === 'number' ? [fields.revision] : [];
}
