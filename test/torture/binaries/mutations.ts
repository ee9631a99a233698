import { unsignedLeb } from '../../../src/runtime/wasm/wasm-binary.ts';
import type { Random } from '../random.ts';
import { type Framed, framed, PREAMBLE_BYTES, sectionsOf } from './framing.ts';
import { hostileName, namesIn } from './hostile-names.ts';

/** Changes a valid binary; `other` is another one of its kind. */
export type Mutation = (random: Random, bytes: Buffer, other: Buffer) => Buffer;

const CORE_MODULE = 1;
const COMPONENT = 4;

const place = (random: Random, bytes: Uint8Array) => PREAMBLE_BYTES + random.below(Math.max(1, bytes.length - 8));

/** Mutations that leave the frame of the sections as it should be, so that what is inside of them is looked at. */
const inside: Readonly<Record<string, Mutation>> = {
  'bits flipped': (random, bytes) => {
    const changed = Buffer.from(bytes);
    for (let left = 1 + random.below(8); left > 0; left--) {
      const at = place(random, bytes);
      changed[at] = (changed[at] ?? 0) ^ (1 << random.below(8));
    }
    return changed;
  },
  'bytes exchanged': (random, bytes) => {
    const changed = Buffer.from(bytes);
    for (let left = 1 + random.below(4); left > 0; left--) changed[place(random, bytes)] = random.below(256);
    return changed;
  },
  'a hostile name': (random, bytes) => {
    const names = namesIn(bytes);
    if (names.length === 0) return bytes;
    const changed = Buffer.from(bytes);
    const { at, length } = random.pick(names);
    hostileName(random, length).copy(changed, at);
    return changed;
  },
  'sections exchanged': (random, bytes) => {
    const sections = sectionsOf(bytes);
    const [a, b] = [random.below(sections.length), random.below(sections.length)];
    return framed(bytes, sections.with(a, sections[b] as Framed).with(b, sections[a] as Framed));
  },
  'a section twice, or not at all': (random, bytes) => {
    const sections = sectionsOf(bytes);
    const at = random.below(sections.length);
    return framed(
      bytes,
      sections.toSpliced(at, random.below(2), ...(random.chance(2) ? [sections[at] as Framed] : [])),
    );
  },
  'a section of another one': (random, bytes, other) => {
    const sections = sectionsOf(bytes);
    return framed(
      bytes,
      sections.toSpliced(random.below(sections.length), random.below(2), random.pick(sectionsOf(other))),
    );
  },
  'bytes put in or taken out of a section': (random, bytes) => {
    const sections = sectionsOf(bytes);
    const at = random.below(sections.length);
    const { id, body } = sections[at] as Framed;
    const cut = random.below(body.length + 1);
    const more = Buffer.from(Array.from({ length: random.below(6) }, () => random.below(256)));
    const changed = Buffer.concat([body.subarray(0, cut), more, body.subarray(cut + random.below(6))]);
    return framed(bytes, sections.with(at, { id, body: changed }));
  },
  'numbers that lie or do not end': (random, bytes) => {
    const changed = Buffer.from(bytes);
    const lie = random.pick([
      [0xff, 0xff, 0xff, 0xff, 0x0f],
      [0x80, 0x80, 0x80, 0x80, 0x00],
      [0x80, 0x00],
      [0xff, 0x7f],
    ]);
    const long = random.pick([lie, Array(random.below(12)).fill(0x80), Array(5).fill(0xff)]);
    Buffer.from(long).copy(changed, place(random, bytes));
    return changed;
  },
};

/** Mutations of the frame itself. */
const outside: Readonly<Record<string, Mutation>> = {
  'cut off': (random, bytes) => bytes.subarray(0, random.below(bytes.length)),
  'lengths written in other ways': (random, bytes) => {
    const odd = random.below(sectionsOf(bytes).length);
    let section = 0;
    return framed(bytes, sectionsOf(bytes), (length) => {
      const plain = unsignedLeb(length);
      if (section++ !== odd) return plain;
      const padding = Array(random.below(9)).fill(0x80) as number[];
      return [...plain.slice(0, -1), (plain.at(-1) ?? 0) | 0x80, ...padding, 0];
    });
  },
  'a length that lies': (random, bytes) => {
    const odd = random.below(sectionsOf(bytes).length);
    let section = 0;
    return framed(bytes, sectionsOf(bytes), (length) =>
      unsignedLeb(section++ === odd ? random.pick([length + 1, Math.max(0, length - 1), 0, 2 ** 31, 2 ** 32]) : length),
    );
  },
  'two halves': (random, bytes, other) =>
    Buffer.concat([bytes.subarray(0, place(random, bytes)), other.subarray(place(random, other))]),
  'another kind': (random, bytes) => {
    const changed = Buffer.from(bytes);
    changed[4 + random.below(4)] = random.pick([0, 1, 0x0d, 0xff]);
    return changed;
  },
};

const names = Object.keys({ ...inside, ...outside });
const all: Readonly<Record<string, Mutation>> = { ...inside, ...outside };

/** One mutation; in a component also of a module or a component inside of it, with its own frame left as it should be. */
export function mutated(
  random: Random,
  bytes: Buffer,
  other: Buffer,
): { readonly how: string; readonly bytes: Buffer } {
  const sections = random.chance(2) ? sectionsOf(bytes) : [];
  const held = [...sections.entries()].filter(
    ([, { id, body }]) => isBinary(body) && (id === CORE_MODULE || id === COMPONENT),
  );
  if (held.length > 0) {
    const [at, { id, body }] = random.pick(held);
    const inner = mutated(random, body, body);
    return { how: `${inner.how}, inside`, bytes: framed(bytes, sections.with(at, { id, body: inner.bytes })) };
  }
  // What keeps the frame gets further, so it comes more often.
  const how = random.chance(4) ? random.pick(names) : random.pick(Object.keys(inside));
  return { how, bytes: (all[how] as Mutation)(random, bytes, other) };
}

const isBinary = (body: Buffer) => body.length > PREAMBLE_BYTES && body.readUInt32BE(0) === 0x0061736d;
