import { setImmediate } from 'node:timers/promises';
import { ApprovalGate } from '../../../src/agent/approvals/gate.ts';
import type { ApprovalDecision, ApprovalRequest } from '../../../src/agent/approvals/request.ts';
import { McpError } from '../../../src/agent/mcp/client/errors.ts';
import { noAudit } from '../../../src/server/audit/event.ts';
import { Random } from '../random.ts';
import { randomSituation, type Situation } from './situation.ts';

interface Open {
  readonly request: ApprovalRequest;
  answer(decision: ApprovalDecision): void;
}

/** A gate whose questions stay open until they are answered here. */
class OpenQuestions {
  readonly open: Open[] = [];
  readonly gate: ApprovalGate;
  readonly #situation: Situation;

  constructor(situation: Situation, timeoutMs: number) {
    this.#situation = situation;
    const { run, task, definition } = situation;
    this.gate = new ApprovalGate(
      {
        timeoutMs,
        decide: (request) => new Promise((resolve) => this.open.push({ request, answer: resolve })),
      },
      {
        run,
        task,
        registry: { snapshot: () => null, view: () => null },
        audit: noAudit,
        pool: {
          describeCall: async (_, { args }) => ({ tool: { ...definition, title: null, outputSchema: null }, args }),
        },
      },
    );
  }

  /** `allowed` with its grant, or the code of its refusal. */
  async ask(index: number, signal: AbortSignal = new AbortController().signal): Promise<string> {
    const { record, call } = this.#situation;
    const callId = `call-${index}`;
    try {
      await this.gate.obtain(record, { ...call, callId }, { index }, signal);
      return 'allowed';
    } catch (error) {
      if (error instanceof McpError) return error.code;
      throw error;
    }
  }

  /** @returns once so many questions are open */
  async asked(count: number): Promise<void> {
    while (this.open.length < count) await setImmediate();
  }
}

const LONG_MS = 60_000;
const SHORT_MS = 5;

/** Of several open questions some are allowed: exactly those are, in whatever order. */
export async function otherCallsCase(seed: number): Promise<string | null> {
  const random = new Random(seed);
  const questions = new OpenQuestions(randomSituation(random, 'always'), LONG_MS);
  const count = 2 + random.below(6);
  const ended = Array.from({ length: count }, (_, index) => questions.ask(index));
  await questions.asked(count);
  const order = questions.open.map((_, index) => ({ index, key: random.bits() })).sort((a, b) => a.key - b.key);
  const allowed = new Set<string>();
  for (const { index } of order) {
    const { request, answer } = questions.open[index] as Open;
    const isAllowed = random.chance(2);
    if (isAllowed) allowed.add(request.callId);
    answer(isAllowed ? 'allow_once' : 'deny');
    // A second answer, and a third, change nothing.
    answer('allow_session');
    answer('allow_once');
  }
  const wrong = (await Promise.all(ended)).findIndex(
    (outcome, index) => (outcome === 'allowed') !== allowed.has(`call-${index}`),
  );
  return wrong < 0 ? null : `answers for several calls (case ${seed}): call-${wrong} got another’s`;
}

/** An answer that comes after its deadline, after its call was given up, or after the guest has ended. */
export async function lateCase(how: 'deadline' | 'cancelled' | 'guest ended', seed: number): Promise<string | null> {
  const questions = new OpenQuestions(
    randomSituation(new Random(seed), 'always'),
    how === 'deadline' ? SHORT_MS : LONG_MS,
  );
  const abort = new AbortController();
  const outcome = questions.ask(0, abort.signal);
  await questions.asked(1);
  if (how === 'cancelled') abort.abort();
  if (how === 'guest ended') questions.gate.close();
  const ended = await outcome;
  const [late] = questions.open;
  late?.answer('allow_session');
  await setImmediate();
  const about = `a late answer, ${how} (case ${seed})`;
  if (ended === 'allowed') return `${about}: allowed`;
  if (!late?.request.signal.aborted) return `${about}: whoever was asked was not told`;
  // Nothing is left of it for the next call: that one is asked about, or refused where nobody can be.
  const next = questions.ask(1);
  if (how === 'guest ended') return (await next) === 'allowed' ? `${about}: the next call is allowed` : null;
  await questions.asked(2);
  questions.open[1]?.answer('deny');
  return (await next) === 'allowed' ? `${about}: the next call is allowed` : null;
}
