import type { SmsQueue } from '../../config/sms/sms-config.ts';
import { HttpProblem } from '../http/problem.ts';
import { RegistryQueue, type RegistryQueueOptions } from './registry-queue.ts';
import type { FindRuns } from './run-route.ts';

export interface RegistryRuns {
  readonly kept: FindRuns;
  close(): Promise<void>;
}

/** The runs of a registry: in the account of their namespace where it has one, else in that of all. @throws Error */
export async function openRegistryRuns(queue: SmsQueue | null, options: RegistryQueueOptions): Promise<RegistryRuns> {
  const started = 'this registry takes no runs: it was started without --queue; ask a node (spear --node)';
  if (queue === null) return { kept: () => noQueue(started), close: async () => {} };
  const open: RegistryQueue[] = [];
  const close = async () => {
    await Promise.all(open.map((one) => one.close()));
  };
  const opened = async (account: SmsQueue, credsField?: string) => {
    const made = await RegistryQueue.open(account, { ...options, credsField });
    open.push(made);
    return made;
  };
  const { creds: ofAll, accounts } = queue;
  const none = (namespace = '') => `the namespace ${namespace} has no account of the queue (nats.accounts, nats.creds)`;
  try {
    const shared = ofAll === null && accounts.size > 0 ? null : await opened(queue);
    const own = new Map<string | undefined, RegistryQueue>();
    for (const [name, creds] of accounts) own.set(name, await opened({ ...queue, creds }, `nats.accounts.${name}`));
    return { kept: (namespace) => (own.get(namespace) ?? shared ?? noQueue(none(namespace))).kept, close };
  } catch (error) {
    await close();
    throw error;
  }
}

function noQueue(why: string): never {
  throw new HttpProblem(409, 'no-queue', why);
}
