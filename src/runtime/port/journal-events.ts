/*
 * Inputs of a guest thread. Each event has its position: the number of hostcalls that had begun, and the number of steps
 * since the last of them began. As text: `CALL.STEP:HASH:KIND[VALUE]`, each followed by a space.
 */

/**
 * `r`: the thread took a message of the host (value: its call). `t`: a timer fired (its number). `c`: a clock was read (its
 * value). `d`: entropy was read (base64url). `k`: no input; the guest sent the host a message.
 */
export type EventKind = 'r' | 't' | 'c' | 'd' | 'k';

export interface JournalEvent {
  readonly call: number;
  readonly step: number;
  /** Rolling hash of everything that the guest did before. */
  readonly hash: number;
  readonly kind: EventKind;
  readonly value: string;
}

/** An event with the recorded message that it delivers. */
export interface ReplayEvent extends JournalEvent {
  /** A HostMessage; null: not of kind `r`. */
  readonly message: readonly unknown[] | null;
}

/** The history that a guest replays at its start. */
export interface ReplayStart {
  readonly events: readonly ReplayEvent[];
  /** Whether the guest continues live after the last event. */
  readonly continuesLive: boolean;
  /** Whether the start of the guest wakes its first wait, as in the version that recorded the history. */
  readonly wakesAtStart: boolean;
  /** Deadlines of timers set before the run was parked, in milliseconds since the Unix epoch. @default none */
  readonly sleeps?: readonly (readonly [timer: number, atMs: number])[];
  /** The host is notified of timers that last this long. @default none */
  readonly reportTimersMs?: number | null;
}

const HASH_CHARS = 8;
const HEX = 16;

export const hashText = (hash: number): string => (hash >>> 0).toString(HEX).padStart(HASH_CHARS, '0');

export function eventText(call: number, step: number, hash: number, kind: EventKind, value: string): string {
  return `${call}.${step}:${hashText(hash)}:${kind}${value} `;
}

/** Checks events from a guest thread, which is not trusted: the text goes into the journal unescaped. */
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
