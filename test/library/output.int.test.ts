import { closeSync, openSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { PassThrough, Readable, Writable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { setTimeout } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { runGuest } from '../../src/index.ts';
import { until } from '../support/until.ts';
import { collector, fixture, folder } from './fixtures.ts';

const MIB = 1024 * 1024;

describe('output to a function', () => {
  it('gets both streams, in the order of writing [library.output]', async () => {
    const said: [string, string][] = [];
    const output = (stream: string, bytes: Uint8Array) => void said.push([stream, Buffer.from(bytes).toString()]);
    await runGuest({ wasm: fixture('c/test/loud.wasm'), args: ['loud', '3', '4'], output });
    const lines = [0, 1, 2].map((n) => ['stderr', `error: line ${n} of a guest that logs in a loop\n`]);
    expect(said.slice(0, 3)).toEqual(lines);
    const rest = said.slice(3);
    expect(new Set(rest.map(([stream]) => stream))).toEqual(new Set(['stdout']));
    expect(rest.map(([, written]) => written).join('')).toBe('logged 3, refused 0\n');
  });

  it('is a copy: the guest’s memory is not seen through it [library.output]', async () => {
    const chunks: Uint8Array[] = [];
    const output = { stdout: (bytes: Uint8Array) => void chunks.push(bytes) };
    await runGuest({ wasm: fixture('c/hello.wasm'), output });
    for (const { buffer, byteLength } of chunks) expect(buffer.byteLength).toBe(byteLength);
  });

  it('that throws ends the run, and the error is thrown [library.output]', async () => {
    const output = () => {
      throw new Error('no more of it');
    };
    await expect(runGuest({ wasm: fixture('c/test/spin.wasm'), output })).rejects.toThrow('no more of it');
  });

  it('loses nothing of a guest that is ended [library.output]', async () => {
    const interrupt = new AbortController();
    const said = collector();
    const output = (stream: 'stdout' | 'stderr', bytes: Uint8Array) => {
      said.output(stream, bytes);
      interrupt.abort();
    };
    const run = await runGuest({ wasm: fixture('c/test/spin.wasm'), output, signal: interrupt.signal });
    expect([run.reason, said.text()]).toEqual(['interrupted', 'before the loop\n']);
  });

  it('comes from a guest whose hostcalls are counted, also when it is ended in the middle of them', async () => {
    const interrupt = new AbortController();
    const loud = { wasm: fixture('c/test/loud.wasm'), args: ['loud', '100000000', '4'] };
    const run = await runGuest({ ...loud, output: () => interrupt.abort(), signal: interrupt.signal });
    expect([run.reason, (run.hostcalls.log ?? 0) > 0]).toEqual(['interrupted', true]);
  });
});

describe('output to a stream', () => {
  it('each its own way: a Writable, a descriptor [library.output]', async () => {
    const file = join(folder(), 'stderr');
    const stderr = openSync(file, 'w');
    const stdout = new PassThrough();
    await runGuest({ wasm: fixture('c/test/loud.wasm'), args: ['loud', '1', '4'], output: { stdout, stderr } });
    closeSync(stderr);
    stdout.end();
    expect(await text(stdout)).toBe('logged 1, refused 0\n');
    expect(readFileSync(file, 'utf8')).toBe('error: line 0 of a guest that logs in a loop\n');
  });

  it('waits for a slow one, and loses nothing [library.output]', async () => {
    const sent = Buffer.alloc(4 * MIB, 'a line of text\n');
    const got: Buffer[] = [];
    const slow = new Writable({
      highWaterMark: 1,
      write: (chunk: Buffer, _encoding, taken) => {
        got.push(chunk);
        setImmediate(taken);
      },
    });
    const stdin = () => Readable.from([sent]);
    const run = await runGuest({ wasm: fixture('c/test/echo-stdin.wasm'), stdin, output: { stdout: slow } });
    slow.end();
    await new Promise((resolve) => slow.once('finish', resolve));
    expect(run.exitCode).toBe(0);
    expect(Buffer.concat(got).equals(sent)).toBe(true);
  });

  it('keeps no more than it has room for: a reader that stops holds the guest up [library.output]', async () => {
    let bytes = 0;
    const stuck = new Writable({ highWaterMark: 1, write: () => {} });
    const write = stuck.write.bind(stuck) as (chunk: Uint8Array) => boolean;
    stuck.write = ((chunk: Uint8Array) => {
      bytes += chunk.byteLength;
      return write(chunk);
    }) as Writable['write'];
    const stdin = () => Readable.from([Buffer.alloc(8 * MIB, 'x')]);
    const stop = new AbortController();
    const { signal } = stop;
    const wasm = fixture('c/test/echo-stdin.wasm');
    const running = runGuest({ wasm, stdin, output: { stdout: stuck }, signal });
    await until(() => bytes > 0, 'what the guest writes first');
    await setTimeout(1_000); // in which a guest that nothing holds up writes all of it
    stop.abort();
    expect((await running).reason).toBe('interrupted');
    expect(bytes).toBeLessThanOrEqual(MIB);
  });

  it('that is closed takes nothing, and the guest goes on [library.output]', async () => {
    const stdout = new PassThrough();
    stdout.destroy();
    expect(await runGuest({ wasm: fixture('c/hello.wasm'), output: { stdout } })).toMatchObject({ exitCode: 0 });
  });
});
