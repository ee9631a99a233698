import { parseJson } from '../base/json.ts';
import { Listeners } from '../base/listeners.ts';
import { type RunReport, type RunsAnswer, type RunsReport, runReportLimits } from '../registry-client/node-report.ts';
import { ALL_NAMESPACES } from '../server/records/permissions.ts';
import { hasEnded } from '../server/records/run.ts';
import { type RunPicture, runPicture } from '../server/timeline/run-picture.ts';
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
  /** The namespace of the token that the node reports with. */
  readonly reporter: string;
}

/** Why there is no timeline. */
export class NoTimeline extends Error {}

interface Wanted {
  /** The node that is asked. */
  readonly key: string;
  readonly picture: PromiseWithResolvers<RunPicture>;
  readonly timer: NodeJS.Timeout;
}

interface ReportingNode {
  readonly nodeId: string;
  readonly reporter: string;
  readonly runs: readonly RunReport[];
  readonly atMs: number;
}

/** What nodes say of their runs, in memory alone: their queues keep them, and they soon say it again. */
export class RunReports {
  readonly limits: RunReportsLimits;
  readonly #now: () => number;
  /** By the namespace of their token and their id: a node of one namespace cannot report as a node of another. */
  readonly #nodes = new Map<string, ReportingNode>();
  readonly #wanted = new Map<string, Wanted>();
  readonly #changed = new Listeners<null>();

  constructor(limits: RunReportsLimits = defaultRunReportsLimits, now: () => number = () => performance.now()) {
    this.limits = limits;
    this.#now = now;
  }

  /** `reporter`: the namespace of the node's token. Runs of other namespaces are left out. */
  accept(
    { nodeId, runs: reported, timelines }: RunsReport,
    reporter: string,
  ): { wantedTimelines: string[]; wantsRuns: boolean } {
    this.#forgetExpired();
    const key = keyOf(reporter, nodeId);
    const isTheirs = ({ namespace }: RunReport) => reporter === ALL_NAMESPACES || namespace === reporter;
    const runs = reported?.filter(isTheirs) ?? null;
    const known = this.#nodes.get(key);
    if (known === undefined && this.#nodes.size >= this.limits.maxNodes) {
      throw new ReportRefused(`${this.limits.maxNodes} nodes already report runs to this registry, the maximum`);
    }
    const kept = runs ?? known?.runs ?? [];
    this.#nodes.delete(key);
    this.#nodes.set(key, { nodeId, reporter, runs: kept, atMs: this.#now() });
    for (const { runId, picture, problem } of timelines) this.#give(key, runId, picture, problem);
    if (runs !== null) this.#changed.notify(null);
    const wanted = [...this.#wanted].filter(([, { key: asked }]) => asked === key).map(([id]) => id);
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
    for (const { nodeId, reporter, runs } of this.#nodes.values()) {
      for (const run of runs) {
        const key = keyOf(run.namespace, run.id);
        const known = views.get(key);
        if (known === undefined || isLater(run, known)) views.set(key, { ...run, nodeId, reporter });
      }
    }
    return [...views.values()].sort((a, b) => b.submitted_at_ms - a.submitted_at_ms || (a.id < b.id ? 1 : -1));
  }

  /** `isTheirs`: whether the caller may name the namespace of the run. */
  find(id: string, isTheirs: (namespace: string) => boolean): RunView | null {
    return this.runs().find((run) => run.id === id && isTheirs(run.namespace)) ?? null;
  }

  /** Asks its node for it, which answers with its next report. @throws NoTimeline */
  timeline({ id, nodeId, reporter }: RunView): Promise<RunPicture> {
    const key = keyOf(reporter, nodeId);
    const known = this.#wanted.get(id);
    if (known?.key === key) return known.picture.promise;
    if (known !== undefined) throw new NoTimeline('another node is asked for the timeline of this run id; try again');
    if (this.#wanted.size >= this.limits.maxWanted)
      throw new NoTimeline('too many timeline requests are pending; try again');
    const picture = Promise.withResolvers<RunPicture>();
    const late = () => {
      this.#wanted.delete(id);
      picture.reject(new NoTimeline(`node ${nodeId} did not send the timeline within ${this.limits.timelineMs} ms`));
    };
    this.#wanted.set(id, { key, picture, timer: setTimeout(late, this.limits.timelineMs).unref() });
    return picture.promise;
  }

  #give(key: string, runId: string, text: string | null, problem: string): void {
    const wanted = this.#wanted.get(runId);
    if (wanted?.key !== key) return;
    this.#wanted.delete(runId);
    clearTimeout(wanted.timer);
    const parsed = text === null ? null : runPicture.safeParse(parseJson(text));
    if (parsed?.success) wanted.picture.resolve(parsed.data);
    else wanted.picture.reject(new NoTimeline(parsed === null ? problem : 'the node sent an invalid timeline'));
  }

  #forgetExpired(): void {
    const oldest = this.#now() - this.limits.expiresAfterMs;
    for (const [key, { atMs }] of this.#nodes) {
      if (atMs >= oldest) return;
      this.#nodes.delete(key);
      this.#changed.notify(null);
    }
  }
}

/** Neither namespaces nor ids have spaces. */
function keyOf(namespace: string, id: string): string {
  return `${namespace} ${id}`;
}

function isLater(run: RunReport, than: RunReport): boolean {
  if (run.attempts !== than.attempts) return run.attempts > than.attempts;
  return hasEnded(run.status) && !hasEnded(than.status);
}
