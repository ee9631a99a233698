import { type DirectoryResult, describeProblem, loadDirectory } from './directory.ts';
import type { SmsMetrics } from './metrics/sms-metrics.ts';
import type { ServiceLog } from './service-log.ts';
import type { RegistryStore } from './store/store.ts';

export interface ReloaderDeps {
  readonly store: RegistryStore;
  readonly directory: string;
  readonly strict: boolean;
  /** Whether a reload may remove most of what the directory held. */
  readonly allowMassRemoval: boolean;
  readonly metrics: SmsMetrics;
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
    const { store, directory, strict, metrics, log } = this.#deps;
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
      return result;
    } catch (error) {
      metrics.reloads.add(1, { outcome: 'failed' });
      throw error;
    }
  }
}
