import type { GuestSpec, StandardStream } from '../port/guest-spec.ts';
import type { GuestStart, HostMessage } from '../port/port.ts';
import { ComputingTime } from './computing-time.ts';
import { GuestTurns } from './guest-turns.ts';
import type { Hears, ThreadPort } from './hostcalls/thread-port.ts';
import { Leash, type ThreadHold } from './leash.ts';
import { RunningGuest } from './running-guest.ts';
import { SharedOutput, type TellsOutput } from './shared-output.ts';
import { SharedTape } from './shared-tape.ts';
import type { ThreadTurns } from './thread-turns.ts';

/** One guest of many on its thread. */
export class SharedGuest implements ThreadHold, TellsOutput, Hears {
  readonly #turns: ThreadTurns;
  readonly #guest: number;
  readonly #computing: ComputingTime;
  readonly #leash = new Leash(this);
  readonly #output: SharedOutput;
  readonly #tape: SharedTape | null;
  readonly #running: RunningGuest;
  /** Linear memory that it had when it was last measured, and when all guests of the thread were last within their limit. */
  measuredBytes = 0;
  #settledBytes = 0;

  /** `counts`: where it counts its calls and what it computes. */
  constructor(spec: GuestSpec, counts: Float64Array, guest: number, port: ThreadPort, turns: ThreadTurns) {
    this.#turns = turns;
    this.#guest = guest;
    this.#computing = new ComputingTime(counts);
    const output = new SharedOutput(this);
    const tape = spec.tape === null ? null : new SharedTape();
    const leash = this.#leash;
    const rooms = tape === null ? [output] : [output, tape];
    const giveWay = new GuestTurns(turns, guest, leash, rooms, spec.limits.turn_ms);
    this.#output = output;
    this.#tape = tape;
    const openOutput = () => output;
    this.#running = new RunningGuest(spec, { port, guest, counts, openOutput, tapeUnderway: tape, leash, giveWay });
  }

  /** How much its memory has grown since {@link settle}. */
  measure(): number {
    this.measuredBytes = this.#running.memories.reduce((sum, { byteLength }) => sum + byteLength, 0);
    return this.measuredBytes - this.#settledBytes;
  }

  settle(): void {
    this.#settledBytes = this.measuredBytes;
  }

  run(start: GuestStart): Promise<void> {
    return this.#running.run(start);
  }

  hear(message: HostMessage): void {
    const [, call, ...word] = message;
    if (call !== 0) this.#running.link.receive(message);
    else if (word[0] === 'end') this.#leash.end();
    else if (word[0] === 'taken') {
      if (word[1] === 'tape') this.#tape?.taken(word[2]);
      else this.#output.taken(word[1], word[2]);
    }
  }

  tellOutput(stream: StandardStream, chunk: Uint8Array<ArrayBuffer>): void {
    this.#running.tellOutput(stream, chunk);
  }

  resumes(): void {
    this.#turns.holds(this.#guest);
    this.#computing.begins();
  }

  waits(): void {
    this.#computing.ends();
  }

  closed(): void {
    this.#output.flush();
    this.#tape?.close();
  }
}
