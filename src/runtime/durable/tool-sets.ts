import { hash } from 'node:crypto';
import type { ToolsRecord } from './journal.ts';
import type { ShownTools } from './tool-journal.ts';

/** Sessions whose last set is remembered; of others it is written again. */
const MAX_SESSIONS = 1_024;

/** Which tools the sends of a run get: each set is written once, each session says which it has when that changes. */
export class ToolSets {
  readonly #byKey = new WeakMap<object, number>();
  readonly #byContent = new Map<string, number>();
  readonly #sessions = new Map<string, string>();

  /** Null: the session has them already. */
  record(session: string, params: ToolsRecord['params'], key: object, shown: () => ShownTools): ToolsRecord | null {
    let set = this.#byKey.get(key);
    let content: ShownTools | null = null;
    if (set === undefined) {
      content = shown();
      const sum = hash('sha256', JSON.stringify(content));
      const known = this.#byContent.get(sum);
      set = known ?? this.#byContent.size + 1;
      this.#byContent.set(sum, set);
      this.#byKey.set(key, set);
      if (known !== undefined) content = null;
    }
    const has = `${set} ${JSON.stringify(params)}`;
    if (content === null && this.#sessions.get(session) === has) return null;
    if (this.#sessions.size >= MAX_SESSIONS) this.#sessions.clear();
    this.#sessions.set(session, has);
    const record = { t: 'tools', session, params, set } as const;
    if (content === null) return record;
    const { tools, definitions, systemMessage } = content;
    return { ...record, shown: tools, definitions, system: systemMessage };
  }
}
