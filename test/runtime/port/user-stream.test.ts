import { describe, expect, it } from 'vitest';
import { FrameSplitter } from '../../../src/run/streams/byte-client.ts';
import { readWholeFrame } from '../../../src/runtime/port/user-stream.ts';
import { frame } from '../../support/stream-client.ts';

const patched = (change: (bytes: Buffer) => void, data = 'hello') => {
  const bytes = Buffer.from(frame(3, data));
  change(bytes);
  return bytes;
};

describe('a frame of a user stream', () => {
  it('is taken with its stream and its length [user-stream.frame]', () => {
    expect(readWholeFrame(frame(3, 'hello', 9, '{"a":1}'))).toEqual({ streamId: 3, length: 44 });
    expect(readWholeFrame(frame(0xffff_ffff, ''))).toEqual({ streamId: 0xffff_ffff, length: 32 });
    const longer = Buffer.concat([frame(3, ''), Buffer.alloc(8)]);
    longer.writeUInt16LE(40, 6);
    expect(readWholeFrame(longer)).toEqual({ streamId: 3, length: 40 });
  });

  it.each([
    ['no frame', Buffer.from('hello'), 'a frame has 5 bytes, fewer than its header (32)'],
    ['another magic', patched((bytes) => bytes.write('SPSX')), 'a frame does not begin with "SPST"'],
    ['another version', patched((bytes) => bytes.writeUInt16LE(2, 4)), 'a frame has version 2, expected 1'],
    [
      'a short header',
      patched((bytes) => bytes.writeUInt16LE(31, 6)),
      'a frame’s header has 31 bytes, expected at least 32',
    ],
    [
      'too much data',
      patched((bytes) => bytes.writeUInt32LE(262_113, 28)),
      'a frame has 262145 bytes; the limit is 262144',
    ],
    [
      'lengths that overflow',
      patched((bytes) => bytes.fill(0xff, 24, 32)),
      'a frame has 8589934622 bytes; the limit is 262144',
    ],
    [
      'less data than said',
      patched((bytes) => bytes.writeUInt32LE(6, 28)),
      'a frame of 37 bytes declares a length of 38',
    ],
    [
      'more data than said',
      patched((bytes) => bytes.writeUInt32LE(4, 28)),
      'a frame of 37 bytes declares a length of 36',
    ],
  ])('with %s is refused by name [user-stream.malformed]', (_what, bytes, problem) => {
    expect(readWholeFrame(bytes)).toBe(problem.replace('’', "'"));
  });

  it('is found in bytes however they are cut [user-stream.frame]', () => {
    const frames = [frame(1, 'one'), frame(2, ''), frame(3, 'three'.repeat(50))];
    const bytes = Buffer.concat(frames);
    for (const step of [1, 7, 31, 32, 33, 64, bytes.byteLength]) {
      const splitter = new FrameSplitter();
      const found: (Uint8Array | string)[] = [];
      for (let at = 0; at < bytes.byteLength; at += step) found.push(...splitter.split(bytes.subarray(at, at + step)));
      expect(found).toEqual(frames);
      expect(splitter.isInside).toBe(false);
    }
  });

  it('that is none is said once, after the good ones [user-stream.malformed]', () => {
    const splitter = new FrameSplitter();
    const found = [...splitter.split(Buffer.concat([frame(1, 'good'), Buffer.alloc(64)]))];
    expect(found).toEqual([frame(1, 'good'), 'a frame does not begin with "SPST"']);
  });
});
