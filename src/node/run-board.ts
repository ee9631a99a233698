import { totalTokens } from '../agent/chat/budgeted-backend.ts';
import { type RunReport, runReportLimits } from '../registry-client/run-report.ts';
import type { RunQueue } from '../server/queue/run-queue.ts';
import { hasEnded, type RunRecord } from '../server/records/run.ts';

/** How often as many as are told may be remembered meanwhile. */
const SLACK = 4;
const unended = ['running', 'waiting', 'parked'] as const;

export interface RunBoardOptions {
  readonly queue: Pick<RunQueue, 'get' | 'list' | 'onChange'>;
  /** The name of this node: others tell of theirs. */
  readonly node: string;
  /** Those that it has tasks of. */
  readonly namespaces: () => Iterable<string>;
}

/** The runs of this node that people want to see: those that have not ended, and the last ones that have. */
export class RunBoard {
  readonly #options: RunBoardOptions;
  /** In the order in which they were begun. */
  readonly #runs = new Map<string, RunRecord>();
  /** To be read again. */
  readonly #outdated = new Set<string>();
  readonly #unsubscribe: () => void;
  #isChanged = true;
  #loading: Promise<void> | null = null;

  constructor(options: RunBoardOptions) {
    this.#options = options;
    this.#unsubscribe = options.queue.onChange(({ id }) => {
      if (this.#runs.has(id)) this.#outdated.add(id);
    });
  }

  /** This node works on it now. */
  add(run: RunRecord): void {
    this.#runs.delete(run.id);
    this.#runs.set(run.id, run);
    this.#outdated.add(run.id);
    // Thousands are begun in a second: they are looked at whole only now and then.
    if (this.#runs.size > SLACK * (runReportLimits.maxActive + runReportLimits.maxEnded)) this.#trim();
  }

  find(id: string): RunRecord | null {
    return this.#runs.get(id) ?? null;
  }

  /** Newest first; null: as it was when it was last asked for. `anew`: in any case. */
  async changed(anew: boolean): Promise<readonly RunReport[] | null> {
    this.#loading ??= this.#load();
    await this.#loading;
    const outdated = [...this.#outdated].flatMap((id) => this.#runs.get(id) ?? []);
    this.#outdated.clear();
    for (const { namespace, id } of outdated) {
      const run = await this.#options.queue.get(namespace, id);
      if (run !== null && this.#runs.has(id)) this.#runs.set(id, run);
      if (run === null) this.#runs.delete(id);
      this.#isChanged = true;
    }
    if (!anew && !this.#isChanged) return null;
    this.#isChanged = false;
    this.#trim();
    return [...this.#runs.values()].reverse().map(reportOf);
  }

  close(): void {
    this.#unsubscribe();
  }

  /** What an earlier process of this node left: parked runs are begun again only when somebody decides. */
  async #load(): Promise<void> {
    const { queue, node, namespaces } = this.#options;
    const known: RunRecord[] = [];
    for (const namespace of namespaces()) {
      for (const status of unended) {
        known.push(...(await queue.list(namespace, { status, limit: runReportLimits.maxActive })).runs);
      }
      const { runs } = await queue.list(namespace, { limit: runReportLimits.maxEnded });
      known.push(...runs.filter(({ status }) => hasEnded(status)));
    }
    const mine = known.filter((run) => run.node === node && !this.#runs.has(run.id));
    const meanwhile = [...this.#runs];
    this.#runs.clear();
    for (const run of mine.sort((a, b) => a.submitted_at_ms - b.submitted_at_ms)) this.#runs.set(run.id, run);
    for (const [id, run] of meanwhile) this.#runs.set(id, run);
    this.#trim();
  }

  #trim(): void {
    const { maxActive, maxEnded } = runReportLimits;
    let ended = 0;
    let active = 0;
    for (const { id, status } of [...this.#runs.values()].reverse()) {
      const isOver = hasEnded(status) ? ++ended > maxEnded : ++active > maxActive;
      if (isOver) this.#runs.delete(id);
    }
  }
}

function reportOf(run: RunRecord): RunReport {
  const { id, namespace, task, revision, status, submitted_by, submitted_at_ms } = run;
  const { started_at_ms, ended_at_ms, attempts, exit, cost, status_reason, degraded } = run;
  return {
    ...{ id, namespace, task, revision, status, submitted_by, submitted_at_ms },
    ...{ started_at_ms, ended_at_ms, attempts, exit, status_reason, degraded },
    cost: cost && {
      model_calls: cost.model_calls,
      tool_calls: cost.tool_calls,
      total_tokens: totalTokens(cost.tokens),
    },
  };
}
