import { type DirectoryResult, describeProblem, loadDirectory } from './directory.ts';
import type { SmsMetrics } from './metrics/sms-metrics.ts';
import type { ServiceLog } from './service-log.ts';
import type { RegistryStore } from './store/store.ts';

export interface ReloaderDeps {
  readonly store: RegistryStore;
  readonly directory: string;
  readonly strict: boolean;
  readonly metrics: SmsMetrics;
  readonly log: ServiceLog;
}

/** Loads the directory when asked, one load at a time. */
export class DirectoryReloader {
  readonly #deps: ReloaderDeps;
  #last: Promise<unknown> = Promise.resolve();

  constructor(deps: ReloaderDeps) {
    this.#deps = deps;
  }

  reload(options: { readonly dryRun: boolean }): Promise<DirectoryResult> {
    const load = () => this.#load(options.dryRun);
    const next = this.#last.then(load, load);
    this.#last = next;
    return next;
  }

  async #load(dryRun: boolean): Promise<DirectoryResult> {
    const { store, directory, strict, metrics, log } = this.#deps;
    try {
      const result = await loadDirectory(store, directory, { strict, dryRun });
      metrics.reloads.add(1, { outcome: result.outcome });
      for (const problem of result.problems) {
        log(problem.severity === 'error' ? 'error' : 'warn', 'directory', {
          problem: describeProblem(directory, problem),
        });
      }
      const changes = result.plan.changes.length;
      log('info', 'directory', { outcome: result.outcome, changes, unchanged: result.plan.unchanged.length });
      return result;
    } catch (error) {
      metrics.reloads.add(1, { outcome: 'failed' });
      throw error;
    }
  }
}
