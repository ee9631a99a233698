import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { SHORT_TEXT_BYTES, ShortTexts } from '../../../src/runtime/abi/memory.ts';

describe('short texts', () => {
  it('are decoded once while they stay the same', () => {
    const bytes = Buffer.from('user');
    let decoded = 0;
    const decode = () => {
      decoded++;
      return bytes.toString();
    };
    const texts = new ShortTexts();
    for (let time = 0; time < 3; time++) expect(texts.read(bytes, 0, 4, decode)).toBe('user');
    expect(decoded).toBe(1);
    bytes.write('tool');
    expect(texts.read(bytes, 0, 4, decode)).toBe('tool');
    bytes.write('user');
    expect(texts.read(bytes, 0, 4, decode)).toBe('user');
  });

  it('are what their bytes say, whatever was read before', () => {
    const texts = new ShortTexts();
    const short = fc.oneof(
      fc.uint8Array({ maxLength: SHORT_TEXT_BYTES }),
      fc.constantFrom('user', 'üser', 'usér', '€', 'a\u0000b', '').map((text) => Buffer.from(text)),
    );
    fc.assert(
      fc.property(short, fc.nat(8), (content, offset) => {
        const bytes = Buffer.concat([Buffer.alloc(offset, 0x41), content, Buffer.from('behind')]);
        const decode = (ptr: number, length: number) => bytes.toString('utf8', ptr, ptr + length);
        const expected = Buffer.from(content).toString('utf8');
        expect(texts.read(bytes, offset, content.length, decode)).toBe(expected);
        expect(texts.read(bytes, offset, content.length, decode)).toBe(expected);
      }),
      { numRuns: 2_000 },
    );
  });
});
