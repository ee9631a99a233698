import { join } from 'node:path';
import { errorText } from '../base/errors.ts';
import type { SmsTrail } from '../server/audit/sms-trail.ts';
import type { Caller } from '../server/identity/caller.ts';
import type { ServiceLog } from '../server/log/service-log.ts';
import type { McpProfile } from '../server/records/profile.ts';
import type { StoreStamps } from '../server/records/record-kind.ts';
import {
  type DirectoryResult,
  describeProblem,
  loadDirectory,
  PROFILES_FOLDER,
} from '../server/store/directory/directory.ts';
import type { AuditedStore } from './audit/audited-store.ts';
import type { RegistryMetrics } from './registry-metrics.ts';

export interface ReloaderDeps {
  readonly store: AuditedStore;
  readonly profiles: AuditedStore<McpProfile>;
  readonly directory: string;
  readonly strict: boolean;
  /** Whether a reload may remove most of what the directory held. */
  readonly allowMassRemoval: boolean;
  readonly metrics: RegistryMetrics;
  readonly trail: Pick<SmsTrail, 'write'>;
  readonly log: ServiceLog;
}

export interface ReloadOptions {
  readonly dryRun: boolean;
  /** For this once. @default false */
  readonly allowMassRemoval?: boolean;
}

/** What became of the servers of a directory, and of the profiles in it. */
export interface ReloadResult {
  readonly servers: DirectoryResult;
  readonly profiles: DirectoryResult;
}

/** Loads the directory when asked, one load at a time. */
export class DirectoryReloader {
  readonly #deps: ReloaderDeps;
  #last: Promise<unknown> = Promise.resolve();

  constructor(deps: ReloaderDeps) {
    this.#deps = deps;
  }

  reload(caller: Caller, options: ReloadOptions): Promise<ReloadResult> {
    const { store, profiles, directory } = this.#deps;
    const load = async () => ({
      servers: await this.#load(caller, store, directory, options),
      profiles: await this.#load(caller, profiles, join(directory, PROFILES_FOLDER), options),
    });
    const next = this.#last.then(load, load);
    this.#last = next;
    return next;
  }

  async #load<R extends StoreStamps>(
    caller: Caller,
    store: AuditedStore<R>,
    directory: string,
    { dryRun, allowMassRemoval = false }: ReloadOptions,
  ): Promise<DirectoryResult> {
    const { strict, metrics, trail, log } = this.#deps;
    // Most directories have no profiles, and nobody wants to read that at every load.
    const isQuiet = ({ plan, problems }: DirectoryResult) =>
      store.kind.name === 'profile' && plan.owned === 0 && plan.changes.length === 0 && problems.length === 0;
    const about = { event: 'sms.reloaded', ...caller } as const;
    try {
      const result = await loadDirectory(store.as(caller), directory, {
        strict,
        dryRun,
        optional: store.kind.name === 'profile',
        allowMassRemoval: allowMassRemoval || this.#deps.allowMassRemoval,
      });
      if (isQuiet(result)) return result;
      metrics.reloads.add(1, { outcome: result.outcome });
      for (const problem of result.problems) {
        log(problem.severity === 'error' ? 'error' : 'warn', 'directory', {
          problem: describeProblem(directory, problem),
        });
      }
      const { outcome, refusal, plan } = result;
      const fields = { kind: store.kind.name, outcome, changes: plan.changes.length, unchanged: plan.unchanged.length };
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
