import type { JsonObject } from '../../base/json.ts';
import type { RefusedTool, ShownTool, ToolStartRecord, ToolsRecord } from './journal.ts';

export type StartedTool = Omit<ToolStartRecord, 't' | 'attempt'>;

/** What the recorded history has about a call: its result, or only that it was sent. */
export type EarlierCall =
  | { readonly kind: 'finished'; readonly json: string }
  /** `attempt`: the one that sent the call. */
  | { readonly kind: 'unknown'; readonly attempt: number };

/** The server tools of one send. */
export interface ShownTools {
  readonly tools: readonly ShownTool[];
  readonly definitions: readonly JsonObject[];
  readonly systemMessage: string | null;
}

/** The part of a run's journal that tool calls use. */
export interface ToolJournal {
  /** Number of this attempt, from 1. */
  readonly attempt: number;
  /** Whether the run has ended in a resumable way. */
  readonly isInterrupted: boolean;
  /** Of an asynchronous storage: resolves when everything so far is written. @throws JournalError */
  readonly written: (() => Promise<void>) | undefined;
  /** The call is about to be sent; written when this returns, or when `written` resolves. @throws JournalError */
  started(call: StartedTool): void;
  /** `refused`: the request, if the call was never started. */
  finished(ordinal: string, json: string, code: string | null, refused: RefusedTool | null): void;
  /** The tools of a send; `key` is the same object while they are the same. */
  injected(session: string, params: ToolsRecord['params'], key: object, shown: () => ShownTools): void;
  earlier(ordinal: string): EarlierCall | null;
  /** An approval was requested or decided. */
  approval(event: JsonObject): void;
}
