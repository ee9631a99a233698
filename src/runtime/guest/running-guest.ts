import { GuestMemory } from '../abi/memory.ts';
import { type PostWindow, ReplayLog } from '../durable/guest/replay-log.ts';
import { type DeterministicSources, RecordedSources, systemSources } from '../durable/guest/sources.ts';
import type { GuestSpec, StandardStream } from '../port/guest-spec.ts';
import type { ComponentStart, GuestEnding, GuestStart } from '../port/port.ts';
import { CancellableSources, type CancellationScope } from './cancellation-scope.ts';
import type { ComponentGuest } from './component/instance.ts';
import { type CoreGuest, runCore } from './core/instance.ts';
import { WaitPoint } from './descriptors/readiness.ts';
import { hostcalls } from './hostcalls/all.ts';
import { RunningGuestState } from './hostcalls/guest-state.ts';
import { HostLink, IdleReporter, type ThreadPort } from './hostcalls/host-link.ts';
import type { Output } from './hostcalls/output.ts';
import { RecordedMemory, recordedCalls, recordedTexts } from './hostcalls/recorded-calls.ts';
import type { HostcallTable } from './hostcalls/table.ts';
import type { YieldPoints } from './scheduler.ts';
import { throwTrap } from './trap.ts';

const CANCELLED_BEFORE_START: GuestEnding = {
  kind: 'trap',
  message: 'the guest was ended before it started',
  stack: '',
};

/** What the thread provides to one guest. */
export interface GuestEnvironment {
  readonly port: ThreadPort;
  /** Number of the guest on this thread. */
  readonly guest: number;
  /** Calls made so far, by row of the table. */
  readonly counts: Float64Array;
  readonly openOutput: (post: RunningGuest['postOutput']) => Output;
  /** Back pressure of the journal events; null: none. */
  readonly replayWindow: PostWindow | null;
  /** Null: the guest has a dedicated thread. */
  readonly scope: CancellationScope | null;
  readonly yieldPoints: YieldPoints;
}

/** One guest on its thread. Holds all of the guest's state and nothing of any other guest; has no secrets and no files. */
export class RunningGuest implements CoreGuest, ComponentGuest {
  readonly link: HostLink;
  readonly state: RunningGuestState;
  readonly output: Output;
  readonly table: HostcallTable;
  readonly counts: Float64Array;
  readonly scope: CancellationScope | null;
  readonly yieldPoints: YieldPoints;
  /** The guest's linear memories. */
  readonly memories: GuestMemory[] = [];
  readonly #spec: GuestSpec;
  readonly #replayLog: ReplayLog | null;
  readonly #idleReporter: IdleReporter | null;

  constructor(
    spec: GuestSpec,
    { port, guest, counts, openOutput, replayWindow, scope, yieldPoints }: GuestEnvironment,
  ) {
    this.#spec = spec;
    this.scope = scope;
    this.yieldPoints = yieldPoints;
    this.counts = counts;
    // Decided once, so that a guest without a journal pays nothing for it.
    const replayLog = spec.replay && new ReplayLog(spec.replay, replayWindow, scope === null ? undefined : throwTrap);
    this.#replayLog = replayLog;
    const values = spec.recordedValues === null ? systemSources : new RecordedSources(spec.recordedValues);
    const sources: DeterministicSources =
      replayLog ?? (scope === null ? values : new CancellableSources(scope, values));
    this.table = replayLog === null ? hostcalls : recordedCalls(hostcalls, replayLog);
    const wait = new WaitPoint(this.mark);
    this.link = new HostLink(port, guest, wait, replayLog);
    this.output = openOutput((stream, chunk) => this.postOutput(stream, chunk));
    const afterMs = spec.replay?.reportTimersMs ?? null;
    const idleReporter =
      replayLog === null || afterMs === null ? null : new IdleReporter({ replayLog, wait, link: this.link, afterMs });
    this.#idleReporter = idleReporter;
    if (idleReporter !== null) scope?.atEnd(() => idleReporter.close());
    this.state = new RunningGuestState(spec, this.output, wait, this.link, sources, idleReporter);
    // Created eagerly: its clock read has always been the first event of a journal.
    if (replayLog !== null) void this.state.log;
  }

  get args(): readonly string[] {
    return this.#spec.args;
  }

  get env(): Readonly<Record<string, string>> {
    return this.#spec.env;
  }

  /** The table for a binding that receives texts as JavaScript strings. */
  get textTable(): HostcallTable {
    return this.#replayLog === null ? this.table : recordedTexts(this.table, this.#replayLog);
  }

  get mark(): (() => void) | null {
    const replayLog = this.#replayLog;
    return replayLog === null ? null : () => replayLog.step();
  }

  newMemory(): GuestMemory {
    const memory = this.#replayLog === null ? new GuestMemory() : new RecordedMemory(this.#replayLog);
    this.memories.push(memory);
    return memory;
  }

  postOutput(stream: StandardStream, chunk: Uint8Array<ArrayBuffer>): void {
    this.link.send(0, ['output', stream, chunk], [chunk.buffer]);
  }

  /** Runs the guest to its end and reports that to the host. */
  async run(start: GuestStart): Promise<void> {
    // Not while the thread takes a batch of messages: messages that follow in the batch would otherwise reach the guest
    // between two positions of its replay log.
    await null;
    this.#ended(this.scope?.start() === false ? CANCELLED_BEFORE_START : await this.#live(start));
  }

  readStdin(maxBytes: number): Promise<Uint8Array> {
    return new Promise((resolve) => this.#requestStdin(maxBytes, resolve));
  }

  #live(start: GuestStart): Promise<GuestEnding> {
    const running = start[0] === 'start' ? runCore(this, start[1]) : this.#runComponent(start[1]);
    if (this.#spec.replay?.wakesAtStart) this.state.wait.notify();
    return running;
  }

  #ended(ending: GuestEnding): void {
    this.scope?.close();
    this.#replayLog?.close();
    this.#idleReporter?.close();
    this.link.send(0, ['ended', { ending, droppedLogLines: this.state.droppedLogLines }]);
    this.link.close();
  }

  #requestStdin(maxBytes: number, receive: (chunk: Uint8Array) => void): void {
    const call = this.link.call(['stdin', maxBytes], (reply) => {
      this.link.unlisten(call);
      receive(reply[0] === 'stdin' && reply[1] ? reply[1] : new Uint8Array());
    });
  }

  /** The component code is loaded on demand, so that core modules start sooner. */
  async #runComponent(component: ComponentStart): Promise<GuestEnding> {
    const { runComponent } = await import('./component/instance.ts');
    const stdin = {
      request: (maxBytes: number, receive: (chunk: Uint8Array) => void) => this.#requestStdin(maxBytes, receive),
      drain: () => this.link.drain(),
      mark: this.mark,
    };
    return runComponent(this, component, stdin);
  }
}
