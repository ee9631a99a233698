import { hash } from 'node:crypto';

/*
 * Lines that are sealed together are a block. The last line of a block ends with the block's hash, over the hash of the
 * block before and all of the block's own bytes up to it: a line that was changed, taken out or put in is found.
 */

export const NO_BLOCK = '0'.repeat(64);

const seal = /,"#":"([0-9a-f]{64})"\}$/;
const SEAL_CHARS = ',"#":""}'.length + 64;

/** Lines of JSON objects as a block, or as its end: `written` is what of it was written before. `hash` is for the next one. */
export function sealBlock(
  lines: readonly string[],
  previous: string,
  written = '',
): { readonly text: string; readonly hash: string } {
  const open = lines.join('\n').slice(0, -1);
  const sealed = hash('sha256', previous + written + open);
  return { text: `${open},"#":"${sealed}"}\n`, hash: sealed };
}

/** The hash that a line says its block has; null: the block goes on. */
export const sealOf = (line: string): string | null => seal.exec(line)?.[1] ?? null;

/** Whether the lines, the last of them sealed, are the block that was written after `previous`. */
export function isWhole(lines: readonly string[], previous: string): boolean {
  return hash('sha256', previous + lines.join('\n').slice(0, -SEAL_CHARS)) === sealOf(lines.at(-1) ?? '');
}
