import type { BareImport } from '../guests/bench-guest.ts';

/** What the hostcalls hand out, learned from them before anything is measured. */
export interface HandedOut {
  status: string;
  metrics: string;
  body: Uint8Array;
}

const encode =
  (from: HandedOut, which: 'status' | 'metrics'): BareImport['make'] =>
  ({ bytes, words }) =>
  (_fd: number, _cmd: number, out: number, slot: number) => {
    const text = from[which];
    const most = text.length * 3; // where the longest encoding fits, its length need not be computed first
    if (most > words.getUint32(slot, true)) return -1;
    const length = bytes.utf8Write(text, out, most);
    words.setUint32(slot, length, true);
    return length;
  };

const copyBody =
  (from: HandedOut): BareImport['make'] =>
  ({ bytes, words }) =>
  (_fd: number, out: number, slot: number) => {
    const { body } = from;
    if (body.byteLength > words.getUint32(slot, true)) return -1;
    bytes.set(body, out);
    words.setUint32(slot, body.byteLength, true);
    return body.byteLength;
  };

/** As many as the calls of a sample: what is written to a session stays there until the session ends. */
const KEPT = 200;

/** What a session keeps: the whole of the last sample, as with the real one, so that both make the same garbage. */
function keeper<Kept>(): (kept: Kept) => void {
  let all: Kept[] = [];
  return (kept) => {
    if (all.length === KEPT) all = [];
    all.push(kept);
  };
}

/** The yardsticks: the same decode, encode or JSON.parse by the fastest means that Node has, and nothing else. */
export const bareImports = (handedOut: HandedOut) =>
  ({
    'decode role and text': {
      arity: 5,
      make:
        ({ bytes }) =>
        (_fd: number, p1: number, n1: number, p2: number, n2: number) =>
          bytes.utf8Slice(p1, p1 + n1).length + bytes.utf8Slice(p2, p2 + n2).length > 0 ? 0 : -1,
    },
    'decode and keep role and text': {
      arity: 5,
      make: ({ bytes }) => {
        const keep = keeper<{ role: string; content: string }>();
        return (_fd: number, p1: number, n1: number, p2: number, n2: number) => {
          keep({ role: bytes.utf8Slice(p1, p1 + n1), content: bytes.utf8Slice(p2, p2 + n2) });
          return 0;
        };
      },
    },
    'decode a text, encode a line': {
      arity: 3,
      make:
        ({ bytes }) =>
        (_level: number, ptr: number, length: number) =>
          Buffer.from(`${bytes.utf8Slice(ptr, ptr + length)}\n`).byteLength > 0 ? 0 : -1,
    },
    'decode, JSON.parse, keep': {
      arity: 4,
      make: ({ bytes }) => {
        const keep = keeper<string>();
        return (_fd: number, _slot: number, ptr: number, length: number) => {
          const json = bytes.utf8Slice(ptr, ptr + length);
          keep(json);
          return JSON.parse(json) === null ? -1 : 0;
        };
      },
    },
    'read the clock': { arity: 0, result: 'i64', make: () => () => BigInt(Date.now()) },
    'decode + JSON.parse': {
      arity: 4,
      make:
        ({ bytes, words }) =>
        (_fd: number, _cmd: number, ptr: number, slot: number) =>
          JSON.parse(bytes.utf8Slice(ptr, ptr + words.getUint32(slot, true))) === null ? -1 : 0,
    },
    'encode the metrics': { arity: 4, make: encode(handedOut, 'metrics') },
    'encode the status': { arity: 4, make: encode(handedOut, 'status') },
    'copy the body': { arity: 3, make: copyBody(handedOut) },
    'Suspending import that makes a record': {
      arity: 4,
      suspending: true,
      make: ({ bytes, words }) => {
        const record = new DataView(new ArrayBuffer(8));
        const made = new Uint8Array(record.buffer);
        return (fd: number, out: number, slot: number, events: number) => {
          if (made.byteLength > words.getUint32(slot, true)) return -1;
          record.setInt32(0, fd, true);
          record.setInt32(4, events, true);
          bytes.set(made, out);
          words.setUint32(slot, made.byteLength, true);
          return 1;
        };
      },
    },
    'Suspending import that copies the body': { arity: 3, suspending: true, make: copyBody(handedOut) },
    'import that returns at once': { arity: 2, make: () => (a: number, b: number) => a + b },
    'Suspending import that returns at once': {
      arity: 2,
      suspending: true,
      make: () => (a: number, b: number) => a + b,
    },
  }) satisfies Record<string, BareImport>;

export type BareName = keyof ReturnType<typeof bareImports>;
