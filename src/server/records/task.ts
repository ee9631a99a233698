import type { JsonObject } from '../../base/json.ts';
import type { LimitName } from '../../runtime/port/limits.ts';

/** `shared`: many guests a thread. `thread`: one of its own. */
export const isolations = ['shared', 'thread'] as const;
export type Isolation = (typeof isolations)[number];

export const DEFAULT_POOL = 'default';
export const DEFAULT_CONCURRENCY = 50;
export const DEFAULT_MAX_ATTEMPTS = 3;

/** What a node runs: every field is set, and the module is named by its digest. */
export interface TaskContent {
  readonly namespace: string;
  readonly name: string;
  /** sha256 of the module, in hex. */
  readonly wasm: string;
  readonly description: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  /** Null: the node's default one. */
  readonly backend: string | null;
  readonly pool: string;
  readonly isolation: Isolation;
  /** Runs of it at once on a node. */
  readonly concurrency: number;
  readonly config: Readonly<JsonObject>;
  readonly limits: Readonly<Partial<Record<LimitName, number>>>;
  readonly retry: { readonly max_attempts: number };
  readonly budgets: { readonly tokens_per_run: number | null; readonly tokens_per_day: number | null };
}

/** One version of a task. It never changes; `digest` is over its content. */
export interface TaskRevision extends TaskContent {
  readonly revision: number;
  readonly digest: string;
  readonly created_at_ms: number;
  readonly created_by: string;
}

/** `namespace/name`, as people and the trail write it. */
export const taskId = ({ namespace, name }: Pick<TaskContent, 'namespace' | 'name'>): string => `${namespace}/${name}`;
