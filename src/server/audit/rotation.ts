import { closeSync, openSync, readdirSync, renameSync, rmSync, statSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { errorCode } from '../../base/errors.ts';

/** Longer than any rotation takes: whoever reserved a number and has not used it by then has died. */
const RESERVATION_MS = 10_000;

/** The rotated files of a trail, oldest first: FILE.1, FILE.2, … A number is never used twice while its file is there. */
export function rotatedFiles(path: string): string[] {
  return rotatedNumbers(path).map((number) => `${path}.${number}`);
}

function rotatedNumbers(path: string): number[] {
  const prefix = `${basename(path)}.`;
  return readdirSync(dirname(path))
    .filter((name) => name.startsWith(prefix) && /^[1-9]\d{0,14}$/.test(name.slice(prefix.length)))
    .map((name) => Number(name.slice(prefix.length)))
    .sort((a, b) => a - b);
}

/**
 * Moves the file with that inode aside and removes the oldest beyond `keep`. Several processes may try at the same time:
 * a new number is reserved by making its file, so no file is ever overwritten. False: somebody else is at it.
 */
export function rotate(path: string, inode: number, keep: number, nowMs: number): boolean {
  const numbers = rotatedNumbers(path);
  const newest = numbers.at(-1) ?? 0;
  if (newest > 0 && isReserved(`${path}.${newest}`, nowMs)) return false;
  const target = `${path}.${newest + 1}`;
  try {
    closeSync(openSync(target, 'wx', 0o600));
  } catch (error) {
    if (errorCode(error) === 'EEXIST') return false;
    throw error;
  }
  // With the number reserved nobody else moves the file, but somebody may have done so before.
  if (statSync(path, { throwIfNoEntry: false })?.ino !== inode) {
    rmSync(target, { force: true });
    return true;
  }
  renameSync(path, target);
  const tooMany = [...numbers, newest + 1].slice(0, -keep);
  for (const number of tooMany) rmSync(join(dirname(path), `${basename(path)}.${number}`), { force: true });
  return true;
}

/** Whether a process is about to move a file there. */
export function isReserved(path: string, nowMs: number): boolean {
  const found = statSync(path, { throwIfNoEntry: false });
  return found !== undefined && found.size === 0 && nowMs - found.mtimeMs < RESERVATION_MS;
}
