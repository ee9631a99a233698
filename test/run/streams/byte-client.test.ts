import { PassThrough } from 'node:stream';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { connectByteClient, FrameSplitter } from '../../../src/run/streams/byte-client.ts';
import type { StreamEnd } from '../../../src/run/streams/stream-client.ts';
import { frame, frameData } from '../../support/stream-client.ts';

afterEach(() => vi.restoreAllMocks());

describe('the bytes of a client', () => {
  it('are the same frames in whatever pieces they come', () => {
    const sent = [frame(1, 'one'), frame(2, ''), frame(3, 'x'.repeat(1_000))];
    const bytes = Buffer.concat(sent);
    for (const size of [1, 7, 31, 32, 33, 500, bytes.length]) {
      const splitter = new FrameSplitter();
      const found: (Uint8Array | string)[] = [];
      for (let at = 0; at < bytes.length; at += size) found.push(...splitter.split(bytes.subarray(at, at + size)));
      expect(found.map((one) => frameData(one as Uint8Array))).toEqual(['one', '', 'x'.repeat(1_000)]);
      expect(splitter.isInside).toBe(false);
    }
  });

  it('are joined once for a frame that comes byte by byte', () => {
    const bytes = frame(1, 'x'.repeat(5_000));
    const concat = vi.spyOn(Buffer, 'concat');
    const splitter = new FrameSplitter();
    const found = [...bytes].flatMap((byte) => [...splitter.split(Uint8Array.of(byte))]);
    expect(found).toEqual([bytes]);
    expect(concat.mock.calls.length).toBeLessThanOrEqual(2);
  });

  it('are discarded after a malformed frame, and the problem is reported once [user-stream.malformed]', async () => {
    const hub = {
      connect: () => ({ receive: () => {}, ended: () => {}, gone: () => {} }),
    } as unknown as StreamEnd;
    const input = new PassThrough();
    const problems: (string | null)[] = [];
    // Input is received until the output to the client is flushed, which a client that does not read delays.
    connectByteClient(hub, input, new PassThrough(), (problem) => problems.push(problem));
    const concat = vi.spyOn(Buffer, 'concat');
    for (let left = 100; left > 0; left--) input.write(Buffer.alloc(64, 'x'));
    input.end();
    await vi.waitFor(() => expect(input.readableEnded).toBe(true));
    expect(problems).toEqual(['a frame does not begin with "SPST"']);
    expect(concat).not.toHaveBeenCalled();
  });
});
