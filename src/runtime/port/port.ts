/*
 * Protocol between the host thread and a guest thread: types of all messages, and validation of those from the guest.
 *
 * - Messages are plain data, so that a process could replace the worker.
 * - Every message names its guest, its call, and the call on top of which it was made (0: none). Guest 0 is the thread
 *   itself on a shared thread, and the guest on a dedicated one.
 * - The host validates every message like network input (`parseGuestMessage`), because the thread runs untrusted code.
 * - Replies and most requests are in journals: their names, fields and order are part of the journal format.
 */
import { isJsonObject, type JsonValue } from '../../base/json.ts';
import type { ErrnoName } from '../abi/errno.ts';
import {
  type DedicatedSpec,
  type GuestOwnSpec,
  MAX_OUTPUT_CHUNK,
  type PostedKind,
  type SharedGuestTerms,
  type StandardStream,
} from './guest-spec.ts';
import type { Turns } from './preemption.ts';
import { readWholeFrame, type StreamEventKind } from './user-stream.ts';

/** What a guest wrote to a session since its last send. The host owns the history. */
export interface SessionDelta {
  readonly messages: readonly (readonly [role: string, content: string])[];
  readonly tools: readonly (readonly [fnOffset: number, definition: string])[];
  readonly toolResults: readonly (readonly [id: string, content: string])[];
  readonly params: readonly (readonly [key: string, value: JsonValue])[];
}

/** Unread events of a streamed send beyond which the host stops reading from the provider. */
export const SEND_WINDOW_BYTES = 64 * 1024;

/** How a guest ended, as its thread reports it. */
export type GuestEnding =
  | { readonly kind: 'exit'; readonly code: number }
  | { readonly kind: 'trap'; readonly message: string; readonly stack: string }
  | { readonly kind: 'load_failed'; readonly message: string };

export interface GuestReport {
  readonly ending: GuestEnding;
  readonly droppedLogLines: number;
}

/** `name`: of a tool or a prompt, or the URI of a resource. */
type ServerRequest = readonly [session: number, serverId: string, name: string, args: string];

export type GuestRequest =
  | readonly ['send', session: number, flags: number, delta: SessionDelta]
  | readonly ['cancel']
  /** The guest has read so many bytes of events of a streamed send. */
  | readonly ['read', bytes: number]
  | readonly ['tool_result', callback: number, rc: number, content: string]
  /** Answered when the host has released the session; with call 0 not answered. */
  | readonly ['close_session', session: number]
  | readonly ['stdin', maxBytes: number]
  | readonly ['mcp_open', serverId: string]
  | readonly ['mcp_list', serverId: string]
  | readonly ['mcp_list_resources', serverId: string]
  | readonly ['mcp_list_prompts', serverId: string]
  | readonly ['mcp_call', ...ServerRequest]
  | readonly ['mcp_read_resource', ...ServerRequest]
  | readonly ['mcp_get_prompt', ...ServerRequest]
  | readonly ['mcp_registry', serverId: string | null]
  /** Subscriptions until `stream_close`: to one stream, or to connection events of all streams. */
  | readonly ['stream_open', streamId: number, direction: number]
  | readonly ['stream_watch']
  | readonly ['stream_frame', frame: Uint8Array<ArrayBuffer>]
  /** The guest has read so many bytes of the stream. */
  | readonly ['stream_taken', bytes: number]
  | readonly ['stream_close']
  | readonly ['output', stream: StandardStream, bytes: Uint8Array<ArrayBuffer>]
  | readonly ['notice', text: string]
  /** Carries journal events. */
  | readonly ['journal']
  /** The replayed guest has reached the end of its history and continues live. */
  | readonly ['live']
  /** A long timer of the guest was set, or fired. */
  | readonly ['sleeps', timer: number, ms: number]
  | readonly ['woke', timer: number]
  /** The guest has waited long, and only a message or a reported timer can wake it. `heard`: messages it has received. */
  | readonly ['rests', heard: number]
  | readonly ['replay', state: ReplayState, detail: string]
  | readonly ['ended', report: GuestReport]
  /** Answer of a shared thread to a ping: total linear memory of its guests, and the guest that grew most. */
  | readonly ['pong', ping: number, memoryBytes: number, grown: number];

/** How a replay ended early: the history has no more events, or replay detected nondeterminism. */
export const replayStates = ['exhausted', 'diverged'] as const;
export type ReplayState = (typeof replayStates)[number];

export type GuestMessage = readonly [guest: number, call: number, parent: number, ...GuestRequest];

/** Whether a posted value is a batch of messages: `[messages]`. */
export const isBatch = (posted: unknown): posted is readonly [messages: readonly unknown[]] =>
  Array.isArray(posted) && posted.length === 1 && Array.isArray(posted[0]);

/** An import without a host function; it returns ENOSYS in its result type. */
export interface UnknownImport {
  readonly module: string;
  readonly name: string;
  readonly result: string;
}

/** A prepared module. */
export interface CoreStart {
  readonly module: WebAssembly.Module;
  readonly unknownImports: readonly UnknownImport[];
  /** What the preemption pass requires; null: not instrumented. */
  readonly turns: Turns | null;
}

/** A prepared component. */
export interface ComponentStart {
  /** Code generated by jco. */
  readonly glue: string;
  /** By the names that the glue uses. */
  readonly coreModules: ReadonlyMap<string, WebAssembly.Module>;
  readonly imports: readonly string[];
  readonly entry: string;
  /** Whether its core modules may import the host functions directly. */
  readonly fastLane: boolean;
  /** Of the instrumented core modules. */
  readonly turns: ReadonlyMap<string, Turns>;
}

/**
 * Bodies are JSON text: a string crosses threads faster than a transferred buffer of any length, and is written into guest
 * memory without another copy.
 */
export type HostReply =
  | readonly ['response', body: string, metrics: string, pending: readonly string[]]
  /** Of a streamed send: complete lines of JSON. */
  | readonly ['events', lines: string]
  | readonly ['tool', callback: number, fnOffset: number, args: string, maxOutputBytes: number]
  /** Either an errno or a body. */
  | readonly ['done', errno: ErrnoName | null, body: string | null, metrics: string]
  | readonly ['stdin', chunk: Uint8Array | null]
  | readonly ['stream_frame', frame: Uint8Array]
  /** The client has taken so many bytes. */
  | readonly ['stream_room', bytes: number]
  /** The client ended its side; all its frames were delivered. */
  | readonly ['stream_end']
  /** The client takes no more frames. */
  | readonly ['stream_gone']
  | readonly ['stream_event', streamId: number, kind: StreamEventKind]
  | GuestStart
  | SharedThreadMessage;

export type GuestStart = readonly ['start', core: CoreStart] | readonly ['start_component', component: ComponentStart];

/** Messages of shared threads only. */
export type SharedThreadMessage =
  /** To the thread: what `open` refers to by key. */
  | readonly ['module', key: number, start: GuestStart]
  | readonly ['forget_module', key: number]
  | readonly ['terms', key: number, terms: SharedGuestTerms]
  | readonly ['forget_terms', key: number]
  /** Counters of COUNTER_GUESTS guests. */
  | readonly ['counters', block: number, counters: Float64Array<SharedArrayBuffer>]
  | readonly ['ping', ping: number]
  | readonly ['open', guest: number, own: GuestOwnSpec, terms: number, module: number, counters: number]
  /** Cancels a guest. */
  | readonly ['end']
  /** Acknowledges posted output or journal events. */
  | readonly ['taken', what: PostedKind, amount: number];

/** Replies after which others to the same call follow. */
export const interimReplies: ReadonlySet<HostReply[0]> = new Set([
  'tool',
  'events',
  'stream_frame',
  'stream_room',
  'stream_end',
  'stream_gone',
  'stream_event',
] as const);

export type HostMessage = readonly [guest: number, call: number, ...HostReply];

/** One message, or a batch. */
export type HostPosted = HostMessage | readonly [messages: readonly HostMessage[]];

export const isFinalReply = (reply: HostReply): boolean => !interimReplies.has(reply[0]);

/** A message that an intact guest thread cannot send: the thread is no longer trusted. */
export class PortViolation extends Error {
  constructor(what: string) {
    super(`the guest thread violated the port protocol: ${what}`);
    this.name = 'PortViolation';
  }
}

/** Validates a message of a guest thread. @throws PortViolation */
export function parseGuestMessage(message: unknown): GuestMessage {
  if (!Array.isArray(message) || message.length < 4) throw new PortViolation('not a message');
  const [guest, call, parent, op, ...rest] = message as unknown[];
  if (!isCount(guest) || !isCount(call) || !isCount(parent)) throw new PortViolation('bad header');
  if (typeof op !== 'string' || !Object.hasOwn(requests, op)) throw new PortViolation('unknown op');
  const check = requests[op as GuestRequest[0]];
  if (!check(rest)) throw new PortViolation(`bad ${op}`);
  return message as unknown as GuestMessage;
}

const isCount = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0;
const isI32 = (value: unknown): value is number => typeof value === 'number' && (value | 0) === value;
const isText = (value: unknown): value is string => typeof value === 'string';
const isPair = (value: unknown, first: (v: unknown) => boolean, second: (v: unknown) => boolean) =>
  Array.isArray(value) && value.length === 2 && first(value[0]) && second(value[1]);
const isPairs = (value: unknown, first: (v: unknown) => boolean, second: (v: unknown) => boolean) =>
  Array.isArray(value) && value.every((pair) => isPair(pair, first, second));
const anything = (value: unknown) => value !== undefined;

const isOneText = ([text]: unknown[]) => isText(text);
const isServerRequest = ([session, serverId, name, args]: unknown[]) =>
  isI32(session) && isText(serverId) && isText(name) && isText(args);

const requests: Readonly<Record<GuestRequest[0], (rest: unknown[]) => boolean>> = {
  send: ([session, flags, delta]) =>
    isI32(session) &&
    isI32(flags) &&
    isJsonObject(delta) &&
    isPairs(delta.messages, isText, isText) &&
    isPairs(delta.tools, isI32, isText) &&
    isPairs(delta.toolResults, isText, isText) &&
    isPairs(delta.params, isText, anything),
  cancel: () => true,
  read: ([bytes]) => isCount(bytes),
  tool_result: ([callback, rc, content]) => isCount(callback) && isI32(rc) && isText(content),
  close_session: ([session]) => isI32(session),
  stdin: ([maxBytes]) => isCount(maxBytes),
  mcp_open: isOneText,
  mcp_list: isOneText,
  mcp_list_resources: isOneText,
  mcp_list_prompts: isOneText,
  mcp_call: isServerRequest,
  mcp_read_resource: isServerRequest,
  mcp_get_prompt: isServerRequest,
  mcp_registry: ([serverId]) => serverId === null || isText(serverId),
  stream_open: ([streamId, direction]) => isCount(streamId) && (direction === 1 || direction === 2 || direction === 3),
  stream_watch: () => true,
  stream_frame: ([frame]) =>
    frame instanceof Uint8Array && frame.buffer instanceof ArrayBuffer && typeof readWholeFrame(frame) !== 'string',
  stream_taken: ([bytes]) => isCount(bytes),
  stream_close: () => true,
  output: ([stream, bytes]) =>
    (stream === 'stdout' || stream === 'stderr') &&
    bytes instanceof Uint8Array &&
    bytes.buffer instanceof ArrayBuffer &&
    bytes.byteLength <= MAX_OUTPUT_CHUNK,
  notice: ([text]) => isText(text),
  journal: () => true,
  live: () => true,
  sleeps: ([timer, ms]) => isCount(timer) && isCount(ms),
  woke: ([timer]) => isCount(timer),
  rests: ([heard]) => isCount(heard),
  replay: ([state, detail]) => replayStates.some((known) => known === state) && isText(detail),
  pong: ([ping, memoryBytes, grown]) => isCount(ping) && isCount(memoryBytes) && isCount(grown),
  ended: ([report]) => isJsonObject(report) && isEnding(report.ending) && isCount(report.droppedLogLines),
};

function isEnding(value: unknown): boolean {
  if (!isJsonObject(value)) return false;
  if (value.kind === 'exit') return isI32(value.code);
  if (value.kind === 'trap') return isText(value.message) && isText(value.stack);
  return value.kind === 'load_failed' && isText(value.message);
}

/** First message to a guest thread: plain data without secrets. Exactly one of the two is set. */
export interface ThreadSpec {
  /** The guest of a dedicated thread; its module follows when it is compiled. */
  readonly guest: DedicatedSpec | null;
  readonly shared: SharedThreadSpec | null;
}

export interface SharedThreadSpec {
  /** Shared memory with {@link preemptionWords}. */
  readonly turns: WebAssembly.Memory;
  /** Limit of the linear memory of all guests together. */
  readonly memoryBytes: number;
}
