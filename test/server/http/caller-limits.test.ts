import type { IncomingMessage } from 'node:http';
import { PassThrough } from 'node:stream';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { type HttpLimits, httpLimitSpecs } from '../../../src/config/limits.ts';
import { CallerLimits } from '../../../src/server/http/caller-limits.ts';
import type { HttpProblem } from '../../../src/server/http/problem.ts';

const MIB = 1024 * 1024;
const defaults = Object.fromEntries(Object.entries(httpLimitSpecs).map(([name, spec]) => [name, spec.default]));
const at = (remoteAddress: string | undefined) => ({ remoteAddress, remotePort: 1 });
const HERE = at('192.0.2.1');

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

function callerLimits(change: Partial<HttpLimits>) {
  const shed: string[] = [];
  const limits = { ...(defaults as HttpLimits), ...change };
  return { shed, callers: new CallerLimits({ limits, onShed: (reason) => shed.push(reason) }) };
}

/** What the request is refused with; null: it is admitted. */
function refused(work: () => unknown): { status: number; kind: string; retry: string | undefined } | null {
  try {
    work();
    return null;
  } catch (error) {
    const { status, kind, headers } = error as HttpProblem;
    return { status, kind, retry: headers['retry-after'] };
  }
}

const upload = (announced?: number) =>
  Object.assign(new PassThrough(), {
    complete: false,
    headers: announced === undefined ? { 'transfer-encoding': 'chunked' } : { 'content-length': String(announced) },
  });

const body = (callers: CallerLimits, caller: string, request: PassThrough, maxBytes = 32 * MIB) =>
  callers.admit(caller, HERE, null).body(request as unknown as IncomingMessage, maxBytes);

it('limits requests in flight per caller [http.callers]', () => {
  const { callers, shed } = callerLimits({ requests_per_caller: 2 });
  const first = callers.admit('ann', HERE, null);
  callers.admit('ann', HERE, null);
  expect(refused(() => callers.admit('ann', HERE, null))).toEqual({
    status: 429,
    kind: 'too-many-requests',
    retry: '1',
  });
  expect(refused(() => callers.admit('bob', HERE, null))).toBeNull();
  first.end();
  first.end();
  expect(refused(() => callers.admit('ann', HERE, null))).toBeNull();
  expect(refused(() => callers.admit('ann', HERE, null))).not.toBeNull();
  expect(shed).toEqual(['requests', 'requests']);
});

it('limits streams per caller and in total [http.callers]', () => {
  const { callers, shed } = callerLimits({ streams_per_caller: 2, max_streams: 3 });
  const stream = (caller: string) => refused(() => callers.admit(caller, HERE, 'stream'))?.kind ?? null;
  expect(['ann', 'ann', 'ann', 'bob', 'bob'].map(stream)).toEqual([
    ...[null, null, 'too-many-streams'],
    ...[null, 'too-many-streams'],
  ]);
  expect(refused(() => callers.admit('ann', HERE, null))).toBeNull();
  expect(shed).toEqual(['streams', 'streams']);
});

it('reserves connections for probes and short requests, per address and in total [http.reserved]', () => {
  const { callers, shed } = callerLimits({
    ...{ max_connections: 10, max_connections_per_peer: 6, reserved_connections: 2 },
  });
  const long = (peer: string | undefined) => refused(() => callers.admit(`of ${peer}`, at(peer), 'wait'));
  for (let count = 0; count < 4; count++) expect(long('192.0.2.1')).toBeNull();
  expect(long('192.0.2.1')).toEqual({ status: 429, kind: 'too-many-connections', retry: '1' });
  expect(refused(() => callers.admit('of 192.0.2.1', HERE, null))).toBeNull();
  for (let count = 0; count < 4; count++) expect(long('192.0.2.2')).toBeNull();
  expect(long('192.0.2.3')).not.toBeNull();
  // The socket of the own user has no limit of connections.
  expect(long(undefined)).toBeNull();
  expect(shed).toEqual(['connections', 'connections']);
});

it('counts a request with a small body as long after one second [http.reserved]', async () => {
  const { callers, shed } = callerLimits({ max_connections_per_peer: 2, reserved_connections: 1 });
  const long = callers.admit('bob', HERE, 'stream');
  const small = upload(5);
  const read = body(callers, 'ann', small);
  small.end('hello');
  expect(Buffer.from(await read).toString()).toBe('hello');
  const empty = Object.assign(upload(), { headers: {} });
  const readEmpty = body(callers, 'ann', empty);
  empty.end();
  expect((await readEmpty).byteLength).toBe(0);
  const late = body(callers, 'ann', upload(5)).catch((error: HttpProblem) => error);
  await vi.advanceTimersByTimeAsync(1_000);
  expect(await late).toMatchObject({ status: 429, kind: 'too-many-connections' });
  expect(shed).toEqual(['connections']);
  long.end();
  const slow = upload(5);
  const received = body(callers, 'ann', slow);
  await vi.advanceTimersByTimeAsync(2_000);
  expect(refused(() => callers.admit('bob', HERE, 'stream'))).toMatchObject({ kind: 'too-many-connections' });
  slow.end('hello');
  await received;
  expect(refused(() => callers.admit('bob', HERE, 'stream'))).toBeNull();
});

it('counts received bytes, not announced ones, and limits each caller to its share [http.uploads]', async () => {
  const { callers, shed } = callerLimits({ max_upload_bytes: 8 * MIB });
  // Nothing of these comes, so they hold nothing.
  const silent = Array.from({ length: 8 }, () => upload(32 * MIB));
  const ended = silent.map((request) => body(callers, 'mallory', request).catch((error: Error) => error.message));
  const large = upload(20 * MIB);
  const received = body(callers, 'ann', large);
  large.end(Buffer.alloc(20 * MIB)); // it is the only one that has bytes
  expect((await received).byteLength).toBe(20 * MIB);
  const [first, second] = silent;
  first?.write(Buffer.alloc(MIB));
  second?.write(Buffer.alloc(2 * MIB)); // more than a quarter together
  expect(await ended[1]).toContain('max_upload_bytes');
  const small = upload(4 * MIB);
  const other = body(callers, 'ann', small);
  small.end(Buffer.alloc(4 * MIB));
  expect((await other).byteLength).toBe(4 * MIB);
  expect(shed).toEqual(['uploads']);
  for (const request of silent) request.destroy();
  await Promise.all(ended);
});

it('one caller that uses all upload bytes does not block other callers [http.uploads]', async () => {
  const { callers, shed } = callerLimits({ max_upload_bytes: 8 * MIB });
  const huge = upload(16 * MIB);
  const filling = body(callers, 'mallory', huge).catch((error: HttpProblem) => error);
  huge.write(Buffer.alloc(9 * MIB)); // more than there is for all
  const small = upload(5);
  const submitted = body(callers, 'ann', small);
  small.end('hello');
  expect(Buffer.from(await submitted).toString()).toBe('hello');
  expect(shed).toEqual([]);
  const module = upload(MIB);
  const received = body(callers, 'ann', module);
  module.end(Buffer.alloc(MIB));
  expect((await received).byteLength).toBe(MIB);
  expect(await filling).toMatchObject({ status: 429, kind: 'too-many-uploads' });
  expect(shed).toEqual(['uploads']);
  const next = upload(MIB);
  const again = body(callers, 'mallory', next);
  next.end(Buffer.alloc(MIB));
  expect((await again).byteLength).toBe(MIB);
});

it('limits uploads per caller; small bodies need no slot [http.uploads]', async () => {
  const { callers } = callerLimits({ uploads_per_caller: 1 });
  const first = upload(MIB);
  const reading = body(callers, 'ann', first);
  await expect(body(callers, 'ann', upload())).rejects.toMatchObject({ status: 429, kind: 'too-many-uploads' });
  const small = upload(5);
  const read = body(callers, 'ann', small);
  small.end('hello');
  expect(Buffer.from(await read).toString()).toBe('hello');
  first.end('x');
  await reading;
  const next = upload(MIB);
  const again = body(callers, 'ann', next);
  next.end('y');
  expect(Buffer.from(await again).toString()).toBe('y');
});

it('rejects a body that arrives slower than the minimum rate [http.uploads]', async () => {
  const { callers, shed } = callerLimits({ upload_bytes_per_second: 1_000 });
  const slow = upload(MIB);
  const reading = body(callers, 'ann', slow).catch((error: HttpProblem) => error);
  slow.write(Buffer.alloc(3_000));
  await vi.advanceTimersByTimeAsync(8_000); // five seconds of grace, then 3,000 bytes in three
  expect(shed).toEqual([]);
  await vi.advanceTimersByTimeAsync(1_000);
  expect(await reading).toMatchObject({ status: 408, kind: 'upload-too-slow' });
  expect(shed).toEqual(['slow_upload']);
});

it('rejects a body that is too large, with or without content-length', async () => {
  const { callers } = callerLimits({});
  await expect(body(callers, 'ann', upload(11), 10)).rejects.toMatchObject({ status: 413 });
  const unannounced = upload();
  const reading = body(callers, 'ann', unannounced, 10);
  unannounced.write(Buffer.alloc(11));
  await expect(reading).rejects.toMatchObject({ status: 413 });
});
