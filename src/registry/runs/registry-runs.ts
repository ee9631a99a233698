import type { RegistryQueueConfig } from '../../config/registry/registry-config.ts';
import { HttpProblem } from '../../server/http/problem.ts';
import type { QueueFacts } from '../../server/queue/run-queue.ts';
import { runStatuses } from '../../server/records/run.ts';
import type { FindRuns } from '../../server/routes/run-route.ts';
import { RegistryQueue, type RegistryQueueOptions } from './registry-queue.ts';

export interface RegistryRuns {
  readonly kept: FindRuns;
  /** Of all its queues together; null: there is none, or none can be reached now. */
  facts(): QueueFacts | null;
  /** Whether all its queues accept runs; null: there is none. */
  isAvailable(): boolean | null;
  close(): Promise<void>;
}

/** The runs of a registry: in the account of their namespace where it has one, else in that of all. @throws Error */
export async function openRegistryRuns(
  queue: RegistryQueueConfig | null,
  options: RegistryQueueOptions,
): Promise<RegistryRuns> {
  const started = 'this registry does not accept runs: it was started without --queue; submit to a node (spear --node)';
  if (queue === null)
    return { kept: () => noQueue(started), facts: () => null, isAvailable: () => null, close: async () => {} };
  const open: RegistryQueue[] = [];
  const close = async () => {
    await Promise.all(open.map((one) => one.close()));
  };
  const opened = async (account: RegistryQueueConfig, credsField?: string) => {
    const made = await RegistryQueue.open(account, { ...options, credsField });
    open.push(made);
    return made;
  };
  const { creds: ofAll, accounts } = queue;
  const none = (namespace = '') => `the namespace ${namespace} has no NATS account (nats.accounts, nats.creds)`;
  try {
    const shared = ofAll === null && accounts.size > 0 ? null : await opened(queue);
    const own = new Map<string | undefined, RegistryQueue>();
    for (const [name, creds] of accounts) own.set(name, await opened({ ...queue, creds }, `nats.accounts.${name}`));
    const kept: FindRuns = (namespace) => (own.get(namespace) ?? shared ?? noQueue(none(namespace))).kept;
    const isAvailable = () => open.every((one) => one.isAvailable);
    return { kept, facts: () => open.map((one) => one.facts()).reduce(added, null), isAvailable, close };
  } catch (error) {
    await close();
    throw error;
  }
}

function added(sum: QueueFacts | null, facts: QueueFacts | null): QueueFacts | null {
  if (sum === null || facts === null) return sum ?? facts;
  const byStatus = Object.fromEntries(runStatuses.map((one) => [one, sum.byStatus[one] + facts.byStatus[one]]));
  const ages = [sum.oldestQueuedMs, facts.oldestQueuedMs].filter((age) => age !== null);
  return {
    byStatus: byStatus as QueueFacts['byStatus'],
    oldestQueuedMs: ages.length === 0 ? null : Math.max(...ages),
  };
}

function noQueue(why: string): never {
  throw new HttpProblem(409, 'no-queue', why);
}
