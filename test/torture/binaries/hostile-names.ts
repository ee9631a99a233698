import type { Random } from '../random.ts';

/** What becomes code, or another line, or another name, where a name is written down without care. */
const fragments = [
  ...["'", '"', '`', '\n', '\r', '\0', '*/', '//', '${', '\\', '\u2028', '\u202e', '(', '{', ';', '=', '<', ','],
  ...[
    "'+SPEAR()+'",
    "');SPEAR();('",
    '$' + '{SPEAR()}',
    '*/SPEAR()/*',
    '\nSPEAR()\n',
    '__proto__',
    'then',
    'ａ',
    '😀',
    '\x9b',
  ],
];

/** A name of so many bytes, with something in it that no name may have. */
export function hostileName(random: Random, length: number): Buffer {
  const fitting = fragments.filter((fragment) => Buffer.byteLength(fragment) <= length);
  const fragment = Buffer.from(random.pick(fitting));
  // Some are only hostile when they are the whole name; those are refused by their length otherwise, if at all.
  const before = random.below(length - fragment.length + 1);
  return Buffer.concat([Buffer.alloc(before, 'a'), fragment, Buffer.alloc(length - before - fragment.length, 'a')]);
}

const MAX_NAME = 100;
const isNameByte = (byte: number) => byte > 0x20 && byte < 0x7f;

/** Where something lies that looks like a name: a length, and as many letters. */
export function namesIn(bytes: Uint8Array): { readonly at: number; readonly length: number }[] {
  const found: { at: number; length: number }[] = [];
  for (let at = 8; at < bytes.length; at++) {
    const length = bytes[at] ?? 0;
    if (length < 1 || length > MAX_NAME || at + length >= bytes.length) continue;
    let end = at + 1;
    while (end <= at + length && isNameByte(bytes[end] ?? 0)) end++;
    if (end === at + length + 1) found.push({ at: at + 1, length });
  }
  return found;
}
