import { parseJson } from '../base/json.ts';
import { Listeners } from '../base/listeners.ts';
import { hasEnded } from '../protocol/run.ts';
import { type RunPicture, runPicture } from '../protocol/run-picture.ts';
import { type RunReport, type RunsAnswer, type RunsReport, runReportLimits } from '../registry/run-report.ts';
import { ReportRefused } from './node-reports.ts';

export interface RunReportsLimits {
  /** A node that says nothing for longer is forgotten, and its runs with it. @default 60 s */
  readonly expiresAfterMs: number;
  /** @default 1,000 */
  readonly maxNodes: number;
  /** Timelines that people wait for. @default 64 */
  readonly maxWanted: number;
  /** How long they wait. @default 15 s */
  readonly timelineMs: number;
}

export const defaultRunReportsLimits: RunReportsLimits = Object.freeze({
  expiresAfterMs: 60_000,
  maxNodes: 1_000,
  maxWanted: 64,
  timelineMs: 15_000,
});

export interface RunView extends RunReport {
  readonly nodeId: string;
}

/** Why there is no timeline. */
export class NoTimeline extends Error {}

interface Wanted {
  readonly nodeId: string;
  readonly picture: PromiseWithResolvers<RunPicture>;
  readonly timer: NodeJS.Timeout;
}

/** What nodes say of their runs, in memory alone: their queues keep them, and they soon say it again. */
export class RunReports {
  readonly limits: RunReportsLimits;
  readonly #now: () => number;
  readonly #nodes = new Map<string, { readonly runs: readonly RunReport[]; readonly atMs: number }>();
  readonly #wanted = new Map<string, Wanted>();
  readonly #changed = new Listeners<null>();

  constructor(limits: RunReportsLimits = defaultRunReportsLimits, now: () => number = () => performance.now()) {
    this.limits = limits;
    this.#now = now;
  }

  accept({ nodeId, runs, timelines }: RunsReport): { wantedTimelines: string[]; wantsRuns: boolean } {
    this.#forgetExpired();
    const known = this.#nodes.get(nodeId);
    if (known === undefined && this.#nodes.size >= this.limits.maxNodes) {
      throw new ReportRefused(`${this.limits.maxNodes} nodes already report runs to this registry, the maximum`);
    }
    const kept = runs ?? known?.runs ?? [];
    this.#nodes.delete(nodeId);
    this.#nodes.set(nodeId, { runs: kept, atMs: this.#now() });
    for (const { runId, picture, problem } of timelines) this.#give(nodeId, runId, picture, problem);
    if (runs !== null) this.#changed.tell(null);
    const wanted = [...this.#wanted].filter(([, { nodeId: asked }]) => asked === nodeId).map(([id]) => id);
    return {
      wantedTimelines: wanted.slice(0, runReportLimits.maxTimelines),
      wantsRuns: runs === null && known === undefined,
    } satisfies RunsAnswer;
  }

  /** Called after every report that says something new. Returns the way to stop it. */
  onReport(listener: () => void): () => void {
    return this.#changed.add(listener);
  }

  /** Newest first. A run that moved is told by the node that began it last. */
  runs(): RunView[] {
    this.#forgetExpired();
    const views = new Map<string, RunView>();
    for (const [nodeId, { runs }] of this.#nodes) {
      for (const run of runs) {
        const known = views.get(run.id);
        if (known === undefined || isLater(run, known)) views.set(run.id, { ...run, nodeId });
      }
    }
    return [...views.values()].sort((a, b) => b.submitted_at_ms - a.submitted_at_ms || (a.id < b.id ? 1 : -1));
  }

  find(id: string): RunView | null {
    return this.runs().find((run) => run.id === id) ?? null;
  }

  /** Asks its node for it, which answers with its next report. @throws NoTimeline */
  timeline({ id, nodeId }: RunView): Promise<RunPicture> {
    const known = this.#wanted.get(id);
    if (known !== undefined) return known.picture.promise;
    if (this.#wanted.size >= this.limits.maxWanted)
      throw new NoTimeline('too many timeline requests are pending; try again');
    const picture = Promise.withResolvers<RunPicture>();
    const late = () => {
      this.#wanted.delete(id);
      picture.reject(new NoTimeline(`node ${nodeId} did not send the timeline within ${this.limits.timelineMs} ms`));
    };
    this.#wanted.set(id, { nodeId, picture, timer: setTimeout(late, this.limits.timelineMs).unref() });
    return picture.promise;
  }

  #give(nodeId: string, runId: string, text: string | null, problem: string): void {
    const wanted = this.#wanted.get(runId);
    if (wanted?.nodeId !== nodeId) return;
    this.#wanted.delete(runId);
    clearTimeout(wanted.timer);
    const parsed = text === null ? null : runPicture.safeParse(parseJson(text));
    if (parsed?.success) wanted.picture.resolve(parsed.data);
    else wanted.picture.reject(new NoTimeline(parsed === null ? problem : `node ${nodeId} sent an invalid timeline`));
  }

  #forgetExpired(): void {
    const oldest = this.#now() - this.limits.expiresAfterMs;
    for (const [nodeId, { atMs }] of this.#nodes) {
      if (atMs >= oldest) return;
      this.#nodes.delete(nodeId);
      this.#changed.tell(null);
    }
  }
}

function isLater(run: RunReport, than: RunReport): boolean {
  if (run.attempts !== than.attempts) return run.attempts > than.attempts;
  return hasEnded(run.status) && !hasEnded(than.status);
}
