import type { ErrnoName } from '../abi/errno.ts';
import type { JsonValue } from '../base/json.ts';
import { isJsonObject } from '../base/json.ts';
import { MAX_OUTPUT_CHUNK, type StandardStream } from './guest-spec.ts';

// What the host thread and the guest thread say to each other: plain data, so that a process could stand where the
// worker stands. Every message names its guest, its call and the call on top of which it was made (0: none).

/** What a guest wrote into a session since its last send. The host keeps the history. */
export interface SessionDelta {
  readonly messages: readonly (readonly [role: string, content: string])[];
  readonly tools: readonly (readonly [fnOffset: number, definition: string])[];
  readonly toolResults: readonly (readonly [id: string, content: string])[];
  readonly params: readonly (readonly [key: string, value: JsonValue])[];
}

/** How the guest's own side of a run ended. */
export type GuestEnding =
  | { readonly kind: 'exit'; readonly code: number }
  | { readonly kind: 'trap'; readonly message: string; readonly stack: string }
  | { readonly kind: 'load_failed'; readonly message: string };

export interface GuestReport {
  readonly ending: GuestEnding;
  readonly hostcalls: Readonly<Record<string, number>>;
  readonly droppedLogLines: number;
}

export type GuestRequest =
  | readonly ['send', session: number, flags: number, delta: SessionDelta]
  | readonly ['cancel']
  | readonly ['tool_result', callback: number, rc: number, content: string]
  | readonly ['close_session', session: number]
  | readonly ['stdin', maxBytes: number]
  | readonly ['mcp_open', serverId: string]
  | readonly ['mcp_list', serverId: string]
  | readonly ['mcp_call', session: number, serverId: string, tool: string, args: string]
  | readonly ['mcp_registry', serverId: string | null]
  | readonly ['output', stream: StandardStream, bytes: Uint8Array<ArrayBuffer>]
  | readonly ['notice', text: string]
  | readonly ['counted', hostcalls: Readonly<Record<string, number>>]
  | readonly ['ended', report: GuestReport];

export type GuestMessage = readonly [guest: number, call: number, parent: number, ...GuestRequest];

/** An import that no host function stands behind; it answers ENOSYS in the type it has. */
export interface UnknownImport {
  readonly module: string;
  readonly name: string;
  readonly result: string;
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
}

export type HostReply =
  | readonly ['response', body: ArrayBuffer, metrics: string, pending: readonly string[]]
  | readonly ['tool', callback: number, fnOffset: number, args: string, maxOutputBytes: number]
  /** Without a body exactly where there is an errno. */
  | readonly ['done', errno: ErrnoName | null, body: ArrayBuffer | null, metrics: string]
  | readonly ['stdin', chunk: Uint8Array | null]
  /** Asks for the hostcalls made so far. */
  | readonly ['count']
  | readonly ['start', module: WebAssembly.Module, unknownImports: readonly UnknownImport[]]
  | readonly ['start_component', component: ComponentStart];

export type HostMessage = readonly [guest: number, call: number, ...HostReply];

/** Thrown on a message that our own guest thread cannot have sent: the thread is not to be trusted any more. */
export class PortViolation extends Error {
  constructor(what: string) {
    super(`the guest thread broke the port protocol: ${what}`);
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
const isCounts = (value: unknown) => isJsonObject(value) && Object.values(value).every(isCount);
const isI32 = (value: unknown): value is number => typeof value === 'number' && (value | 0) === value;
const isText = (value: unknown): value is string => typeof value === 'string';
const isPair = (value: unknown, first: (v: unknown) => boolean, second: (v: unknown) => boolean) =>
  Array.isArray(value) && value.length === 2 && first(value[0]) && second(value[1]);
const isPairs = (value: unknown, first: (v: unknown) => boolean, second: (v: unknown) => boolean) =>
  Array.isArray(value) && value.every((pair) => isPair(pair, first, second));
const anything = (value: unknown) => value !== undefined;

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
  tool_result: ([callback, rc, content]) => isCount(callback) && isI32(rc) && isText(content),
  close_session: ([session]) => isI32(session),
  stdin: ([maxBytes]) => isCount(maxBytes),
  mcp_open: ([serverId]) => isText(serverId),
  mcp_list: ([serverId]) => isText(serverId),
  mcp_call: ([session, serverId, tool, args]) => isI32(session) && isText(serverId) && isText(tool) && isText(args),
  mcp_registry: ([serverId]) => serverId === null || isText(serverId),
  output: ([stream, bytes]) =>
    (stream === 'stdout' || stream === 'stderr') &&
    bytes instanceof Uint8Array &&
    bytes.buffer instanceof ArrayBuffer &&
    bytes.byteLength <= MAX_OUTPUT_CHUNK,
  notice: ([text]) => isText(text),
  counted: ([hostcalls]) => isCounts(hostcalls),
  ended: ([report]) =>
    isJsonObject(report) && isEnding(report.ending) && isCounts(report.hostcalls) && isCount(report.droppedLogLines),
};

function isEnding(value: unknown): boolean {
  if (!isJsonObject(value)) return false;
  if (value.kind === 'exit') return isI32(value.code);
  if (value.kind === 'trap') return isText(value.message) && isText(value.stack);
  return value.kind === 'load_failed' && isText(value.message);
}
