import { Code, ConnectError } from '@connectrpc/connect';
import type { BoundCall } from '../server/records/approval.ts';
import type { McpProfile } from '../server/records/profile.ts';
import type { RegistryListing } from '../server/records/record-kind.ts';
import type { McpServerRecord } from '../server/records/server.ts';
import type { StopRecord } from '../server/records/stop.ts';
import type { TaskRecord, TaskRevision } from '../server/records/task.ts';
import {
  ApprovalRejected,
  type AskedApproval,
  type DecidedApproval,
  type FiledApproval,
  type NodeApprovals,
} from './approval-port.ts';
import type { IdentityPort } from './identity-port.ts';
import type { NodeReport, ReportAnswer } from './node-report.ts';
import type { RemoteSource } from './remote-source.ts';
import type { RunsAnswer, RunsReport } from './run-report.ts';
import { RegistryRefused, type RegistrySource, type RegistryWatchItem } from './source.ts';
import type { TaskPort } from './task-port.ts';
import type { OnInvalidRecord } from './wire-records.ts';

/** Several registries on one store: what one does not answer, the next one does. With one it is that one. */
export function failoverSource(sources: readonly [RemoteSource, ...RemoteSource[]]): RemoteSource {
  return sources.length === 1 ? sources[0] : new SeveralSources(sources);
}

/** Which of several is asked. */
class Turn {
  readonly #count: number;
  #at = 0;

  constructor(count: number) {
    this.#count = count;
  }

  get at(): number {
    return this.#at;
  }

  /** `index` failed: the next one is asked from now on, unless somebody else has left it before. */
  leave(index: number): void {
    if (this.#at === index) this.#at = (index + 1) % this.#count;
  }

  /** Asks one after the other until one answers. `isFinal`: the next one would answer the same. */
  async ask<T>(ask: (index: number) => Promise<T>, isFinal: (error: unknown) => boolean): Promise<T> {
    const failures: unknown[] = [];
    for (;;) {
      const index = this.#at;
      try {
        return await ask(index);
      } catch (error) {
        failures.push(error);
        this.leave(index);
        if (isFinal(error)) throw error;
        // Only where all of them refuse this node, it is refused.
        if (failures.length >= this.#count) throw failures.find((one) => !(one instanceof RegistryRefused)) ?? error;
      }
    }
  }
}

class SeveralOfKind<R> implements RegistrySource<R> {
  readonly #sources: readonly RegistrySource<R>[];
  readonly #turn: Turn;
  /** Who answered last. */
  #speaking = 0;

  constructor(sources: readonly RegistrySource<R>[], turn: Turn) {
    this.#sources = sources;
    this.#turn = turn;
  }

  get canWatchRecords(): boolean {
    return at(this.#sources, this.#speaking).canWatchRecords;
  }

  list(signal: AbortSignal): Promise<RegistryListing<R>> {
    return this.#turn.ask(
      async (index) => {
        const listing = await at(this.#sources, index).list(signal);
        this.#speaking = index;
        return listing;
      },
      () => signal.aborted,
    );
  }

  /** Goes on at its revision on the next one: they have the same epoch and revisions. */
  async *watch(since: number, signal: AbortSignal): AsyncGenerator<RegistryWatchItem<R>> {
    let reached = since;
    for (let silent = 0; ; ) {
      const index = this.#turn.at;
      try {
        for await (const item of at(this.#sources, index).watch(reached, signal)) {
          silent = 0;
          reached = item.revision;
          this.#speaking = index;
          yield item;
        }
        throw new Error('the watch stream ended');
      } catch (error) {
        this.#turn.leave(index);
        silent++;
        if (signal.aborted || mustListAgain(error) || silent >= this.#sources.length) throw error;
      }
    }
  }
}

class SeveralSources extends SeveralOfKind<McpServerRecord> implements RemoteSource {
  readonly #sources: readonly RemoteSource[];
  readonly #turn: Turn;
  readonly profiles: RegistrySource<McpProfile>;
  readonly stops: RegistrySource<StopRecord>;

  constructor(sources: readonly RemoteSource[]) {
    const turn = new Turn(sources.length);
    super(sources, turn);
    this.#sources = sources;
    this.#turn = turn;
    this.profiles = new SeveralOfKind(
      sources.map((source) => source.profiles),
      turn,
    );
    this.stops = new SeveralOfKind(
      sources.map((source) => source.stops),
      turn,
    );
  }

  report(report: NodeReport, signal: AbortSignal): Promise<ReportAnswer> {
    return this.#turn.ask(
      (index) => at(this.#sources, index).report(report, signal),
      () => signal.aborted,
    );
  }

  reportRuns(report: RunsReport, signal: AbortSignal): Promise<RunsAnswer> {
    return this.#turn.ask(
      (index) => at(this.#sources, index).reportRuns(report, signal),
      () => signal.aborted,
    );
  }

  tasks(onInvalid: OnInvalidRecord): TaskPort {
    return new SeveralTasks(
      this.#sources.map((source) => source.tasks(onInvalid)),
      this.#turn,
    );
  }

  get identities(): IdentityPort {
    return {
      identify: (sha256, signal) =>
        this.#turn.ask(
          (index) => at(this.#sources, index).identities.identify(sha256, signal),
          () => signal.aborted,
        ),
      issuer: (signed, signal) =>
        this.#turn.ask(
          (index) => at(this.#sources, index).identities.issuer(signed, signal),
          () => signal.aborted,
        ),
    };
  }

  approvals(nodeId: string): NodeApprovals {
    return new SeveralApprovals(
      this.#sources.map((source) => source.approvals(nodeId)),
      this.#turn,
    );
  }

  close(): void {
    for (const source of this.#sources) source.close();
  }
}

class SeveralTasks extends SeveralOfKind<TaskRecord> implements TaskPort {
  readonly #ports: readonly TaskPort[];
  readonly #turn: Turn;

  constructor(ports: readonly TaskPort[], turn: Turn) {
    super(ports, turn);
    this.#ports = ports;
    this.#turn = turn;
  }

  revision(taskId: string, revision: number, signal: AbortSignal): Promise<TaskRevision | null> {
    return this.#turn.ask(
      (index) => at(this.#ports, index).revision(taskId, revision, signal),
      () => signal.aborted,
    );
  }

  /** Each may have modules that the others do not. */
  module(sha256: string, maxBytes: number, signal: AbortSignal): Promise<Uint8Array> {
    return this.#turn.ask(
      (index) => at(this.#ports, index).module(sha256, maxBytes, signal),
      () => signal.aborted,
    );
  }
}

class SeveralApprovals implements NodeApprovals {
  readonly #ports: readonly NodeApprovals[];
  readonly #turn: Turn;

  constructor(ports: readonly NodeApprovals[], turn: Turn) {
    this.#ports = ports;
    this.#turn = turn;
  }

  open(asked: AskedApproval, signal: AbortSignal): Promise<FiledApproval> {
    return this.#ask((port) => port.open(asked, signal), signal);
  }

  /** May be asked twice: a claim that was granted is granted again to whoever made it. */
  claim(id: string, claim: string, call: BoundCall, argumentsSha256: string, signal: AbortSignal) {
    return this.#ask((port) => port.claim(id, claim, call, argumentsSha256, signal), signal);
  }

  withdraw(id: string, reason: string, signal: AbortSignal): Promise<void> {
    return this.#ask((port) => port.withdraw(id, reason, signal), signal);
  }

  async *decided(signal: AbortSignal): AsyncGenerator<DecidedApproval | null> {
    const index = this.#turn.at;
    try {
      yield* at(this.#ports, index).decided(signal);
    } catch (error) {
      this.#turn.leave(index);
      throw error;
    }
  }

  waiting(ids: readonly string[], signal: AbortSignal): Promise<ReadonlySet<string>> {
    return this.#ask((port) => port.waiting(ids, signal), signal);
  }

  withdrawAll(namespace: string, run: string, reason: string, signal: AbortSignal): Promise<void> {
    return this.#ask((port) => port.withdrawAll(namespace, run, reason, signal), signal);
  }

  #ask<T>(ask: (port: NodeApprovals) => Promise<T>, signal: AbortSignal): Promise<T> {
    return this.#turn.ask(
      (index) => ask(at(this.#ports, index)),
      (error) => signal.aborted || error instanceof ApprovalRejected,
    );
  }
}

/** It answered, and has nothing that the watch could go on from. */
function mustListAgain(error: unknown): boolean {
  const cause = error instanceof Error ? error.cause : undefined;
  return cause instanceof ConnectError && cause.code === Code.FailedPrecondition;
}

function at<T>(list: readonly T[], index: number): T {
  const found = list[index];
  if (found === undefined) throw new Error('no registry address is configured');
  return found;
}
