import { type ClientRequest, request } from 'node:http';
import type { Failures } from '../topic.ts';
import type { Listing } from './sms-client.ts';
import type { SmsLives } from './sms-life.ts';

const AGAIN_MS = 20;

interface Change {
  readonly revision: number;
  readonly upserts?: readonly string[];
  readonly deletes?: readonly string[];
}

/** A reader of server-sent events that comes back with the id of the last one, as a browser does. */
export class EventReader {
  readonly #lives: SmsLives;
  readonly #token: string;
  readonly #failures: Failures;
  readonly #ids = new Set<string>();
  readonly #running: Promise<void>;
  #closed = false;
  #request: ClientRequest | null = null;
  #lastId: string;
  #revision: number;
  wrong = 0;

  /** Goes on from what was listed. */
  constructor(lives: SmsLives, token: string, failures: Failures, { epoch, revision, servers }: Listing) {
    this.#lastId = `${epoch}/${revision}`;
    this.#revision = revision;
    for (const { id } of servers) this.#ids.add(id);
    this.#lives = lives;
    this.#token = token;
    this.#failures = failures;
    this.#running = this.#run();
  }

  get revision(): number {
    return this.#revision;
  }

  ids(): string[] {
    return [...this.#ids].sort();
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#request?.destroy();
    await this.#running;
  }

  async #run(): Promise<void> {
    while (!this.#closed) {
      const served = await Promise.race([this.#lives.serving(), pause(AGAIN_MS)]);
      if (served === undefined) continue;
      await this.#read(served.http);
      await pause(AGAIN_MS);
    }
  }

  #read(http: string): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const headers = {
      authorization: `Bearer ${this.#token}`,
      'last-event-id': this.#lastId,
    };
    this.#request = request(`${http}/admin/api/mcp/events`, { headers, agent: false }, (res) => {
      let text = '';
      res.setEncoding('utf8').on('data', (chunk: string) => {
        const parts = (text + chunk).split('\n\n');
        text = parts.pop() ?? '';
        for (const part of parts) this.#take(part);
      });
      res.once('close', resolve).on('error', () => {});
    });
    this.#request.once('error', () => resolve()).end();
    return promise;
  }

  #take(text: string): void {
    const fields = new Map(
      text.split('\n').map((line) => [line.split(': ', 1)[0], line.slice(line.indexOf(': ') + 2)]),
    );
    const event = fields.get('event');
    if (event === undefined) return;
    const { revision, upserts = [], deletes = [] } = JSON.parse(fields.get('data') ?? '{}') as Change;
    if (event === 'reset') this.#fault(`a reset, although it came back with ${this.#lastId}`);
    if (event === 'change' && revision <= this.#revision) this.#fault(`revision ${revision} after ${this.#revision}`);
    for (const id of upserts) this.#ids.add(id);
    for (const id of deletes) this.#ids.delete(id);
    this.#lastId = fields.get('id') ?? '';
    this.#revision = revision;
  }

  #fault(text: string): void {
    this.wrong++;
    this.#failures.add(`the reader of events: ${text}`);
  }
}

function pause(ms: number): Promise<undefined> {
  return new Promise((resolve) => setTimeout(resolve, ms, undefined));
}
