import { PassThrough, Readable } from 'node:stream';
import { describe, expect, it } from 'vitest';
import { StdinReader } from '../../../src/runtime/host/guest-stdio.ts';

const text = (bytes: Uint8Array) => Buffer.from(bytes).toString();

describe('reading stdin', () => {
  it('gives no more than was asked for, and keeps the rest', async () => {
    const stream = new PassThrough();
    const reader = new StdinReader(() => stream);
    stream.end('hello world');
    expect(text(await reader.read(5))).toBe('hello');
    expect(text(await reader.read(100))).toBe(' world');
    expect(await reader.read(100)).toHaveLength(0);
    expect(await reader.read(100)).toHaveLength(0);
  });

  it('waits for input', async () => {
    const stream = new PassThrough();
    const reader = new StdinReader(() => stream);
    const reading = reader.read(10);
    stream.write('late');
    expect(text(await reading)).toBe('late');
    reader.close();
  });

  it('opens the stream at the first read and not before', async () => {
    let opened = 0;
    const reader = new StdinReader(() => {
      opened++;
      return Readable.from([Buffer.from('x')]);
    });
    expect(opened).toBe(0);
    await reader.read(1);
    await reader.read(1);
    expect(opened).toBe(1);
  });

  it('is empty without a stream', async () => {
    expect(await new StdinReader(() => null).read(10)).toHaveLength(0);
  });

  it('gives bytes in a buffer of their own: what lies beside them in the host’s memory stays there', async () => {
    const secret = Buffer.from('a key that shares the pool of small buffers');
    const stream = new PassThrough();
    const reader = new StdinReader(() => stream);
    stream.end(Buffer.from('input'));
    const chunk = await reader.read(3);
    expect(secret.buffer.byteLength).toBeGreaterThan(secret.byteLength);
    expect(chunk.buffer.byteLength).toBe(3);
    expect(text(structuredClone(chunk))).toBe('inp');
  });
});

describe('the end of stdin', () => {
  it('ends a read that waits, when it is closed', async () => {
    const stream = new PassThrough();
    const reader = new StdinReader(() => stream);
    const reading = reader.read(10);
    reader.close();
    expect(await reading).toHaveLength(0);
    expect(stream.destroyed).toBe(true);
    expect(await reader.read(10)).toHaveLength(0);
  });

  it('by an error is an end too, during a read and between two', async () => {
    const during = new PassThrough();
    const reader = new StdinReader(() => during);
    const reading = reader.read(10);
    during.destroy(new Error('EIO'));
    expect(await reading).toHaveLength(0);

    const between = new PassThrough();
    const other = new StdinReader(() => between);
    between.write('x');
    expect(text(await other.read(10))).toBe('x');
    const failed = new Promise((resolve) => between.once('close', resolve));
    between.destroy(new Error('EIO'));
    await failed;
    expect(await other.read(10)).toHaveLength(0);
  });

  it('leaves no listener behind after each read', async () => {
    const stream = new PassThrough();
    const reader = new StdinReader(() => stream);
    const counts = () => ['readable', 'end', 'error', 'close'].map((event) => stream.listenerCount(event));
    stream.write('x');
    await reader.read(1);
    const after = counts();
    for (let count = 0; count < 20; count++) {
      stream.write('x');
      await reader.read(1);
    }
    expect(counts()).toEqual(after);
    reader.close();
  });
});
