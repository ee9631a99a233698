import type { JsonObject } from '../../base/json.ts';

/** What happens during a send, in the words that a guest reads with `cchat_read`. */
export type ModelEvent =
  | { readonly type: 'text' | 'reasoning'; readonly text: string }
  /** The model wants this call, and its arguments are complete. */
  | { readonly type: 'tool_start'; readonly id: string; readonly name: string }
  | { readonly type: 'tool_result'; readonly id: string; readonly name: string; readonly ok: boolean }
  /** As the provider counts, for one answer of the model. */
  | { readonly type: 'usage'; readonly usage: JsonObject }
  /** The error object of the body. */
  | { readonly type: 'error'; readonly error: JsonObject }
  /** The last one: the finish reason of the last answer, or `error`. */
  | { readonly type: 'end'; readonly finish_reason: string };

/** Takes the events of one send, in their order. */
export interface EventSink {
  emit(event: ModelEvent): void;
  /** Null: there is room for more. Else resolves when there is. */
  room(): Promise<void> | null;
}

/** All of them are told; who reads slowest sets the pace. */
export function everySink(sinks: readonly EventSink[]): EventSink | null {
  if (sinks.length < 2) return sinks[0] ?? null;
  return {
    emit: (event) => {
      for (const sink of sinks) sink.emit(event);
    },
    room: () => {
      const full = sinks.map((sink) => sink.room()).filter((room) => room !== null);
      return full.length === 0 ? null : Promise.all(full).then(() => {});
    },
  };
}
