import { errorText } from '../base/error-text.ts';
import { type DirectoryResult, describeProblem, loadDirectory } from './directory.ts';
import type { SmsMetrics } from './metrics/sms-metrics.ts';
import type { ServiceLog } from './service-log.ts';
import type { RegistryStore } from './store/store.ts';
import { currentCaller } from './trail/caller.ts';
import type { SmsTrail } from './trail/sms-trail.ts';

export interface ReloaderDeps {
  readonly store: RegistryStore;
  readonly directory: string;
  readonly strict: boolean;
  /** Whether a reload may remove most of what the directory held. */
  readonly allowMassRemoval: boolean;
  readonly metrics: SmsMetrics;
  readonly trail: Pick<SmsTrail, 'write'>;
  readonly log: ServiceLog;
}

export interface ReloadOptions {
  readonly dryRun: boolean;
  /** For this once. @default false */
  readonly allowMassRemoval?: boolean;
}

/** Loads the directory when asked, one load at a time. */
export class DirectoryReloader {
  readonly #deps: ReloaderDeps;
  #last: Promise<unknown> = Promise.resolve();

  constructor(deps: ReloaderDeps) {
    this.#deps = deps;
  }

  reload(options: ReloadOptions): Promise<DirectoryResult> {
    const load = () => this.#load(options);
    const next = this.#last.then(load, load);
    this.#last = next;
    return next;
  }

  async #load({ dryRun, allowMassRemoval = false }: ReloadOptions): Promise<DirectoryResult> {
    const { store, directory, strict, metrics, trail, log } = this.#deps;
    const about = { event: 'sms.reloaded', ...currentCaller() } as const;
    try {
      const result = await loadDirectory(store, directory, {
        strict,
        dryRun,
        allowMassRemoval: allowMassRemoval || this.#deps.allowMassRemoval,
      });
      metrics.reloads.add(1, { outcome: result.outcome });
      for (const problem of result.problems) {
        log(problem.severity === 'error' ? 'error' : 'warn', 'directory', {
          problem: describeProblem(directory, problem),
        });
      }
      const { outcome, refusal, plan } = result;
      const fields = { outcome, changes: plan.changes.length, unchanged: plan.unchanged.length };
      if (refusal === null) log('info', 'directory', fields);
      else log('error', 'directory', { ...fields, problem: refusal });
      const changes = outcome === 'refused' ? 0 : plan.changes.length;
      trail.write({ ...about, status: outcome, reason: refusal, changes, problems: result.problems.length });
      return result;
    } catch (error) {
      metrics.reloads.add(1, { outcome: 'failed' });
      trail.write({ ...about, status: 'failed', reason: errorText(error), changes: 0, problems: 0 });
      throw error;
    }
  }
}
