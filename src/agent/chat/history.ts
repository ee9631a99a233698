import { canonicalJson, isJsonObject, type JsonObject, type JsonValue, parseJson } from '../../base/json.ts';
import { checkParam, type NumberParam, numberParams } from '../../runtime/abi/chat-params.ts';
import type { SessionDelta } from '../../runtime/port/port.ts';
import type { ImagePlacement } from './backend.ts';
import { toolError } from './error-body.ts';

/** A tool that lives in the guest. */
export interface GuestTool {
  readonly name: string;
  /** Index into the guest's function table; negative: handed back. */
  readonly fnOffset: number;
  /** The OpenAI tool object. */
  readonly definition: JsonObject;
}

/** A tool call of the model's last turn and, once there is one, its answer. */
export interface TurnCall {
  readonly id: string;
  readonly name: string;
  readonly arguments: string;
  result: string | undefined;
  /** What of the answer a model looks at, and where it does. */
  images?: { readonly parts: readonly JsonObject[]; readonly placement: ImagePlacement };
}

/** A turn whose guest tools were handed back: the limits go on counting when the guest sends again. */
export interface OpenTurn {
  readonly calls: readonly TurnCall[];
  /** Those of them that the guest was to answer, and when it was asked to. */
  readonly handedBack: readonly TurnCall[];
  readonly handedBackAt: number;
  readonly iterations: number;
  readonly toolCalls: number;
}

/** Parameters that steer the host; the provider never sees them. */
const HOST_PARAMS = new Set<string>([...Object.keys(numberParams), 'backend', 'model', 'tool_choice']);

/** A guest that canceled or closed a response never saw which calls it was to answer. */
export const UNANSWERED = canonicalJson(toolError('cancelled', 'the guest did not answer this call'));

/**
 * The messages that answer the calls of a turn: one for each, and after them one of the user with the images, where the
 * model takes them there. Precondition: each call has a result.
 */
export function resultMessages(calls: readonly TurnCall[]): JsonObject[] {
  const answers = calls.map(resultMessage);
  const shown = calls.flatMap(followingImages);
  return shown.length === 0 ? answers : [...answers, { role: 'user', content: shown }];
}

function resultMessage(call: TurnCall): JsonObject {
  const { id, result = '' } = call;
  const parts = call.images?.placement === 'tool_message' ? call.images.parts : [];
  const content = parts.length === 0 ? result : [{ type: 'text', text: result }, ...parts];
  return { role: 'tool', tool_call_id: id, content };
}

function followingImages({ id, name, images }: TurnCall): JsonObject[] {
  if (images?.placement !== 'user_message') return [];
  return [{ type: 'text', text: `Images of the result of tool call ${id} (${name}):` }, ...images.parts];
}

/** One conversation. The host owns it: the guest ships only what it wrote since the last send. */
export class ChatHistory {
  readonly messages: JsonObject[] = [];
  readonly tools = new Map<string, GuestTool>();
  readonly #params = new Map<string, JsonValue>();
  openTurn: OpenTurn | undefined;

  apply(delta: SessionDelta): void {
    for (const [key, value] of delta.params) this.#setParam(key, value);
    for (const [fnOffset, json] of delta.tools) this.#addTool(fnOffset, json);
    for (const [id, content] of delta.toolResults) this.#answer(id, content);
    this.#closeTurn();
    for (const [role, content] of delta.messages) this.messages.push({ role, content });
  }

  number(name: NumberParam): number {
    const value = this.#params.get(name);
    return typeof value === 'number' ? value : numberParams[name].default;
  }

  text(name: 'model' | 'backend'): string | undefined {
    const value = this.#params.get(name);
    return typeof value === 'string' ? value : undefined;
  }

  param(key: string): JsonValue | undefined {
    return this.#params.get(key);
  }

  /** What goes upstream as it is: everything that is not ours, in the order it was first set. */
  forwarded(): [string, JsonValue][] {
    return [...this.#params].filter(([key]) => !HOST_PARAMS.has(key) && !key.startsWith('mcp.'));
  }

  mcpParams(): [string, JsonValue][] {
    return [...this.#params].filter(([key]) => key.startsWith('mcp.'));
  }

  // Checked on the guest's thread already, but that thread is not trusted.
  #setParam(key: string, value: JsonValue): void {
    if (key.startsWith('mcp.')) {
      this.#params.set(key, value);
      return;
    }
    const checked = checkParam(key, value);
    if (typeof checked !== 'string') this.#params.set(checked.key, checked.value);
  }

  #addTool(fnOffset: number, json: string): void {
    const given = parseJson(json);
    if (!isJsonObject(given)) return;
    const definition: JsonObject = isJsonObject(given.function) ? given : { type: 'function', function: given };
    const name = (definition.function as JsonObject).name;
    if (typeof name === 'string') this.tools.set(name, { name, fnOffset, definition });
  }

  #answer(id: string, content: string): void {
    const call = this.openTurn?.calls.find((open) => open.id === id && open.result === undefined);
    if (call) call.result = content;
  }

  #closeTurn(): void {
    if (!this.openTurn) return;
    for (const call of this.openTurn.calls) call.result ??= UNANSWERED;
    this.messages.push(...resultMessages(this.openTurn.calls));
  }
}
