import { randomUUID } from 'node:crypto';
import { Listeners } from '../base/listeners.ts';
import { type LiveJson, type LiveTopic, liveTopics } from './console-api.ts';

/** Which parts of the registry have changed, as numbers that only rise: whoever missed one sees it in the next. */
export class LiveTopics {
  readonly #boot = randomUUID();
  readonly #stamps = new Map<LiveTopic, number>(liveTopics.map((topic) => [topic, 0]));
  readonly #listeners = new Listeners<LiveTopic>();

  changed(topic: LiveTopic): void {
    this.#stamps.set(topic, (this.#stamps.get(topic) ?? 0) + 1);
    this.#listeners.tell(topic);
  }

  /** Returns the way to stop it. */
  onChange(listener: (topic: LiveTopic) => void): () => void {
    return this.#listeners.add(listener);
  }

  now(): LiveJson {
    return { boot: this.#boot, topics: Object.fromEntries(this.#stamps) as Record<LiveTopic, number> };
  }
}
