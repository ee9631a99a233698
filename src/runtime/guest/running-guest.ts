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

const ENDED_BEFORE: GuestEnding = { kind: 'trap', message: 'the guest was ended before it started', stack: '' };

/** What surrounds one guest on its thread. */
export interface Surroundings {
  readonly port: ThreadPort;
  /** Its number on this thread. */
  readonly guest: number;
  /** Calls made so far, by row of the table. */
  readonly counts: Float64Array;
  readonly openOutput: (post: RunningGuest['tellOutput']) => Output;
  /** What of its replayLog the host has not taken; null: nobody counts. */
  readonly replayWindow: PostWindow | null;
  /** Null: it has the thread for itself. */
  readonly scope: CancellationScope | null;
  readonly yieldPoints: YieldPoints;
}

/** One guest on its thread: everything of it, and nothing of any other. It knows no secret and no file. */
export class RunningGuest implements CoreGuest, ComponentGuest {
  readonly link: HostLink;
  readonly state: RunningGuestState;
  readonly output: Output;
  readonly table: HostcallTable;
  readonly counts: Float64Array;
  readonly scope: CancellationScope | null;
  readonly yieldPoints: YieldPoints;
  /** What it has its linear memory in. */
  readonly memories: GuestMemory[] = [];
  readonly #spec: GuestSpec;
  readonly #replayLog: ReplayLog | null;
  readonly #rest: IdleReporter | null;

  constructor(spec: GuestSpec, { port, guest, counts, openOutput, replayWindow, scope, yieldPoints }: Surroundings) {
    this.#spec = spec;
    this.scope = scope;
    this.yieldPoints = yieldPoints;
    this.counts = counts;
    // Chosen once: a guest without a journal does not pay for one.
    const replayLog = spec.replay && new ReplayLog(spec.replay, replayWindow, scope === null ? undefined : throwTrap);
    this.#replayLog = replayLog;
    const drawn = spec.recordedValues === null ? systemSources : new RecordedSources(spec.recordedValues);
    const sources: DeterministicSources = replayLog ?? (scope === null ? drawn : new CancellableSources(scope, drawn));
    this.table = replayLog === null ? hostcalls : recordedCalls(hostcalls, replayLog);
    const wait = new WaitPoint(this.mark);
    this.link = new HostLink(port, guest, wait, replayLog);
    this.output = openOutput((stream, chunk) => this.tellOutput(stream, chunk));
    const afterMs = spec.replay?.reportTimersMs ?? null;
    const rest =
      replayLog === null || afterMs === null ? null : new IdleReporter({ replayLog, wait, link: this.link, afterMs });
    this.#rest = rest;
    if (rest !== null) scope?.atEnd(() => rest.close());
    this.state = new RunningGuestState(spec, this.output, wait, this.link, sources, rest);
    // It looks at the clock when it is made, which a replayLog has always had first.
    if (replayLog !== null) void this.state.log;
  }

  get args(): readonly string[] {
    return this.#spec.args;
  }

  get env(): Readonly<Record<string, string>> {
    return this.#spec.env;
  }

  /** The table for a binding that gets its texts as they are. */
  get textTable(): HostcallTable {
    return this.#replayLog === null ? this.table : recordedTexts(this.table, this.#replayLog);
  }

  get mark(): (() => void) | null {
    const replayLog = this.#replayLog;
    return replayLog === null ? null : () => replayLog.marks();
  }

  newMemory(): GuestMemory {
    const memory = this.#replayLog === null ? new GuestMemory() : new RecordedMemory(this.#replayLog);
    this.memories.push(memory);
    return memory;
  }

  tellOutput(stream: StandardStream, chunk: Uint8Array<ArrayBuffer>): void {
    this.link.tell(0, ['output', stream, chunk], [chunk.buffer]);
  }

  /** From its start to its end, which the host is told of. */
  async run(start: GuestStart): Promise<void> {
    // Not amid the messages of the thread: those that are taken after a guest's first steps, and before it has its turn
    // to wait, would reach it between two places of its replayLog.
    await null;
    this.#ended(this.scope?.begins() === false ? ENDED_BEFORE : await this.#live(start));
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
    this.#rest?.close();
    this.link.tell(0, ['ended', { ending, droppedLogLines: this.state.droppedLogLines }]);
    this.link.close();
  }

  #requestStdin(maxBytes: number, receive: (chunk: Uint8Array) => void): void {
    const call = this.link.call(['stdin', maxBytes], (reply) => {
      this.link.forget(call);
      receive(reply[0] === 'stdin' && reply[1] ? reply[1] : new Uint8Array());
    });
  }

  /** Loaded only for a component: a core module starts sooner without it. */
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
