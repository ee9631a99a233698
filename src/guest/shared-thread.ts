import type { GuestMemory } from '../abi/memory.ts';
import type { ThreadPort } from '../hostcalls/thread-port.ts';
import type { GuestSpec } from '../protocol/guest-spec.ts';
import type { GuestStart, HostMessage } from '../protocol/port.ts';
import { ComputingTime } from './computing-time.ts';
import { GuestTurns } from './guest-turns.ts';
import { Leash } from './leash.ts';
import { RunningGuest } from './running-guest.ts';
import { SharedOutput } from './shared-output.ts';
import { SharedTape } from './shared-tape.ts';
import { ThreadTurns } from './thread-turns.ts';

/** The number of the thread itself among its guests. */
const THREAD = 0;

/** A thread that guests share: they come and go by message, and each is ended alone. */
export class SharedThread {
  readonly #port: ThreadPort;
  readonly #turns: ThreadTurns;
  /** What guests are started with, by the host's number for it. */
  readonly #modules = new Map<number, GuestStart>();
  /** What each guest has its linear memory in. */
  readonly #memories = new Map<number, readonly GuestMemory[]>();

  constructor(port: ThreadPort, turns: WebAssembly.Memory) {
    this.#port = port;
    this.#turns = new ThreadTurns(turns);
    port.attach(THREAD, ([, , ...word]) => {
      if (word[0] === 'module') this.#modules.set(word[1], word[2]);
      else if (word[0] === 'forget_module') this.#modules.delete(word[1]);
      else if (word[0] === 'ping') this.#pong(word[1]);
      else if (word[0] === 'open') void this.#run(word[1], word[2], word[3]);
    });
    this.#pong(0);
  }

  async #run(guest: number, spec: GuestSpec, module: number): Promise<void> {
    const start = this.#modules.get(module);
    if (start === undefined) throw new Error(`guest ${guest} is to run module ${module}, which is not here`);
    const port = this.#port;
    const computing = new ComputingTime(spec.computedMs);
    const resumes = () => {
      this.#turns.holds(guest);
      computing.begins();
    };
    const leash = new Leash(resumes, () => computing.ends());
    const memories: GuestMemory[] = [];
    this.#memories.set(guest, memories);
    const output = new SharedOutput((stream, chunk) => running.tellOutput(stream, chunk));
    leash.atEnd(() => output.flush());
    const tape = new SharedTape();
    leash.atEnd(() => tape.close());
    const running = new RunningGuest(spec, {
      port,
      guest,
      openOutput: () => output,
      tapeUnderway: tape,
      leash,
      giveWay: new GuestTurns(this.#turns, guest, leash, [output, tape], spec.limits.turn_ms),
      madeMemory: (memory) => memories.push(memory),
    });
    port.attach(guest, (message: HostMessage) => {
      const [, call, ...word] = message;
      if (call !== 0) running.link.receive(message);
      else if (word[0] === 'end') leash.end();
      else if (word[0] === 'taken') {
        if (word[1] === 'tape') tape.taken(word[2]);
        else output.taken(word[1], word[2]);
      }
    });
    leash.resumes();
    await running.run(start);
    this.#memories.delete(guest);
    port.detach(guest);
  }

  #pong(ping: number): void {
    let total = 0;
    let largest = 0;
    let most = -1;
    for (const [guest, memories] of this.#memories) {
      const bytes = memories.reduce((sum, { byteLength }) => sum + byteLength, 0);
      total += bytes;
      if (bytes > most) [most, largest] = [bytes, guest];
    }
    this.#port.post([THREAD, 0, 0, 'pong', ping, total, largest], []);
  }
}
