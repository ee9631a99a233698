import type { JsonObject } from '../../base/json.ts';
import type { RefusedTool, ShownTool, ToolStartRecord, ToolsRecord } from './journal.ts';

export type StartedTool = Omit<ToolStartRecord, 't' | 'attempt'>;

/** What an earlier attempt of the run knows of a call: its result, or that it was sent and nothing came back. */
export type EarlierCall =
  | { readonly kind: 'finished'; readonly json: string }
  /** `attempt`: which sent it. */
  | { readonly kind: 'unknown'; readonly attempt: number };

/** The tools of servers that one send gets. */
export interface ShownTools {
  readonly tools: readonly ShownTool[];
  readonly definitions: readonly JsonObject[];
  readonly systemMessage: string | null;
}

/** The tool calls of a run, in its journal. */
export interface ToolJournal {
  /** How many times the run was begun or taken up again. */
  readonly attempt: number;
  /** Whether the run has ended in a way that it may be taken up again from. */
  readonly isInterrupted: boolean;
  /** Where the journal is far away: what was told to it so far is written when it resolves. @throws where it cannot be */
  readonly written: (() => Promise<void>) | undefined;
  /** It is about to leave; that is written when this returns, or `written` resolves. @throws where it cannot be */
  started(call: StartedTool): void;
  /** `refused`: what was wanted, where it was never started. */
  finished(ordinal: string, json: string, code: string | null, refused: RefusedTool | null): void;
  /** A send gets these; `key` is the same object as long as they are the same. */
  injected(session: string, params: ToolsRecord['params'], key: object, shown: () => ShownTools): void;
  earlier(ordinal: string): EarlierCall | null;
  /** Somebody was asked about a call, or decided. */
  approval(event: JsonObject): void;
}
