import { once } from 'node:events';
import { mkdtempSync, statSync, writeFileSync } from 'node:fs';
import type { IncomingMessage } from 'node:http';
import { connect } from 'node:net';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { WebSocket as Client } from 'ws';
import { FrameSplitter } from '../../src/run/streams/byte-client.ts';
import { eventually } from '../agent/mcp/client/pool-samples.ts';
import { frame, frameData } from '../support/stream-client.ts';
import { Cli, fixture, scratch, spearRun } from './spear-run.ts';

const echoes = [
  'c/echo.wasm',
  'c/echo.component.wasm',
  'assemblyscript/echo.wasm',
  'assemblyscript/echo.component.wasm',
  'javascript/echo.component.wasm',
  'rust/echo.wasm',
  'rust/echo.component.wasm',
];
const ADDRESS = /user streams at (\S+)\n/;

const socketPath = () => join(mkdtempSync(join(scratch, 'socket-')), 's');

/** Starts an echo guest, and waits until it can be reached. */
async function serve(stream: string, guest = 'c/echo.wasm'): Promise<{ cli: Cli; address: string }> {
  const cli = new Cli([fixture(guest), '--stream', stream]).listen();
  await cli.says('stderr', 'user streams at');
  await eventually(() => expect(cli.text.stderr).toMatch(ADDRESS));
  return { cli, address: (ADDRESS.exec(cli.text.stderr) as RegExpExecArray)[1] as string };
}

/** What comes back for these frames, over bytes. */
async function overSocket(path: string, frames: readonly Uint8Array[]): Promise<string[]> {
  const splitter = new FrameSplitter();
  const back: string[] = [];
  const socket = connect({ path, allowHalfOpen: true });
  for (const sent of frames) socket.write(sent);
  socket.end();
  for await (const chunk of socket) {
    for (const found of splitter.split(chunk as Uint8Array))
      back.push(typeof found === 'string' ? found : frameData(found));
  }
  return back;
}

describe('user streams of spear-run', () => {
  it.each(echoes)('%s answers every frame of a client on a socket [user-stream.unix]', async (guest) => {
    const path = socketPath();
    const { cli } = await serve(`unix:${path}`, guest);
    expect(statSync(path).mode & 0o777).toBe(0o600);
    const large = 'x'.repeat(250_000);
    const frames = [
      frame(1, 'hello', 1, '{"n":1}'),
      frame(1, ''),
      ...Array.from({ length: 12 }, () => frame(1, large)),
    ];
    expect(await overSocket(path, frames)).toEqual(['HELLO', '', ...Array<string>(12).fill(large.toUpperCase())]);
    const { code, stdout } = await cli.finished();
    expect([code, stdout]).toEqual([0, '14 frames\n']);
  });

  it('go over stdin and stdout, and what the guest prints goes to stderr [user-stream.stdio]', async () => {
    const cli = new Cli([fixture('c/echo.wasm'), '--stream', 'stdio']);
    cli.child.stdin.end(Buffer.concat([frame(1, 'one'), frame(1, 'two')]));
    const splitter = new FrameSplitter();
    const back: (Uint8Array | string)[] = [];
    for await (const chunk of cli.child.stdout) back.push(...splitter.split(chunk as Uint8Array));
    expect(back.map((found) => frameData(found as Uint8Array))).toEqual(['ONE', 'TWO']);
    const said: Buffer[] = [];
    for await (const chunk of cli.child.stderr) said.push(chunk as Buffer);
    expect([(await cli.finished()).code, Buffer.concat(said).toString()]).toEqual([0, '2 frames\n']);
  });

  it('go over a WebSocket to whoever knows the token [user-stream.ws]', async () => {
    const { cli, address } = await serve('ws://127.0.0.1:0');
    const refused = async (url: string, protocol: string) => {
      const socket = new WebSocket(url, protocol);
      return new Promise((resolve) => {
        socket.onerror = () => resolve('refused');
        socket.onopen = () => resolve('open');
      });
    };
    expect(await refused(address.replace(/token=.*/, 'token=guessed'), 'spear.stream.v1')).toBe('refused');
    expect(await refused(address, 'another.protocol')).toBe('refused');
    await cli.says('stderr', 'was rejected: the client does not offer the subprotocol spear.stream.v1');
    const turnedAway = new Client(address.replace(/token=.*/, ''), 'spear.stream.v1');
    const [, answer] = (await once(turnedAway, 'unexpected-response')) as [unknown, IncomingMessage];
    expect([answer.statusCode, (await answer.toArray()).join('')]).toEqual([
      401,
      'the token in the URL is missing or wrong\n',
    ]);
    expect(cli.text.stderr.match(/missing or wrong/g)).toHaveLength(1); // once, however often somebody guesses

    const socket = new WebSocket(address, 'spear.stream.v1');
    socket.binaryType = 'arraybuffer';
    const back: string[] = [];
    const closed = new Promise<CloseEvent>((resolve) => {
      socket.onclose = resolve;
    });
    await new Promise<void>((resolve) => {
      socket.onopen = () => socket.send(frame(1, 'over the web'));
      socket.onmessage = ({ data }) => {
        back.push(frameData(new Uint8Array(data as ArrayBuffer)));
        resolve();
      };
    });
    expect(back).toEqual(['OVER THE WEB']);
    expect(await refused(address, 'spear.stream.v1')).toBe('refused');
    socket.close();
    await closed;
    expect((await cli.finished()).code).toBe(0);
  });

  it('close for a client that sends what is no frame, and say why [user-stream.malformed]', async () => {
    const { cli, address } = await serve('ws://127.0.0.1:0');
    const socket = new WebSocket(address, 'spear.stream.v1');
    const closed = new Promise<CloseEvent>((resolve) => {
      socket.onclose = resolve;
    });
    socket.onopen = () => socket.send(new Uint8Array(40));
    const { code, reason } = await closed;
    expect([code, reason]).toEqual([1008, 'a frame does not begin with "SPST"']);
    await cli.says('stderr', 'user stream client: a frame does not begin with "SPST"');
    cli.child.kill('SIGINT');

    const path = socketPath();
    const other = await serve(`unix:${path}`);
    expect(await overSocket(path, [Buffer.from('GET / HTTP/1.1\r\nhost: x\r\n\r\n            ')])).toEqual([]);
    await other.cli.says('stderr', 'a frame does not begin with "SPST"');
    other.cli.child.kill('SIGINT');
  });

  it('are not there without --stream [user-stream.none]', async () => {
    const { code, stderr } = await spearRun([fixture('c/echo.wasm')]);
    expect([code, stderr]).toEqual([1, 'no client side (-107): run it with --stream\n']);
  });

  it('are ended with the run by Ctrl-C, and leave no socket behind [user-stream.unix]', async () => {
    const path = socketPath();
    const { cli } = await serve(`unix:${path}`);
    const client = connect({ path });
    const ended = new Promise((resolve) => client.on('error', () => {}).once('close', resolve));
    client.resume();
    cli.child.kill('SIGINT');
    expect((await cli.finished()).code).toBe(130);
    await ended;
    expect(() => statSync(path)).toThrow('ENOENT');
  });

  it('take over the socket of a run that died, and no other file [user-stream.unix]', async () => {
    const path = socketPath();
    const first = await serve(`unix:${path}`);
    const busy = await spearRun([fixture('c/echo.wasm'), '--stream', `unix:${path}`]);
    expect([busy.code, busy.stderr]).toEqual([
      125,
      `spear-run: --stream: cannot listen on ${path}: the path is in use\n`,
    ]);
    first.cli.child.kill('SIGKILL');
    await first.cli.finished();
    const second = await serve(`unix:${path}`);
    expect(await overSocket(path, [frame(1, 'again')])).toEqual(['AGAIN']);
    await second.cli.finished();

    const file = join(scratch, 'a-file');
    writeFileSync(file, 'mine');
    const refused = await spearRun([fixture('c/echo.wasm'), '--stream', `unix:${file}`]);
    expect([refused.code, refused.stderr]).toEqual([
      125,
      `spear-run: --stream: cannot listen on ${file}: the path is in use\n`,
    ]);
  });

  it.each([
    ['tcp:1', 'expected stdio, unix:PATH or ws://127.0.0.1:PORT, found "tcp:1"'],
    ['ws://127.0.0.1', 'the port is missing; 0 selects a free one'],
    ['ws://example.com:80', 'only a loopback address is allowed without TLS: ws://127.0.0.1:PORT'],
    ['ws://127.0.0.1:99999', 'expected stdio, unix:PATH or ws://127.0.0.1:PORT, found "ws://127.0.0.1:99999"'],
    ['unix:', 'expected a path after unix:'],
    [`unix:/${'x'.repeat(107)}`, 'a socket path has at most 107 bytes, found 108'],
  ])('refuse --stream %s [user-stream.flag]', async (stream, problem) => {
    const { code, stderr } = await spearRun([fixture('c/echo.wasm'), '--stream', stream]);
    expect([code, stderr]).toEqual([125, `spear-run: --stream: ${problem}\n`]);
  });

  it('refuse stdio beside another use of stdout [user-stream.flag]', async () => {
    const { code, stderr } = await spearRun([fixture('c/echo.wasm'), '--stream', 'stdio', '--json']);
    expect(code).toBe(125);
    expect(stderr).toContain('--stream stdio and --json both write to stdout');
  });
});
