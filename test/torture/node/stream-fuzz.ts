import { mkdtempSync, rmSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { WebSocket } from 'ws';
import { runGuest } from '../../../src/run/run-guest.ts';
import { FrameSplitter } from '../../../src/run/streams/byte-client.ts';
import { openStreamListener } from '../../../src/run/streams/open-stream-listener.ts';
import { STREAM_PROTOCOL } from '../../../src/run/streams/websocket-listener.ts';
import type { Random } from '../random.ts';
import { type Effort, Failures, type Finding } from '../topic.ts';

const wasm = fileURLToPath(new URL('../../../fixtures/c/echo.wasm', import.meta.url));
const HANGS_MS = 20_000;
/** For a client to be answered. */
const ANSWER_MS = 300;
const FRAME_BYTES = 262_144;
/** Beyond what all buffers of a stream may hold. */
const MAX_GROWN_BYTES = 300 * 1024 * 1024;

const carriers = ['stdio', 'unix', 'ws'] as const;
type Carrier = (typeof carriers)[number];

/**
 * Fuzzed frames of a client to an echo guest, on all carriers. After each, an honest client of the same run is served,
 * unless the guest has ended with its client; over stdio there is no second client.
 */
export async function streamFuzz(effort: Effort): Promise<Finding> {
  const folder = mkdtempSync(join(tmpdir(), 'spear-torture-streams-'));
  const failures = new Failures();
  const all = effort.of(15, 3_000);
  const before = process.memoryUsage.rss();
  const counts = { honest: 0, sent: 0 };
  let probes = 0;
  try {
    for (; probes < all && !effort.isOver(); probes++) {
      const carrier = carriers[probes % carriers.length] as Carrier;
      const pieces = attack(effort.random);
      counts.sent += pieces.reduce((sum, { length }) => sum + length, 0);
      const outcome = await served(carrier, pieces, join(folder, `${probes}`), effort.random.chance(3));
      if (outcome === 'served') counts.honest++;
      else if (outcome !== 'ended') failures.add(`${carrier}, probe ${probes}: ${outcome}`);
      effort.progress(probes, all);
    }
    const grown = process.memoryUsage.rss() - before;
    if (grown > MAX_GROWN_BYTES) failures.add(`the host grew by ${grown} bytes`);
    const mebibytes = (bytes: number) => `${Math.round(bytes / 1024 / 1024)} MiB`;
    return {
      what: 'fuzzed frames of clients over stdio, sockets and WebSockets',
      count: probes,
      lost: failures.count,
      crashed: 0,
      measured: `${mebibytes(counts.sent)} sent, ${counts.honest} honest clients served after them, host grown by ${mebibytes(grown)}`,
      failures: failures.list(),
    };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function frame(stream: number, data: string | Buffer, change: (head: Buffer) => void = () => {}): Buffer {
  const head = Buffer.alloc(32);
  head.write('SPST', 0, 'latin1');
  head.writeUInt16LE(1, 4);
  head.writeUInt16LE(32, 6);
  head.writeUInt32LE(stream, 12);
  head.writeUInt32LE(Buffer.byteLength(data), 28);
  change(head);
  return Buffer.concat([head, Buffer.from(data)]);
}

/** What a hostile client sends, piece by piece. */
function attack(random: Random): Buffer[] {
  const noise = (length: number) => Buffer.from(Array.from({ length }, () => random.below(256)));
  const ways: readonly (() => Buffer[])[] = [
    () => [noise(1 + random.below(200))],
    () => [frame(1, 'x', (head) => head.fill(random.below(256), random.below(32), 32))],
    () => [frame(1, 'x', (head) => head.writeUInt32LE(0xffff_ffff, random.pick([12, 24, 28])))],
    () => [frame(1, 'x', (head) => head.writeUInt16LE(random.pick([0, 31, 33, 65_535]), 6))],
    () => [frame(1, 'x', (head) => head.writeUInt16LE(random.below(65_536), 4))],
    () => [frame(1, 'whole').subarray(0, random.below(37))],
    () => Array.from({ length: 70 }, (_, stream) => frame(stream, 'many streams')),
    () => [...frame(1, 'byte by byte')].map((byte) => Buffer.of(byte)),
    () => Array.from({ length: 30 }, () => frame(random.below(3), Buffer.alloc(FRAME_BYTES - 32, 'y'))),
    () => [frame(1, Buffer.alloc(FRAME_BYTES - 31))],
    () => [frame(1, 'good'), noise(50), ...Array.from({ length: 50 }, () => Buffer.alloc(65_536, 'z'))],
    () => Array.from({ length: 500 }, () => frame(1, '')),
    () => [],
  ];
  const pieces = random.pick(ways)();
  if (random.chance(3) && pieces.length > 0) {
    const at = random.below(pieces.length);
    const piece = Buffer.from(pieces[at] as Buffer);
    if (piece.length > 0) piece[random.below(piece.length)] = random.below(256);
    pieces[at] = piece;
  }
  return pieces;
}

/** One run with a hostile client, then an honest one. `leaves`: the first goes without a goodbye. */
async function served(carrier: Carrier, pieces: readonly Buffer[], path: string, leaves: boolean) {
  const [input, output] = [new PassThrough(), new PassThrough()];
  const address =
    carrier === 'stdio'
      ? { kind: 'stdio' as const }
      : carrier === 'unix'
        ? { kind: 'unix' as const, path }
        : { kind: 'ws' as const, host: '127.0.0.1', port: 0 };
  const listener = await openStreamListener({ address, stdio: () => ({ input, output }), onProblem: () => {} });
  const stop = new AbortController();
  let hasEnded = false;
  const running = runGuest({ wasm, streams: listener, stdin: () => null, output: () => {}, signal: stop.signal })
    .catch(() => {})
    .finally(() => {
      hasEnded = true;
    });
  const reached = { address: listener.address ?? '', path, input, output };
  await Promise.race([talk(carrier, reached, pieces, leaves), running]);
  let answer = '';
  const until = performance.now() + HANGS_MS;
  while (carrier !== 'stdio' && !hasEnded && answer !== 'HELLO' && performance.now() < until) {
    answer = await Promise.race([talk(carrier, reached, [frame(1, 'hello')], false), running.then(() => '')]);
  }
  const wasServed = answer === 'HELLO';
  const outcome = wasServed ? 'served' : hasEnded || carrier === 'stdio' ? 'ended' : 'an honest client was not served';
  stop.abort();
  const late = delay(HANGS_MS, 'late', { ref: false });
  const end = await Promise.race([running, late]);
  await listener.close();
  return end === 'late' ? 'the run did not end' : outcome;
}

interface Ends {
  readonly address: string;
  readonly path: string;
  readonly input: PassThrough;
  readonly output: PassThrough;
}

/** Sends, and gives the data of the first frame that comes back. */
async function talk(carrier: Carrier, ends: Ends, pieces: readonly Buffer[], leaves: boolean): Promise<string> {
  const first = Promise.withResolvers<string>();
  const splitter = new FrameSplitter();
  const hear = (chunk: Uint8Array) => {
    for (const one of splitter.split(chunk)) {
      if (typeof one !== 'string') first.resolve(Buffer.from(one).subarray(32).toString('latin1', 0, 64));
    }
  };
  const answered = () => Promise.race([first.promise, delay(leaves ? 0 : ANSWER_MS, '', { ref: false })]);
  if (carrier === 'stdio') {
    ends.output.on('data', hear);
    for (const piece of pieces) if (!ends.input.destroyed) ends.input.write(piece);
    const answer = await answered();
    if (!ends.input.destroyed) ends.input.end();
    return answer;
  }
  if (carrier === 'unix') {
    const socket = connect({ path: ends.path, allowHalfOpen: true });
    socket.on('error', () => first.resolve(''));
    socket.on('data', hear);
    socket.on('close', () => first.resolve(''));
    for (const piece of pieces) if (!socket.destroyed) socket.write(piece);
    const answer = await answered();
    socket.destroy();
    return answer;
  }
  const socket = new WebSocket(ends.address, STREAM_PROTOCOL);
  socket.on('error', () => first.resolve(''));
  socket.on('message', hear);
  socket.on('close', () => first.resolve(''));
  socket.on('open', () => {
    for (const piece of pieces) if (socket.readyState === WebSocket.OPEN) socket.send(piece);
  });
  const answer = await answered();
  socket.terminate();
  return answer;
}
