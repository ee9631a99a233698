import { canonicalJson, isJsonObject, type JsonObject } from '../../base/json.ts';
import type { PendingTurn, RecordedSend } from '../../runtime/durable/journal.ts';
import type { SessionDelta } from '../../runtime/port/port.ts';
import type { ChatHistory, OpenTurn, TurnCall } from './history.ts';

const MAX_USAGE_DEPTH = 4;

/** Cost of a send. Counters continue from a handed-back turn. */
export class SendMetrics {
  iterations: number;
  toolCalls: number;
  toolBytes = 0;
  modelMs = 0;
  #usage: JsonObject | null = null;
  readonly #started = performance.now();
  readonly #before: { readonly iterations: number; readonly toolCalls: number };

  constructor(turn: OpenTurn | undefined) {
    this.#before = { iterations: turn?.iterations ?? 0, toolCalls: turn?.toolCalls ?? 0 };
    this.iterations = this.#before.iterations;
    this.toolCalls = this.#before.toolCalls;
  }

  /** Counters of this send alone, for totals of a run. */
  get own(): { readonly iterations: number; readonly toolCalls: number } {
    const { iterations, toolCalls } = this.#before;
    return { iterations: this.iterations - iterations, toolCalls: this.toolCalls - toolCalls };
  }

  answered(body: JsonObject): void {
    if (!isJsonObject(body.usage)) return;
    this.#usage = this.#usage === null ? body.usage : added(this.#usage, body.usage, MAX_USAGE_DEPTH);
  }

  get usage(): JsonObject {
    return this.#usage ?? {};
  }

  toJson(responseBytes: number): string {
    const total = performance.now() - this.#started;
    return canonicalJson({
      duration_ms: Math.round(total),
      iterations: this.iterations,
      model_ms: Math.round(this.modelMs),
      response_bytes: responseBytes,
      tool_calls: this.toolCalls,
      tool_output_bytes: this.toolBytes,
      usage: this.usage,
    });
  }
}

/** Usage of all model calls of a send: sums of numbers, the latest value of anything else. */
function added(sum: JsonObject, usage: JsonObject, depth: number): JsonObject {
  const result: JsonObject = { ...sum };
  for (const [key, value] of Object.entries(usage)) {
    const before = result[key];
    if (typeof value === 'number' && typeof before === 'number') result[key] = before + value;
    else if (isJsonObject(value) && depth > 0)
      result[key] = added(isJsonObject(before) ? before : {}, value, depth - 1);
    else result[key] = value;
  }
  return result;
}

/** Effect of a send on its session: the messages from index `before` on. */
export function settledSend({ messages, openTurn }: ChatHistory, before: number): RecordedSend {
  return { messages: messages.slice(before), turn: openTurn === undefined ? null : settledTurn(openTurn) };
}

/** Applies a recorded effect without calling the model or tools. */
export function restoreSend(history: ChatHistory, delta: SessionDelta, { messages, turn }: RecordedSend): void {
  history.apply(delta);
  history.messages.push(...messages);
  history.openTurn = turn === null ? undefined : openTurn(turn);
}

function settledTurn({ calls, handedBack, iterations, toolCalls }: OpenTurn): PendingTurn {
  return {
    calls: calls.map(({ id, name, arguments: args, result }) => ({
      id,
      name,
      arguments: args,
      result: result ?? null,
    })),
    handed_back: handedBack.map((call) => calls.indexOf(call)),
    iterations,
    tool_calls: toolCalls,
  };
}

function openTurn({ calls: settled, handed_back, iterations, tool_calls: toolCalls }: PendingTurn): OpenTurn {
  const calls: TurnCall[] = settled.map(({ result, ...call }) => ({ ...call, result: result ?? undefined }));
  const handedBack = handed_back.flatMap((index) => calls[index] ?? []);
  return { calls, handedBack, handedBackAt: performance.now(), iterations, toolCalls };
}
