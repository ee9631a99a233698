import { canonicalJson, isJsonObject, type JsonObject } from '../../base/json.ts';
import type { OpenTurn } from './history.ts';

const MAX_USAGE_DEPTH = 4;

/** What a send cost. Counters go on where a handed-back turn left them. */
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

  /** This send alone, so that the sends of a run can be added up. */
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

/** Usage over all model calls of a send: numbers add up, anything else is the latest. */
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
