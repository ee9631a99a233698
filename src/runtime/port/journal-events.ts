/*
 * What reached a guest's thread from outside, each event with its place: how many hostcalls had begun, and how many
 * things the thread had done since the last of them began. As text `CALL.STEP:HASH:KIND[VALUE]`, separated by spaces.
 */

/**
 * `r` a message of the host was taken (its call), `t` a timer fired (its number), `c` a clock was read (its value), `d`
 * dice were thrown (base64url), `k` nothing came, but the guest told the host something.
 */
export type EventKind = 'r' | 't' | 'c' | 'd' | 'k';

export interface JournalEvent {
  readonly call: number;
  readonly step: number;
  /** Of everything the guest's thread did before. */
  readonly hash: number;
  readonly kind: EventKind;
  readonly value: string;
}

/** The same with the message that was taken. */
export interface ReplayEvent extends JournalEvent {
  /** Of HostMessage; null: none was. */
  readonly message: readonly unknown[] | null;
}

/** What a guest's thread is to live through again, and whether it goes on by itself then. */
export interface ReplayStart {
  readonly events: readonly ReplayEvent[];
  readonly continuesLive: boolean;
  /** Whether the start of the guest wakes its first wait, as when this was recorded. */
  readonly wakesAtStart: boolean;
  /** Timers that were set before, and when they fire, in milliseconds since the Unix epoch. @default none */
  readonly sleeps?: readonly (readonly [timer: number, atMs: number])[];
  /** The host is told of timers that last so long. @default of none */
  readonly reportTimersMs?: number | null;
}

const HASH_CHARS = 8;
const HEX = 16;

export const hashText = (hash: number): string => (hash >>> 0).toString(HEX).padStart(HASH_CHARS, '0');

export function eventText(call: number, step: number, hash: number, kind: EventKind, value: string): string {
  return `${call}.${step}:${hashText(hash)}:${kind}${value} `;
}

/** Of a guest's thread, which is not trusted: it must be fit to stand in a line of the journal as it is. */
export function isEventsText(text: unknown): text is string {
  return typeof text === 'string' && /^(?:\d+\.\d+:[0-9a-f]{8}:[rtcdk][\w.-]* )*$/.test(text);
}

const event = /(\d+)\.(\d+):([0-9a-f]{8}):([rtcdk])([\w.-]*) /g;

/** Precondition: {@link isEventsText}. */
export function parseEvents(text: string): JournalEvent[] {
  return [...text.matchAll(event)].map(([, call, step, hash, kind, value]) => ({
    call: Number(call),
    step: Number(step),
    hash: Number.parseInt(hash as string, HEX) | 0,
    kind: kind as EventKind,
    value: value as string,
  }));
}
