/**
 * Limits of one caller of an HTTP listener: requests in flight, streams, uploads. Registry and node use the same.
 *
 * A long request (a stream, a request that waits for a run, a body above 64 KiB, or one that takes longer than a second)
 * occupies its connection. Long requests in total, and those of each peer address, leave `reserved_connections` free, so
 * that probes and short requests always find a connection. Connections over a Unix socket are not limited or counted.
 * Bodies count by received bytes, not by content-length, and must arrive at a minimum rate. A body that is larger than the
 * share of its caller is rejected when another caller within its share needs the room.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { HttpLimits } from '../../config/limits.ts';
import type { PeerSocket } from './connections.ts';
import { HttpProblem } from './problem.ts';

/** Why a request occupies its connection: `stream` until the client disconnects, `wait` until a run has ended. */
export type LongRequest = 'stream' | 'wait';

/** The exceeded limit: a label of the metric. */
export type ShedReason = Shortage | 'slow_upload';
type Shortage = 'requests' | 'streams' | 'uploads' | 'connections';

export interface CallerLimitsOptions {
  readonly limits: HttpLimits;
  readonly onShed: (reason: ShedReason) => void;
}

/** A request that was admitted. */
export interface AdmittedRequest {
  /** Reads the body. @throws HttpProblem 408, 413, 429 */
  body(request: IncomingMessage, maxBytes: number): Promise<Uint8Array>;
  end(): void;
}

/** Smaller bodies arrive with their request: they need no slot and are not counted. */
const SMALL_BODY_BYTES = 64 * 1024;
const RATE_GRACE_MS = 5_000;
const RATE_CHECK_MS = 1_000;
/** A caller with several uploads may hold this fraction of `max_upload_bytes`. */
const CALLER_SHARE = 4;
const headers = { 'retry-after': '1' };
const nothing = () => {};

/** A body that is being received. */
interface Upload {
  readonly caller: string;
  bytes: number;
  readonly refuse: (problem: HttpProblem) => void;
}

export class CallerLimits {
  readonly #limits: HttpLimits;
  readonly #onShed: (reason: ShedReason) => void;
  readonly #requests: Slots;
  readonly #streams: Slots;
  readonly #uploads: Slots;
  /** By peer address. */
  readonly #long: Slots;
  /** Received bytes of bodies that are not complete, by caller. */
  readonly #bytes = new Map<string, number>();
  #allBytes = 0;
  /** Bodies that are larger than the share of their caller. */
  readonly #oversized = new Set<Upload>();

  constructor({ limits, onShed }: CallerLimitsOptions) {
    this.#limits = limits;
    this.#onShed = onShed;
    const unreserved = (max: number) => max - Math.min(limits.reserved_connections, Math.floor(max / 2));
    this.#requests = new Slots(Number.POSITIVE_INFINITY, limits.requests_per_caller);
    this.#streams = new Slots(limits.max_streams, limits.streams_per_caller);
    this.#uploads = new Slots(Number.POSITIVE_INFINITY, limits.uploads_per_caller);
    this.#long = new Slots(unreserved(limits.max_connections), unreserved(limits.max_connections_per_peer));
  }

  /** `caller` null: the route has no authentication, and only its body is limited, per peer. @throws HttpProblem 429 */
  admit(caller: string | null, { remoteAddress: peer }: PeerSocket, long: LongRequest | null): AdmittedRequest {
    const taken: (() => void)[] = [];
    const end = () => {
      for (const release of taken.splice(0)) release();
    };
    const take = (slots: Slots, key: string, reason: Shortage) => {
      const release = slots.take(key);
      if (release !== null) return release;
      end();
      throw this.#shed(reason);
    };
    const takeLong = () => (peer === undefined ? nothing : take(this.#long, peer, 'connections'));
    if (caller !== null) taken.push(take(this.#requests, caller, 'requests'));
    if (caller !== null && long === 'stream') taken.push(take(this.#streams, caller, 'streams'));
    if (long !== null) taken.push(takeLong());
    return {
      end,
      body: async (request, maxBytes) => {
        const { 'content-length': announced = '0', 'transfer-encoding': encoding } = request.headers;
        if (Number(announced) > maxBytes) throw tooLarge(maxBytes);
        const isSmall = encoding === undefined && Number(announced) <= SMALL_BODY_BYTES;
        const key = caller ?? `peer ${peer}`;
        const slot = isSmall ? nothing : take(this.#uploads, key, 'uploads');
        let connection = nothing;
        const becomeLong = () => {
          if (long === null && connection === nothing) connection = takeLong();
        };
        try {
          if (!isSmall) becomeLong();
          return await this.#receive(request, maxBytes, isSmall ? null : key, becomeLong);
        } finally {
          connection();
          slot();
        }
      },
    };
  }

  /** `caller` null: the bytes are not counted. `isLate` is called at each rate check while the body is incomplete. */
  #receive(request: IncomingMessage, maxBytes: number, caller: string | null, isLate: () => void): Promise<Uint8Array> {
    const { upload_bytes_per_second: rate } = this.#limits;
    const startedAt = performance.now();
    const chunks: Buffer[] = [];
    let bytes = 0;
    let timer: NodeJS.Timeout | undefined;
    let upload: Upload | null = null;
    let listeners: readonly [string, (value: Buffer & Error) => void][] = [];
    const received = new Promise<Uint8Array>((resolve, reject) => {
      if (caller !== null) upload = { caller, bytes: 0, refuse: reject };
      const onData = (chunk: Buffer) => {
        bytes += chunk.length;
        chunks.push(chunk);
        const hasRoom = upload === null || this.#hold(upload, chunk.length);
        if (bytes > maxBytes) reject(tooLarge(maxBytes));
        else if (!hasRoom) reject(this.#shed('uploads'));
      };
      const checkRate = () => {
        const overMs = performance.now() - startedAt - RATE_GRACE_MS;
        if (bytes < (rate * overMs) / 1_000) return reject(this.#tooSlow(rate));
        try {
          isLate();
        } catch (error) {
          reject(error);
        }
      };
      const gone = () => reject(new Error('the client disconnected before the end of its request'));
      listeners = [
        ['data', onData],
        ['end', () => resolve(Buffer.concat(chunks))],
        ['error', reject],
        ['close', gone],
      ];
      if (request.destroyed) gone();
      for (const [event, listener] of listeners) request.on(event, listener);
      timer = setInterval(checkRate, RATE_CHECK_MS);
    });
    return received.finally(() => {
      clearInterval(timer);
      for (const [event, listener] of listeners) request.off(event, listener);
      request.pause();
      if (upload !== null) this.#release(upload);
    });
  }

  /** Counts received bytes. False: a limit is exceeded. */
  #hold(upload: Upload, bytes: number): boolean {
    const { max_upload_bytes: max } = this.#limits;
    const ofCaller = (this.#bytes.get(upload.caller) ?? 0) + bytes;
    this.#bytes.set(upload.caller, ofCaller);
    this.#allBytes += bytes;
    upload.bytes += bytes;
    const fits = this.#allBytes <= max;
    if (ofCaller <= max / CALLER_SHARE) return fits || this.#refuseOversized();
    // The only upload of a caller may exceed the share, and the only upload of all may exceed the limit.
    this.#oversized.add(upload);
    return ofCaller === upload.bytes && (fits || this.#allBytes === upload.bytes);
  }

  /** Rejects the largest oversized upload to make room for a caller within its share. False: there is none. */
  #refuseOversized(): boolean {
    const [largest] = [...this.#oversized].sort((one, other) => other.bytes - one.bytes);
    if (largest === undefined) return false;
    this.#oversized.delete(largest);
    largest.refuse(this.#shed('uploads'));
    return true;
  }

  #release(upload: Upload): void {
    const { caller, bytes } = upload;
    this.#oversized.delete(upload);
    this.#allBytes -= bytes;
    const left = (this.#bytes.get(caller) ?? 0) - bytes;
    if (left > 0) this.#bytes.set(caller, left);
    else this.#bytes.delete(caller);
  }

  #tooSlow(rate: number): HttpProblem {
    this.#onShed('slow_upload');
    const detail = `the body came slower than ${rate} bytes per second (upload_bytes_per_second)`;
    return new HttpProblem(408, 'upload-too-slow', detail, { headers: { connection: 'close' } });
  }

  #shed(reason: Shortage): HttpProblem {
    this.#onShed(reason);
    const [status, kind] = problems[reason];
    return new HttpProblem(status, kind, details[reason], { headers });
  }
}

const problems: Readonly<Record<Shortage, readonly [status: number, kind: string]>> = {
  requests: [429, 'too-many-requests'],
  streams: [429, 'too-many-streams'],
  uploads: [429, 'too-many-uploads'],
  connections: [429, 'too-many-connections'],
};

const details: Readonly<Record<Shortage, string>> = {
  requests: 'this caller has too many requests in flight (requests_per_caller)',
  streams: 'too many streams are open (streams_per_caller, max_streams)',
  uploads: 'too many bodies are being received (uploads_per_caller, max_upload_bytes)',
  connections: 'the other connections are reserved for probes and short requests (reserved_connections)',
};

const tooLarge = (maxBytes: number) =>
  new HttpProblem(413, 'body-too-large', `the body has more than ${maxBytes} bytes`, {
    headers: { connection: 'close' },
  });

/** Counting semaphore with a limit in total and per key. */
class Slots {
  readonly #max: number;
  readonly #maxPerKey: number;
  readonly #byKey = new Map<string, number>();
  #all = 0;

  constructor(max: number, maxPerKey: number) {
    this.#max = max;
    this.#maxPerKey = maxPerKey;
  }

  /** Returns the release function; null if no slot is free. */
  take(key: string): (() => void) | null {
    const taken = this.#byKey.get(key) ?? 0;
    if (this.#all >= this.#max || taken >= this.#maxPerKey) return null;
    this.#all += 1;
    this.#byKey.set(key, taken + 1);
    return () => {
      this.#all -= 1;
      const left = (this.#byKey.get(key) ?? 0) - 1;
      if (left > 0) this.#byKey.set(key, left);
      else this.#byKey.delete(key);
    };
  }
}

/** Ends the request when its response was sent or its connection closed. */
export function endWith(res: ServerResponse, request: AdmittedRequest): void {
  if (res.closed || res.destroyed) request.end();
  else res.once('close', () => request.end());
}
