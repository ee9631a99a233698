import { hash } from 'node:crypto';
import type { JetStreamManager } from '@nats-io/jetstream';
import { headers, type NatsConnection } from '@nats-io/transport-node';
import { QueueError } from '../run-queue.ts';
import { patiently } from './patience.ts';
import { streams, word } from './subjects.ts';

const ANSWER_MS = 5_000;

/** What tokens are spent for, counted by the servers: each addition is one step, whoever adds at the same time. */
export class TokenCounters {
  readonly #nc: NatsConnection;
  readonly #jsm: JetStreamManager;
  readonly #patienceMs: number;

  constructor(nc: NatsConnection, jsm: JetStreamManager, patienceMs: number) {
    this.#nc = nc;
    this.#jsm = jsm;
    this.#patienceMs = patienceMs;
  }

  async spent(scope: string, day: string): Promise<number> {
    const query = { last_by_subj: subjectOf(scope, day) };
    const found = await patiently(this.#patienceMs, () => this.#jsm.streams.getMessage(streams.tokens, query));
    return Number(found?.json<{ val: string }>().val ?? 0);
  }

  /**
   * The sum after it. One whose answer was lost may have been added: it is not added again, so that a budget is never
   * counted twice against its owner; it errs by one send at most.
   */
  async add(scope: string, day: string, tokens: number): Promise<number> {
    const step = headers();
    step.set('Nats-Incr', String(tokens));
    const answer = await this.#nc.request(subjectOf(scope, day), '', { headers: step, timeout: ANSWER_MS });
    const { val, error } = answer.json<{ val?: string; error?: { description: string } }>();
    if (val === undefined) throw new QueueError('not_stored', `tokens were not counted: ${error?.description}`);
    return Number(val);
  }

  /** Null: they are spent. Otherwise how many were, and nothing is. */
  async reserve(scope: string, day: string, tokens: number, limit: number): Promise<number | null> {
    const sum = await this.add(scope, day, tokens);
    if (sum <= limit) return null;
    await this.add(scope, day, -tokens);
    return sum - tokens;
  }
}

/** Scopes are words of people: their digest is a word of a subject. */
const subjectOf = (scope: string, day: string) =>
  `spear.budget.tokens.${word(day, 'the day')}.${hash('sha256', scope).slice(0, 32)}`;
