import { parseTaskPolicy } from '../agent/policy/task-policy.ts';
import type { RegistryCache } from '../registry-client/cache.ts';
import type { RunRegistry } from '../run/open-registry.ts';
import { HttpProblem } from '../server/http/problem.ts';
import { type TaskRevision, taskId } from '../server/records/task.ts';
import type { NamedTask, Task } from '../server/tasks/task-book.ts';
import type { NodeTasks } from './node-tasks.ts';

const RETRY_AFTER_S = '5';

/**
 * Decides what a node may do before its registry has sent a first snapshot: the node accepts runs and runs tasks without
 * MCP, but starts no run whose tools it cannot know. A node without a registry is never held back.
 */
export class RegistryReadiness {
  readonly #cache: Pick<RegistryCache, 'view' | 'status' | 'stops' | 'profiles'> | null;
  readonly #tasks: Pick<NodeTasks, 'store' | 'notLoaded'>;

  constructor(registry: Pick<RunRegistry, 'cache'> | null, tasks: Pick<NodeTasks, 'store' | 'notLoaded'>) {
    this.#cache = registry?.cache ?? null;
    this.#tasks = tasks;
  }

  /** Why the node is not ready; null: the servers of the registry are known, its tasks, and the profiles they name. */
  problem(): string | null {
    const servers = this.#noServers();
    if (servers !== null) return servers;
    const { store, notLoaded } = this.#tasks;
    const noTasks = notLoaded();
    if (noTasks === null && this.#isComplete()) return null;
    const known = store.list(null);
    if (known.length === 0) return noTasks;
    return this.#isComplete() ? null : (known.map(({ live }) => this.blocks(live)).find((why) => why !== null) ?? null);
  }

  /** Whether a run of this task may start here now, with any revision that this node has. */
  mayStart(named: NamedTask): boolean {
    const { store, notLoaded } = this.#tasks;
    if (store.find(named) === null && notLoaded() !== null) return false;
    if (this.#isComplete()) return true;
    return store.revisions(named).every((revision) => this.blocks(revision) === null);
  }

  /** Why a run of this revision must not start yet; null: it may. */
  blocks({ config, namespace }: Pick<TaskRevision, 'config' | 'namespace'>): string | null {
    if (this.#isComplete()) return null;
    const parsed = parseTaskPolicy(config, namespace);
    if (!parsed.ok || !parsed.policy.enabled) return null;
    if (parsed.policy.profile === null) return this.#noServers();
    return (
      this.#noServers() ?? 'no profiles have been received from the registry, and the task names one (mcp.profile)'
    );
  }

  /** The task, for a submission. @throws HttpProblem 503 where the task may exist in a registry that has not responded */
  find(named: NamedTask): Task | null {
    const found = this.#tasks.store.find(named);
    const why = found === null ? this.#tasks.notLoaded() : null;
    if (why === null) return found;
    const headers = { 'retry-after': RETRY_AFTER_S };
    throw new HttpProblem(503, 'registry-unavailable', `cannot look up the task ${taskId(named)}: ${why}`, { headers });
  }

  #isComplete(): boolean {
    const cache = this.#cache;
    return cache === null || (cache.view() !== null && cache.profiles?.snapshot() !== null);
  }

  #noServers(): string | null {
    const cache = this.#cache;
    if (cache === null || cache.view() !== null) return null;
    const lastError = cache.status().lastError ?? cache.stops?.status().lastError ?? null;
    return `no snapshot of the registry yet; tasks with MCP wait for it${lastError === null ? '' : `: ${lastError}`}`;
  }
}
