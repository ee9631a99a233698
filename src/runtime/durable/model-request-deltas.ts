import type { JsonObject } from '../../base/json.ts';
import type { ModelRequestRecord } from './journal.ts';

/** Sessions whose last request is retained; for others the whole request is written. */
const MAX_SESSIONS = 1_024;

/** Deltas between consecutive model requests of each session. */
export class ModelRequestDeltas {
  readonly #sent = new Map<string, readonly JsonObject[]>();

  difference(
    session: string,
    { messages, tools: _tools, ...head }: JsonObject & { readonly messages: readonly JsonObject[] },
  ): Required<Pick<ModelRequestRecord, 'session' | 'kept' | 'said' | 'head'>> {
    const before = this.#sent.get(session) ?? [];
    let kept = 0;
    while (kept < before.length && kept < messages.length && isSame(before[kept], messages[kept])) kept += 1;
    if (this.#sent.size >= MAX_SESSIONS) this.#sent.clear();
    this.#sent.set(session, [...messages]);
    return { session, kept, said: messages.slice(kept), head };
  }
}

/** A session reuses its message objects; only messages injected into a send are new objects. */
function isSame(one: JsonObject | undefined, other: JsonObject | undefined): boolean {
  return one === other || JSON.stringify(one) === JSON.stringify(other);
}
