import { describe, expect, it } from 'vitest';
import { GuestMemory } from '../../../../src/runtime/abi/memory.ts';
import { LOOKED_AT_BYTES, mix, mixStart } from '../../../../src/runtime/durable/guest/rolling-hash.ts';

const PAGE = 65_536;

/** What journals have, said as simply as can be. */
function asWritten(hash: number, text: Uint8Array): number {
  const looked = text.subarray(0, LOOKED_AT_BYTES);
  const words = new DataView(looked.buffer, looked.byteOffset, looked.byteLength);
  const pairs = looked.byteLength >> 3;
  let [even, odd] = [text.byteLength, ~text.byteLength];
  for (let pair = 0; pair < pairs; pair++) {
    even = Math.imul(even ^ words.getInt32(pair * 8, true), 0x01000193);
    odd = Math.imul(odd ^ words.getInt32(pair * 8 + 4, true), 0x01000193);
  }
  for (const byte of looked.subarray(pairs * 8)) even = Math.imul(even ^ byte, 0x01000193);
  return mix(mix(hash, even), odd);
}

describe('the hash of a text that a call passes', () => {
  const memory = new WebAssembly.Memory({ initial: 2 ** 15 + 1 });
  const guest = new GuestMemory();
  guest.attach(memory);
  const filled = (ptr: number, length: number) =>
    new Uint8Array(memory.buffer, ptr, length).map((_, at) => (at * 37 + ptr) & 0xff);

  it.each([
    ['at the start', 0],
    ['at an odd place', 4_099],
    ['before 2 GiB', 2 ** 31 - 100],
    ['across 2 GiB', 2 ** 31 - 30],
    ['beyond 2 GiB', 2 ** 31 + 7],
    ['at the end', 2 ** 31 + PAGE - 200],
  ])('%s is what journals have', (_, ptr) => {
    new Uint8Array(memory.buffer, ptr, 200).set(filled(ptr, 200));
    for (const length of [0, 1, 4, 7, 8, 9, 63, 64, 65, 200]) {
      expect(mixStart(length, guest, ptr, length), `${length}`).toBe(asWritten(length, filled(ptr, length)));
    }
  });

  it('is that of earlier journals', () => {
    const text = new TextEncoder().encode('A message of sixty-four bytes, which is what people often send.!');
    new Uint8Array(memory.buffer, 101, 64).set(text);
    expect(mixStart(7, guest, 101, 64)).toBe(-1181531357);
    new Uint8Array(memory.buffer, 16, 7).set(text.subarray(2, 9));
    expect(mixStart(1, guest, 16, 7)).toBe(-129911826);
  });
});
