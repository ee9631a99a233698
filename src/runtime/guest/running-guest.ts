import { GuestMemory } from '../abi/memory.ts';
import { type Chance, systemChance } from '../durable/guest/chance.ts';
import { RecalledChance } from '../durable/guest/recalled-chance.ts';
import { Tape, type TapeUnderway } from '../durable/guest/tape.ts';
import type { GuestSpec, StandardStream } from '../port/guest-spec.ts';
import type { ComponentStart, GuestEnding, GuestStart } from '../port/port.ts';
import type { ComponentGuest } from './component/instance.ts';
import { type CoreGuest, runCore } from './core/instance.ts';
import { WaitPoint } from './descriptors/readiness.ts';
import type { TurnTaking } from './guest-turns.ts';
import { hostcalls } from './hostcalls/all.ts';
import { HostLink } from './hostcalls/host-link.ts';
import type { Output } from './hostcalls/output.ts';
import { StreamRest } from './hostcalls/stream-rest.ts';
import type { HostcallTable } from './hostcalls/table.ts';
import { TapedMemory, tapedCalls, tapedTexts } from './hostcalls/taped-calls.ts';
import type { ThreadPort } from './hostcalls/thread-port.ts';
import type { Leash } from './leash.ts';
import { LeashedChance } from './leashed-chance.ts';
import { LiveState } from './live-state.ts';
import { throwUncatchable } from './uncatchable.ts';

const ENDED_BEFORE: GuestEnding = { kind: 'trap', message: 'the guest was ended before it started', stack: '' };

/** What surrounds one guest on its thread. */
export interface Surroundings {
  readonly port: ThreadPort;
  /** Its number on this thread. */
  readonly guest: number;
  /** Calls made so far, by row of the table. */
  readonly counts: Float64Array;
  readonly openOutput: (post: RunningGuest['tellOutput']) => Output;
  /** What of its tape the host has not taken; null: nobody counts. */
  readonly tapeUnderway: TapeUnderway | null;
  /** Null: it has the thread for itself. */
  readonly leash: Leash | null;
  readonly giveWay: TurnTaking;
}

/** One guest on its thread: everything of it, and nothing of any other. It knows no secret and no file. */
export class RunningGuest implements CoreGuest, ComponentGuest {
  readonly link: HostLink;
  readonly state: LiveState;
  readonly output: Output;
  readonly table: HostcallTable;
  readonly counts: Float64Array;
  readonly leash: Leash | null;
  readonly giveWay: TurnTaking;
  /** What it has its linear memory in. */
  readonly memories: GuestMemory[] = [];
  readonly #spec: GuestSpec;
  readonly #tape: Tape | null;
  readonly #rest: StreamRest | null;

  constructor(spec: GuestSpec, { port, guest, counts, openOutput, tapeUnderway, leash, giveWay }: Surroundings) {
    this.#spec = spec;
    this.leash = leash;
    this.giveWay = giveWay;
    this.counts = counts;
    // Chosen once: a guest without a journal does not pay for one.
    const tape = spec.tape && new Tape(spec.tape, tapeUnderway, leash === null ? undefined : throwUncatchable);
    this.#tape = tape;
    const drawn = spec.chance === null ? systemChance : new RecalledChance(spec.chance);
    const chance: Chance = tape ?? (leash === null ? drawn : new LeashedChance(leash, drawn));
    this.table = tape === null ? hostcalls : tapedCalls(hostcalls, tape);
    const wait = new WaitPoint(this.mark);
    this.link = new HostLink(port, guest, wait, tape);
    this.output = openOutput((stream, chunk) => this.tellOutput(stream, chunk));
    const afterMs = spec.tape?.tellsSleepsMs ?? null;
    const rest = tape === null || afterMs === null ? null : new StreamRest({ tape, wait, link: this.link, afterMs });
    this.#rest = rest;
    if (rest !== null) leash?.atEnd(() => rest.close());
    this.state = new LiveState(spec, this.output, wait, this.link, chance, rest);
    // It looks at the clock when it is made, which a tape has always had first.
    if (tape !== null) void this.state.log;
  }

  get args(): readonly string[] {
    return this.#spec.args;
  }

  get env(): Readonly<Record<string, string>> {
    return this.#spec.env;
  }

  /** The table for a binding that gets its texts as they are. */
  get textTable(): HostcallTable {
    return this.#tape === null ? this.table : tapedTexts(this.table, this.#tape);
  }

  get mark(): (() => void) | null {
    const tape = this.#tape;
    return tape === null ? null : () => tape.marks();
  }

  newMemory(): GuestMemory {
    const memory = this.#tape === null ? new GuestMemory() : new TapedMemory(this.#tape);
    this.memories.push(memory);
    return memory;
  }

  tellOutput(stream: StandardStream, chunk: Uint8Array<ArrayBuffer>): void {
    this.link.tell(0, ['output', stream, chunk], [chunk.buffer]);
  }

  /** From its start to its end, which the host is told of. */
  async run(start: GuestStart): Promise<void> {
    // Not amid the messages of the thread: those that are taken after a guest's first steps, and before it has its turn
    // to wait, would reach it between two places of its tape.
    await null;
    this.#ended(this.leash?.begins() === false ? ENDED_BEFORE : await this.#live(start));
  }

  readStdin(maxBytes: number): Promise<Uint8Array> {
    return new Promise((resolve) => this.#requestStdin(maxBytes, resolve));
  }

  #live(start: GuestStart): Promise<GuestEnding> {
    const running = start[0] === 'start' ? runCore(this, start[1]) : this.#runComponent(start[1]);
    if (this.#spec.tape?.startWakes) this.state.wait.notify();
    return running;
  }

  #ended(ending: GuestEnding): void {
    this.leash?.close();
    this.#tape?.close();
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
