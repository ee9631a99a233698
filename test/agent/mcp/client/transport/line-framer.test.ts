import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { LineFramer } from '../../../../../src/agent/mcp/client/transport/line-framer.ts';

function frame(chunks: readonly (string | Buffer)[], maxBytes: number) {
  const lines: string[] = [];
  const oversized: { bytes: number; head: string; tail: string }[] = [];
  const framer = new LineFramer(maxBytes, {
    line: (bytes) => lines.push(bytes.toString()),
    oversized: ({ bytes, head, tail }) => oversized.push({ bytes, head: head.toString(), tail: tail.toString() }),
  });
  for (const chunk of chunks) framer.push(Buffer.from(chunk));
  return { lines, oversized, pending: framer.pendingBytes };
}

describe('lines', () => {
  it('come out whole however they are cut into chunks', () => {
    fc.assert(
      fc.property(
        fc.array(fc.string({ unit: 'grapheme', maxLength: 20 }).filter((text) => !text.includes('\n'))),
        fc.integer({ min: 1, max: 7 }),
        (lines, size) => {
          const bytes = Buffer.from(lines.map((line) => `${line}\n`).join(''));
          const chunks = Array.from({ length: Math.ceil(bytes.length / size) }, (_, i) =>
            bytes.subarray(i * size, (i + 1) * size),
          );
          expect(frame(chunks, 10_000)).toEqual({ lines, oversized: [], pending: 0 });
        },
      ),
    );
  });

  it('may have exactly the bound', () => {
    expect(frame(['12345\n', '123456\n', '1\n'], 5)).toEqual({
      lines: ['12345', '1'],
      oversized: [{ bytes: 6, head: '123456', tail: '123456' }],
      pending: 0,
    });
  });

  it('beyond it leave their ends and nothing in between', () => {
    const chunks = ['a'.repeat(70_000), ...Array.from({ length: 40 }, () => 'b'.repeat(70_000)), 'end', '\nnext\n'];
    const { lines, oversized } = frame(chunks, 100_000);
    expect(lines).toEqual(['next']);
    expect(oversized).toHaveLength(1);
    expect(oversized[0]?.bytes).toBe(41 * 70_000 + 3);
    expect(oversized[0]?.head).toBe('a'.repeat(65_536));
    expect(oversized[0]?.tail).toBe(`${'b'.repeat(253)}end`);
  });
});
