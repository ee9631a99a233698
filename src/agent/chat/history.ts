import { canonicalJson, isJsonObject, type JsonObject, type JsonValue, parseJson } from '../../base/json.ts';
import { checkParam, type NumberParam, numberParams } from '../../runtime/abi/chat-params.ts';
import type { SessionDelta } from '../../runtime/port/port.ts';
import { type ImagePlacement, toolError } from './backend.ts';

/** Tool implemented by the guest. */
export interface GuestTool {
  readonly name: string;
  /** Index in the guest's function table; negative: calls are handed back to the guest. */
  readonly fnOffset: number;
  /** The OpenAI tool object. */
  readonly definition: JsonObject;
}

/** Tool call of the model's last turn, with its result once there is one. */
export interface TurnCall {
  readonly id: string;
  readonly name: string;
  readonly arguments: string;
  result: string | undefined;
  /** Images of the result, and where the model accepts them. */
  images?: { readonly parts: readonly JsonObject[]; readonly placement: ImagePlacement };
}

/** Turn whose tool calls were handed back to the guest. The next send continues its limits. */
export interface OpenTurn {
  readonly calls: readonly TurnCall[];
  /** Calls that the guest has to answer, and when they were handed back. */
  readonly handedBack: readonly TurnCall[];
  readonly handedBackAt: number;
  readonly iterations: number;
  readonly toolCalls: number;
}

/** Parameters for the host; they are not sent to the provider. */
const HOST_PARAMS = new Set<string>([...Object.keys(numberParams), 'backend', 'model', 'tool_choice']);

/** A guest that canceled or closed a response never saw the calls that it should answer. */
export const UNANSWERED = canonicalJson(toolError('cancelled', 'the guest did not answer this call'));

/**
 * Tool result messages for the calls of a turn, followed by a user message with their images if the model accepts images
 * there. Precondition: each call has a result.
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

/** Messages of one session, owned by the host. The guest sends only the messages since its last send. */
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

  /** Parameters for the provider: all that the host does not use, in the order they were first set. */
  forwarded(): [string, JsonValue][] {
    return [...this.#params].filter(([key]) => !HOST_PARAMS.has(key) && !key.startsWith('mcp.'));
  }

  mcpParams(): [string, JsonValue][] {
    return [...this.#params].filter(([key]) => key.startsWith('mcp.'));
  }

  // The guest's thread checks this too, but it is not trusted.
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

/** Tool result for a model that accepts images: the text, and the images as message parts. */
export interface ShownResult {
  readonly text: string;
  readonly images: readonly JsonObject[];
}

/** Maximum per result. `max_tool_output_bytes` of the record and of the session bounds their size. */
export const MAX_RESULT_IMAGES = 16;

// Untrusted text of the server becomes part of a data URL, so only valid characters are accepted.
const imageType = /^image\/[a-z0-9.+-]{1,40}$/;
const base64 = /^[A-Za-z0-9+/]+={0,2}$/;

/** Extracts the images of an MCP tool result; placeholders in the text refer to them. */
export function takeImages(result: string): ShownResult {
  const plain = { text: result, images: [] };
  if (!result.includes('"type":"image"')) return plain;
  const parsed = parseJson(result);
  if (!isJsonObject(parsed) || !Array.isArray(parsed.content)) return plain;
  const images: JsonObject[] = [];
  const content = parsed.content.map((block) => {
    const url = images.length < MAX_RESULT_IMAGES ? imageUrl(block) : null;
    if (url === null) return block;
    images.push({ type: 'image_url', image_url: { url } });
    return { type: 'text', text: `[image ${images.length} of this result is shown to you]` };
  });
  return images.length === 0 ? plain : { text: canonicalJson({ ...parsed, content }), images };
}

function imageUrl(block: JsonValue): string | null {
  if (!isJsonObject(block) || block.type !== 'image') return null;
  const { data, mimeType } = block;
  if (typeof data !== 'string' || typeof mimeType !== 'string') return null;
  return imageType.test(mimeType) && base64.test(data) ? `data:${mimeType};base64,${data}` : null;
}
