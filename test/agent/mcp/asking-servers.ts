import { onTestFinished } from 'vitest';
import type { ElicitationAnswer, ElicitationRequest } from '../../../src/agent/mcp/client/elicitation/question.ts';
import type { McpServerRecord } from '../../../src/server/records/server.ts';
import { fixture, httpRecord, npmServer, startHttp, stdioRecord } from './client/pool-samples.ts';
import { everythingOverHttp } from './everything-over-http.ts';

export const roots = [
  { uri: 'file:///srv/notes', name: 'notes' },
  { uri: 'file:///tmp', name: null },
];
export const allFeatures = { elicitation: ['form', 'url'], roots } as const;

type Features = McpServerRecord['client_features'];

export const featured = (record: McpServerRecord, features: Partial<Features> = allFeatures): McpServerRecord =>
  Object.freeze({ ...record, client_features: Object.freeze({ elicitation: [], roots: [], ...features }) });

/** A server that was published, over every transport of the old era. */
export async function everything(transport: McpServerRecord['transport']): Promise<McpServerRecord> {
  if (transport === 'stdio') return stdioRecord('every', npmServer('everything'));
  return everythingOverHttp('every', transport);
}

/** A server of the new era. */
export async function bothEras(wire: 'stdio' | 'http'): Promise<McpServerRecord> {
  const budgets = { connect_timeout_ms: 30_000 };
  if (wire === 'stdio') return { ...stdioRecord('both', 'both-eras.mjs', { budgets }), protocol: 'auto' };
  const { url } = await startHttp(fixture('both-eras.mjs'), ['http']);
  return { ...httpRecord('both', 'streamable_http', url('/mcp'), { budgets }), protocol: 'auto' };
}

/** Whoever is asked, in the test's hands: notes the questions, and answers each when told to. */
export class Person {
  readonly asked: ElicitationRequest[] = [];
  readonly #answers: ((answer: ElicitationAnswer) => void)[] = [];
  readonly #arrivals: ((request: ElicitationRequest) => void)[] = [];
  readonly #always: ElicitationAnswer | null;
  #seen = 0;

  constructor(always: ElicitationAnswer | null = null) {
    this.#always = always;
    // A promise that nobody settles any more must not hold up the end of a call.
    onTestFinished(() => {
      for (const answer of this.#answers) answer({ action: 'cancel' });
    });
  }

  readonly elicit = (request: ElicitationRequest): Promise<ElicitationAnswer> => {
    this.asked.push(request);
    this.#arrivals.shift()?.(request);
    if (this.#always !== null) return Promise.resolve(this.#always);
    return new Promise((resolve) => this.#answers.push(resolve));
  };

  /** The next question that was not looked at yet. */
  next(): Promise<ElicitationRequest> {
    const known = this.asked[this.#seen++];
    return known ? Promise.resolve(known) : new Promise((resolve) => this.#arrivals.push(resolve));
  }

  /** Answers the question that waits longest. */
  answer(answer: ElicitationAnswer): void {
    const waiting = this.#answers.shift();
    if (!waiting) throw new Error('nothing was asked');
    waiting(answer);
  }
}
