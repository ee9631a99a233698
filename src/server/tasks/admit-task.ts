import { parseTaskPolicy } from '../../agent/policy/task-policy.ts';
import { errorText } from '../../base/errors.ts';
import { checkTaskRecord, type TaskRecordDocument } from '../../config/task-document.ts';
import { ModuleError } from '../../runtime/abi/guest-module.ts';
import { compileLimits, type LimitName } from '../../runtime/port/limits.ts';
import { DEFAULT_NAMESPACE } from '../../runtime/port/policy-layers.ts';
import { usesRelaxedSimd } from '../../runtime/wasm/instructions.ts';
import { prepare } from '../../runtime/wasm/prepare.ts';
import { DEFAULT_POOL } from '../records/field-rules.ts';
import { DEFAULT_CONCURRENCY, DEFAULT_MAX_ATTEMPTS, type TaskContent } from '../records/task.ts';
import { TaskError } from './task-book.ts';

export interface Admission {
  /** Names of the models that there are; null: each node has its own. */
  readonly backends: ReadonlySet<string> | null;
  readonly componentCache: string | null;
  /** The only pool that this node serves; null: any. */
  readonly pool: string | null;
}

/**
 * Validates a task file or request: its keys, policy, placement, and its module, which is prepared as a run would prepare it.
 * @throws TaskError
 */
export async function admitTask(
  label: string,
  given: unknown,
  module: (wasm: string) => Promise<{ readonly bytes: Uint8Array; readonly sha256: string }>,
  { backends, componentCache, pool }: Admission,
): Promise<{ readonly content: TaskContent; readonly bytes: Uint8Array }> {
  const checked = checkTaskRecord(label, given);
  if ('complaint' in checked) throw new TaskError('invalid', checked.complaint);
  const { document } = checked;
  const policy = parseTaskPolicy((document.config ?? {}) as TaskContent['config'], document.namespace ?? null);
  if (!policy.ok) {
    const lines = policy.issues.map(({ key, message }) => `${label}: config.${key}: ${message}`);
    throw new TaskError('invalid', lines.join('\n'));
  }
  const placement = placementProblem(
    { backend: document.backend ?? null, pool: document.pool ?? DEFAULT_POOL },
    { backends, pool },
  );
  if (placement !== null) throw new TaskError('invalid', `${label}: ${placement}`);
  const { bytes, sha256 } = await module(document.wasm);
  try {
    const limits = compileLimits(document.limits as Partial<Record<LimitName, number>>);
    await prepare(bytes, { limits, allowUnknownImports: false, componentCache });
    if (usesRelaxedSimd(bytes))
      throw new ModuleError(
        'the module uses relaxed SIMD, whose results are nondeterministic: its runs could not be resumed',
      );
  } catch (error) {
    if (!(error instanceof ModuleError)) throw error;
    throw new TaskError('invalid', `${label}: wasm: ${errorText(error)}`);
  }
  return { content: contentOf(document, sha256), bytes };
}

/** Why this node cannot run a task; null if it can. */
export function placementProblem(
  { backend, pool: wanted }: Pick<TaskContent, 'backend' | 'pool'>,
  { backends, pool }: Pick<Admission, 'backends' | 'pool'>,
): string | null {
  if (backend !== null && backends !== null && !backends.has(backend)) {
    return `backend: "${backend}" is not configured (configured: ${[...backends].join(', ')})`;
  }
  if (pool === null || wanted === pool) return null;
  return `pool: the task is for "${wanted}", and this node serves "${pool}" (node.pool)`;
}

function contentOf(document: TaskRecordDocument, wasm: string): TaskContent {
  const { tokens_per_run = null, tokens_per_day = null } = document.budgets ?? {};
  return Object.freeze({
    namespace: document.namespace ?? DEFAULT_NAMESPACE,
    name: document.name,
    wasm,
    description: document.description ?? '',
    args: document.args ?? [],
    env: document.env ?? {},
    backend: document.backend ?? null,
    pool: document.pool ?? DEFAULT_POOL,
    isolation: document.isolation ?? 'shared',
    concurrency: document.concurrency ?? DEFAULT_CONCURRENCY,
    config: (document.config ?? {}) as TaskContent['config'],
    limits: (document.limits ?? {}) as TaskContent['limits'],
    retry: { max_attempts: document.retry?.max_attempts ?? DEFAULT_MAX_ATTEMPTS },
    budgets: { tokens_per_run, tokens_per_day },
  });
}
