import type { AskedApproval, DecidedApproval, NodeApprovals } from '../../../src/registry-client/ports.ts';
import { Caller } from '../../../src/server/identity/caller.ts';
import { type Approval, type BoundCall, decidersOf } from '../../../src/server/records/approval.ts';
import type { OpenedQueue } from './open-queue.ts';

/** What a node sees of a registry, without a network. */
export class FakeRemote implements NodeApprovals {
  readonly #registry: OpenedQueue;

  constructor(registry: OpenedQueue) {
    this.#registry = registry;
  }

  async open({ call, argumentsJson, isKept }: AskedApproval) {
    return this.#filed(await this.#registry.node.open({ ...call, arguments: JSON.parse(argumentsJson), isKept }));
  }

  async *decided(signal: AbortSignal): AsyncGenerator<DecidedApproval | null> {
    const { store } = this.#registry;
    const events = store.watch(await store.revision(), signal);
    yield null;
    for await (const { upserts } of events) {
      for (const approval of upserts) if (approval.status !== 'waiting') yield this.#filed(approval);
    }
  }

  async waiting(ids: readonly string[]) {
    return new Set(ids.filter((id) => this.#registry.node.isWaiting(id)));
  }

  claim(id: string, claim: string, call: BoundCall, argumentsHash: string) {
    return this.#registry.queue.redeem(Caller.process('test'), id, claim, call, argumentsHash);
  }

  withdraw(id: string, reason: string) {
    return this.#registry.node.withdraw(id, reason);
  }

  withdrawAll(namespace: string, run: string) {
    return this.#registry.node.withdrawAll(namespace, run);
  }

  #filed(approval: Approval): DecidedApproval {
    const { queue } = this.#registry;
    const { approval_id: id, status, salt, decision, reason, run, namespace } = approval;
    return {
      ...{ id, status, salt, decision: decision ?? '', reason: reason ?? '', run, namespace },
      ...{ decidedBy: decidersOf(approval), leftMs: queue.leftMs(approval), ageMs: queue.ageMs(approval) },
    };
  }
}
