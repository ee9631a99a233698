import { budgetedBackend, type TokenAccount } from '../chat/budgeted-backend.ts';
import type { TaskRevision } from '../protocol/task.ts';
import { taskId } from '../protocol/task.ts';
import type { RunQueue } from '../queue/run-queue.ts';
import type { FindBackend } from '../run/choose-backend.ts';

/**
 * What tokens are spent for, by run, task and namespace. Before a send its estimate is reserved, so that sends at the
 * same time cannot overspend together; after it what it took is counted, by the day (UTC) and over restarts.
 */
export class TokenBudgets {
  readonly #queue: RunQueue;
  readonly #ofNamespaces: ReadonlyMap<string, number>;
  readonly #now: () => number;
  readonly #days = new Map<string, Promise<TokenAccount>>();
  #day = '';

  constructor(queue: RunQueue, ofNamespaces: ReadonlyMap<string, number>, now: () => number = Date.now) {
    this.#queue = queue;
    this.#ofNamespaces = ofNamespaces;
    this.#now = now;
  }

  /** The models of one run, bounded. `spentBefore`: by its earlier attempts. */
  forRun(task: TaskRevision, find: FindBackend, spentBefore: number): FindBackend {
    const { tokens_per_run, tokens_per_day } = task.budgets;
    const ofNamespace = this.#ofNamespaces.get(task.namespace);
    if (tokens_per_run === null && tokens_per_day === null && ofNamespace === undefined) return find;
    const ofRun: TokenAccount | null =
      tokens_per_run === null
        ? null
        : { name: 'budgets.tokens_per_run', limit: tokens_per_run, spent: spentBefore, reserved: 0 };
    const daily = async (): Promise<TokenAccount[]> =>
      Promise.all([
        ...(tokens_per_day === null
          ? []
          : [this.#account(`task ${taskId(task)}`, 'budgets.tokens_per_day', tokens_per_day)]),
        ...(ofNamespace === undefined
          ? []
          : [
              this.#account(
                `namespace ${task.namespace}`,
                `node.budgets.${task.namespace}.tokens_per_day`,
                ofNamespace,
              ),
            ]),
      ]);
    return async (name) => {
      const backend = await find(name);
      const accounts = async () => [...(ofRun === null ? [] : [ofRun]), ...(await daily())];
      return budgetedBackend(backend, accounts, (took) => {
        if (tokens_per_day !== null) void this.#note(`task ${taskId(task)}`, took);
        if (ofNamespace !== undefined) void this.#note(`namespace ${task.namespace}`, took);
      });
    };
  }

  #account(scope: string, name: string, limit: number): Promise<TokenAccount> {
    const day = this.#today();
    if (day !== this.#day) this.#days.clear();
    this.#day = day;
    // Another revision may have another limit: what was spent is the task's.
    const key = `${scope} ${limit}`;
    const known = this.#days.get(key) ?? this.#open(scope, day, name, limit);
    this.#days.set(key, known);
    return known;
  }

  async #open(scope: string, day: string, name: string, limit: number): Promise<TokenAccount> {
    return { name, limit, spent: await this.#queue.spent(scope, day), reserved: 0 };
  }

  async #note(scope: string, tokens: number): Promise<void> {
    // What cannot be stored is still counted as long as this process lives.
    await this.#queue.spend(scope, this.#today(), tokens).catch(() => {});
  }

  #today(): string {
    return new Date(this.#now()).toISOString().slice(0, 10);
  }
}
