import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { EventLines } from '../../../../src/runtime/guest/descriptors/chat-entries.ts';

const bytes = (text: string) => new TextEncoder().encode(text);
const textOf = (taken: Uint8Array) => Buffer.from(taken).toString();

describe('lines that wait to be read', () => {
  it('are given whole, as many as fit', () => {
    const lines = new EventLines();
    lines.push(bytes('a\nbb\n'));
    lines.push(bytes('ccc\n'));
    expect(textOf(lines.take(6))).toBe('a\nbb\n');
    expect(lines.byteLength).toBe(4);
    expect(textOf(lines.take(4))).toBe('ccc\n');
    expect(textOf(lines.take(4))).toBe('');
  });

  it('stay where not even the first fits, and that one is shown', () => {
    const lines = new EventLines();
    lines.push(bytes('long\nx\n'));
    for (const capacity of [4, 0]) {
      expect(textOf(lines.take(capacity))).toBe('long\n');
      expect(lines.byteLength).toBe(7);
    }
    lines.clear();
    expect(lines.byteLength).toBe(0);
    expect(lines.take(9).byteLength).toBe(0);
  });

  it('come out as they went in, whatever the portions and the buffers', () => {
    const portion = fc.array(fc.stringMatching(/^[a-zäé😀]{0,12}$/u), { minLength: 1, maxLength: 5 });
    fc.assert(
      fc.property(fc.array(portion, { maxLength: 8 }), fc.integer({ min: 60, max: 200 }), (portions, capacity) => {
        const lines = new EventLines();
        const all = portions.map((texts) => texts.map((text) => `${text}\n`).join('')).join('');
        for (const texts of portions) lines.push(bytes(texts.map((text) => `${text}\n`).join('')));
        let read = '';
        for (let some = lines.take(capacity); some.byteLength > 0; some = lines.take(capacity)) {
          expect(some.byteLength).toBeLessThanOrEqual(capacity);
          read += textOf(some);
        }
        expect(read).toBe(all);
      }),
    );
  });
});
