import { isJsonObject, type JsonObject } from '../../../base/json.ts';
import { knownSecrets } from '../../../server/secrets/redactor.ts';
import { reasoningOf } from '../answer-events.ts';
import type { AnswerDeltas } from '../backend.ts';

/**
 * The deltas of a provider's stream on their way out, without any secret that this process knows: a gateway that repeats
 * what it was sent must not give the guest its key, not even in pieces.
 */
export class CleanDeltas {
  readonly #out: AnswerDeltas;
  readonly #onFirst: () => void;
  #kind: 'text' | 'reasoning' = 'text';
  /** May be the beginning of a secret. */
  #held = '';
  #began = false;

  constructor(out: AnswerDeltas, onFirst: () => void) {
    this.#out = out;
    this.#onFirst = onFirst;
  }

  /** Of several answers at once the first is told. */
  add(chunk: JsonObject): void {
    if (!this.#began) this.#onFirst();
    this.#began = true;
    if (!Array.isArray(chunk.choices)) return;
    for (const choice of chunk.choices) {
      if (!isJsonObject(choice) || !isJsonObject(choice.delta) || (choice.index ?? 0) !== 0) continue;
      this.#take('reasoning', reasoningOf(choice.delta));
      this.#take('text', typeof choice.delta.content === 'string' ? choice.delta.content : undefined);
    }
  }

  room(): Promise<void> | null {
    return this.#out.room();
  }

  /** Nothing follows: what was held is no secret. */
  end(): void {
    this.#tell(this.#held);
    this.#held = '';
  }

  #take(kind: 'text' | 'reasoning', delta: string | undefined): void {
    if (delta === undefined || delta === '') return;
    if (kind !== this.#kind) this.end();
    this.#kind = kind;
    const text = this.#held + delta;
    const settled = knownSecrets.settledLength(text);
    this.#held = text.slice(settled);
    this.#tell(text.slice(0, settled));
  }

  #tell(text: string): void {
    if (text !== '') this.#out[this.#kind](knownSecrets.redact(text));
  }
}
