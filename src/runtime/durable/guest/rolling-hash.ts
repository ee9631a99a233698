import type { GuestMemory } from '../../abi/memory.ts';

// Rolling hash of what a guest does, with the mixing step of MurmurHash3: two runs that differed once stay different. Not
// secure against forgery; the hash chain of the file is for that.

/** Hashed prefix of a text argument: enough to distinguish texts, cheap enough for every call. */
export const LOOKED_AT_BYTES = 64;
/** Longer texts are hashed by node:crypto, which is faster than a loop over their characters. */
const LONG_TEXT = 1024;
const PRIME = 0x01000193;
const PAIR_BYTES = 8;
/** The end of a text that starts here still fits 31 bits. */
const MAX_NEAR = 2 ** 31 - 1 - LOOKED_AT_BYTES;

export function mix(hash: number, value: number): number {
  const a = Math.imul(value, 0xcc9e2d51);
  const b = hash ^ Math.imul((a << 15) | (a >>> 17), 0x1b873593);
  return (Math.imul((b << 13) | (b >>> 19), 5) + 0xe6546b64) | 0;
}

/** Mixes the length and the prefix of a text in guest memory. Precondition: the memory holds the range. */
export function mixStart(hash: number, memory: GuestMemory, ptr: number, length: number): number {
  const count = Math.min(length, LOOKED_AT_BYTES);
  // perf: offsets stay 32-bit integers at every step; as doubles they would double the cost.
  const isFar = ptr > MAX_NEAR;
  const words = isFar ? new DataView(memory.words.buffer, ptr, count) : memory.words;
  let at = isFar ? 0 : ptr | 0;
  const end = (at + count) | 0;
  const lastPair = (end - PAIR_BYTES) | 0;
  // perf: two independent sums, each by a step that loses no state; the full step mixes them in.
  let even = length | 0;
  let odd = ~length;
  for (; at <= lastPair; at = (at + PAIR_BYTES) | 0) {
    even = Math.imul(even ^ words.getInt32(at, true), PRIME);
    odd = Math.imul(odd ^ words.getInt32((at + 4) | 0, true), PRIME);
  }
  for (; at < end; at = (at + 1) | 0) even = Math.imul(even ^ words.getUint8(at), PRIME);
  return mix(mix(hash, even), odd);
}

/** As {@link mixStart}, for a text outside guest memory. */
export function mixStartOfText(hash: number, text: string): number {
  return mixCharacters(mix(hash, text.length), text, Math.min(text.length, LOOKED_AT_BYTES));
}

/** Mixes a whole message value. */
export function mixValue(hash: number, value: unknown): number {
  switch (typeof value) {
    case 'number':
      return mixNumber(hash, value);
    case 'string':
      return mixText(hash, value);
    case 'boolean':
      return mix(hash, value ? 2 : 1);
    case 'object':
      break;
    default:
      return mix(hash, 3);
  }
  if (value === null) return mix(hash, 4);
  if (ArrayBuffer.isView(value)) return mixBytes(hash, value);
  if (Array.isArray(value))
    return value.reduce((mixed: number, item) => mixValue(mixed, item), mix(hash, value.length));
  return Object.entries(value).reduce((mixed, [key, item]) => mixValue(mixText(mixed, key), item), hash);
}

function mixNumber(hash: number, value: number): number {
  if (Number.isInteger(value)) return mix(mix(hash, value | 0), Math.floor(value / 2 ** 32));
  return mixText(hash, String(value));
}

function mixText(hash: number, text: string): number {
  const mixed = mix(hash, text.length);
  return text.length <= LONG_TEXT ? mixCharacters(mixed, text, text.length) : mixDigest(mixed, text);
}

function mixBytes(hash: number, { buffer, byteOffset, byteLength }: ArrayBufferView): number {
  return mixDigest(mix(hash, byteLength), Buffer.from(buffer as ArrayBuffer, byteOffset, byteLength));
}

function mixCharacters(hash: number, text: string, count: number): number {
  let mixed = hash;
  let at = 0;
  for (; at + 2 <= count; at += 2) mixed = mix(mixed, text.charCodeAt(at) | (text.charCodeAt(at + 1) << 16));
  return at < count ? mix(mixed, text.charCodeAt(at)) : mixed;
}

function mixDigest(hash: number, content: string | Buffer): number {
  const digest = process.getBuiltinModule('node:crypto').hash('sha256', content, 'buffer');
  return mix(mix(hash, digest.readInt32LE(0)), digest.readInt32LE(4));
}
