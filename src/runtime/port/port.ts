import { isJsonObject, type JsonValue } from '../../base/json.ts';
import type { ErrnoName } from '../abi/errno.ts';
import {
  type GuestOwnSpec,
  MAX_OUTPUT_CHUNK,
  type PostedKind,
  type SharedGuestTerms,
  type StandardStream,
} from './guest-spec.ts';
import type { Turns } from './preemption.ts';
import { readWholeFrame, type StreamEventKind } from './user-stream.ts';

// What the host thread and the guest thread say to each other: plain data, so that a process could stand where the
// worker stands. Every message names its guest, its call and the call on top of which it was made (0: none). On a thread
// that guests share, guest 0 is the thread itself; on one of its own, the guest.

/** What a guest wrote into a session since its last send. The host keeps the history. */
export interface SessionDelta {
  readonly messages: readonly (readonly [role: string, content: string])[];
  readonly tools: readonly (readonly [fnOffset: number, definition: string])[];
  readonly toolResults: readonly (readonly [id: string, content: string])[];
  readonly params: readonly (readonly [key: string, value: JsonValue])[];
}

/** Events of a streamed send that the guest has not read: beyond it the host stops reading from the provider. */
export const STREAM_WINDOW_BYTES = 64 * 1024;

/** How the guest's own side of a run ended. */
export type GuestEnding =
  | { readonly kind: 'exit'; readonly code: number }
  | { readonly kind: 'trap'; readonly message: string; readonly stack: string }
  | { readonly kind: 'load_failed'; readonly message: string };

export interface GuestReport {
  readonly ending: GuestEnding;
  readonly droppedLogLines: number;
}

/** `name`: of a tool or a prompt, or the uri of a resource. */
type ServerRequest = readonly [session: number, serverId: string, name: string, args: string];

export type GuestRequest =
  | readonly ['send', session: number, flags: number, delta: SessionDelta]
  | readonly ['cancel']
  /** Of the events of a streamed send: makes room for more. */
  | readonly ['read', bytes: number]
  | readonly ['tool_result', callback: number, rc: number, content: string]
  /** Answered when nothing of it is held any more; with call 0 not at all. */
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
  /** Open until it is closed; nothing answers it but what happens on the stream. The watch is of all streams. */
  | readonly ['stream_open', streamId: number, direction: number]
  | readonly ['stream_watch']
  | readonly ['stream_frame', frame: Uint8Array<ArrayBuffer>]
  /** The guest has read so much of it. */
  | readonly ['stream_taken', bytes: number]
  | readonly ['stream_close']
  | readonly ['output', stream: StandardStream, bytes: Uint8Array<ArrayBuffer>]
  | readonly ['notice', text: string]
  /** Nothing: what the replayLog has written comes with it. */
  | readonly ['journal']
  /** Of a guest that goes on after its journal: from here on it is new. */
  | readonly ['live']
  /** A timer of the guest that lasts long is set, or is over. */
  | readonly ['sleeps', timer: number, ms: number]
  | readonly ['woke', timer: number]
  /** The guest has waited long, and nothing of it will happen unless it is told something, or a timer above is over. */
  | readonly ['rests', heard: number]
  | readonly ['replay', state: ReplayState, detail: string]
  | readonly ['ended', report: GuestReport]
  /** Of a shared thread: it turned round since that ping, its guests have so much linear memory, and one has grown most. */
  | readonly ['pong', ping: number, memoryBytes: number, grown: number];

/** How it goes with a guest that lives through a journal again: there is no more of it, or it is another run. */
export const replayStates = ['exhausted', 'diverged'] as const;
export type ReplayState = (typeof replayStates)[number];

export type GuestMessage = readonly [guest: number, call: number, parent: number, ...GuestRequest];

/** Whether the guest's thread posted several messages together: a list of them, and nothing else. */
export const isBatch = (posted: unknown): posted is readonly [messages: readonly unknown[]] =>
  Array.isArray(posted) && posted.length === 1 && Array.isArray(posted[0]);

/** An import that no host function stands behind; it answers ENOSYS in the type it has. */
export interface UnknownImport {
  readonly module: string;
  readonly name: string;
  readonly result: string;
}

/** A module that may run, as its thread starts it. */
export interface CoreStart {
  readonly module: WebAssembly.Module;
  readonly unknownImports: readonly UnknownImport[];
  /** Null: it does not give way. */
  readonly turns: Turns | null;
}

/** A component that may run, as its thread starts it. */
export interface ComponentStart {
  /** The code that jco generated for it. */
  readonly glue: string;
  /** By the names under which the glue asks for them. */
  readonly coreModules: ReadonlyMap<string, WebAssembly.Module>;
  readonly imports: readonly string[];
  readonly entry: string;
  /** Whether its core modules may be given our functions directly. */
  readonly fastLane: boolean;
  /** Of those core modules that give way. */
  readonly turns: ReadonlyMap<string, Turns>;
}

/**
 * Bodies are JSON text. A string crosses faster than its bytes in a buffer that is handed over, at any length, and the
 * guest thread writes it into the guest's memory without a copy between.
 */
export type HostReply =
  | readonly ['response', body: string, metrics: string, pending: readonly string[]]
  /** Of a streamed send: whole lines of JSON, each with its end. */
  | readonly ['events', lines: string]
  | readonly ['tool', callback: number, fnOffset: number, args: string, maxOutputBytes: number]
  /** Without a body exactly where there is an errno. */
  | readonly ['done', errno: ErrnoName | null, body: string | null, metrics: string]
  | readonly ['stdin', chunk: Uint8Array | null]
  | readonly ['stream_frame', frame: Uint8Array]
  /** The client has taken so much of what was written. */
  | readonly ['stream_room', bytes: number]
  /** The client has sent its last frame; every one of it was handed over. */
  | readonly ['stream_end']
  /** It takes no more frames. */
  | readonly ['stream_gone']
  | readonly ['stream_event', streamId: number, kind: StreamEventKind]
  | GuestStart
  | SharedThreadMessage;

/** What a guest begins with. */
export type GuestStart = readonly ['start', core: CoreStart] | readonly ['start_component', component: ComponentStart];

/** What is said only on a thread that guests share. */
export type SharedThreadMessage =
  /** To the thread: what guests may be started with, until it is to forget it. */
  | readonly ['module', key: number, start: GuestStart]
  | readonly ['forget_module', key: number]
  | readonly ['terms', key: number, terms: SharedGuestTerms]
  | readonly ['forget_terms', key: number]
  /** Where so many of its guests count. */
  | readonly ['counters', block: number, counters: Float64Array<SharedArrayBuffer>]
  | readonly ['ping', ping: number]
  | readonly ['open', guest: number, own: GuestOwnSpec, terms: number, module: number, counters: number]
  /** To a guest: it is to end. */
  | readonly ['end']
  /** The host has taken so much of the guest's output, or of its replayLog. */
  | readonly ['taken', what: PostedKind, amount: number];

/** None of these is the last word on its call. */
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

/** What the host posts: one message, or several together. */
export type HostPosted = HostMessage | readonly [messages: readonly HostMessage[]];

/** Whether nothing more follows about the call. */
export const isFinalReply = (reply: HostReply): boolean => !interimReplies.has(reply[0]);

/** Thrown on a message that our own guest thread cannot have sent: the thread is not to be trusted any more. */
export class PortViolation extends Error {
  constructor(what: string) {
    super(`the guest thread violated the port protocol: ${what}`);
    this.name = 'PortViolation';
  }
}

/** Checks a message from a guest thread as if it came from the network: it runs next to untrusted code. */
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
