import {
  budgetedBackend,
  type SharedLedger,
  type TokenAccount,
  type TokenLedger,
} from '../agent/chat/budgeted-backend.ts';
import type { NamespaceBudgets } from '../config/node/node-config.ts';
import type { FindBackend } from '../run/choose-backend.ts';
import type { RunQueue } from '../server/queue/run-queue.ts';
import { type TaskRevision, taskId } from '../server/records/task.ts';

/** The run that spends tokens. */
export interface Spender {
  readonly task: TaskRevision;
  readonly submittedBy: string;
  /** Tokens of earlier attempts. */
  readonly spentBefore: number;
}

/** A daily limit and its scope. */
interface DailyBudget {
  readonly scope: string;
  readonly name: string;
  readonly limit: number;
}

/**
 * Token budgets per run, task, caller and namespace. The estimate of a send is reserved before it, so that concurrent
 * sends cannot exceed a budget together; afterwards the actual tokens are counted, per day (UTC) and across restarts.
 */
export class TokenBudgets {
  readonly #queue: RunQueue;
  readonly #ofNamespaces: ReadonlyMap<string, NamespaceBudgets>;
  readonly #now: () => number;
  readonly #ledgers = new Map<string, Promise<TokenLedger>>();
  #day = '';

  constructor(queue: RunQueue, ofNamespaces: ReadonlyMap<string, NamespaceBudgets>, now: () => number = Date.now) {
    this.#queue = queue;
    this.#ofNamespaces = ofNamespaces;
    this.#now = now;
  }

  /** Models of one run, limited by its budgets. */
  forRun(spender: Spender, find: FindBackend): FindBackend {
    const { tokens_per_run } = spender.task.budgets;
    const daily = this.#daily(spender);
    if (tokens_per_run === null && daily.length === 0) return find;
    const ofRun: TokenAccount[] = [];
    if (tokens_per_run !== null) {
      const ledger = { spent: spender.spentBefore, reserved: 0 };
      ofRun.push({ name: 'budgets.tokens_per_run', limit: tokens_per_run, ledger });
    }
    const accounts = async () => {
      const ofDay = daily.map(async ({ scope, name, limit }) => ({ name, limit, ledger: await this.#ledger(scope) }));
      return [...ofRun, ...(await Promise.all(ofDay))];
    };
    return async (name) =>
      budgetedBackend(await find(name), accounts, (took) => {
        if (this.#queue.reserve !== undefined) return; // settled where it was reserved
        for (const { scope } of daily) void this.#note(scope, took);
      });
  }

  #daily({ task, submittedBy }: Spender): DailyBudget[] {
    const { namespace } = task;
    const ofNamespace = this.#ofNamespaces.get(namespace);
    const bounds = [
      { scope: `task ${taskId(task)}`, name: 'budgets.tokens_per_day', limit: task.budgets.tokens_per_day },
      {
        scope: `caller ${namespace} ${submittedBy}`,
        name: `node.budgets.${namespace}.tokens_per_caller_per_day (${submittedBy})`,
        limit: ofNamespace?.tokensPerCallerPerDay ?? null,
      },
      {
        scope: `namespace ${namespace}`,
        name: `node.budgets.${namespace}.tokens_per_day`,
        limit: ofNamespace?.tokensPerDay ?? null,
      },
    ];
    return bounds.flatMap(({ limit, ...bound }) => (limit === null ? [] : [{ ...bound, limit }]));
  }

  #ledger(scope: string): Promise<TokenLedger> {
    const day = this.#today();
    if (day !== this.#day) this.#ledgers.clear();
    this.#day = day;
    const known = this.#ledgers.get(scope) ?? this.#open(scope, day);
    this.#ledgers.set(scope, known);
    // A failed read is retried by the next send.
    known.catch(() => {
      if (this.#ledgers.get(scope) === known) this.#ledgers.delete(scope);
    });
    return known;
  }

  async #open(scope: string, day: string): Promise<TokenLedger> {
    const { reserve } = this.#queue;
    if (reserve !== undefined) return { spent: 0, reserved: 0, shared: this.#shared(scope, day, reserve) };
    return { spent: await this.#queue.spent(scope, day), reserved: 0 };
  }

  /** Reservations of a node that crashed remain spent: the actual tokens are unknown. */
  #shared(scope: string, day: string, reserve: NonNullable<RunQueue['reserve']>): SharedLedger {
    return {
      reserve: (tokens, limit) => reserve.call(this.#queue, scope, day, tokens, limit),
      settle: (reserved, took) => {
        if (took !== reserved) void this.#queue.spend(scope, day, took - reserved).catch(() => {});
      },
    };
  }

  async #note(scope: string, tokens: number): Promise<void> {
    // A failed write is still counted in memory.
    await this.#queue.spend(scope, this.#today(), tokens).catch(() => {});
  }

  #today(): string {
    return new Date(this.#now()).toISOString().slice(0, 10);
  }
}
