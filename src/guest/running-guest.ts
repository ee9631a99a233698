import { GuestMemory } from '../abi/memory.ts';
import { WaitPoint } from '../fd/readiness.ts';
import type { UserStream } from '../fd/stream-entries.ts';
import { FdTable } from '../fd/table.ts';
import { hostcalls } from '../hostcalls/all.ts';
import { type Chance, systemChance } from '../hostcalls/chance.ts';
import { GuestLog } from '../hostcalls/guest-log.ts';
import type { GuestState } from '../hostcalls/guest-state.ts';
import { HostLink } from '../hostcalls/host-link.ts';
import type { Output } from '../hostcalls/output.ts';
import { RecalledChance } from '../hostcalls/recalled-chance.ts';
import { StreamRest } from '../hostcalls/stream-rest.ts';
import { Tape, type TapeUnderway } from '../hostcalls/tape.ts';
import { TapedMemory, tapedCalls, tapedTexts } from '../hostcalls/taped-calls.ts';
import type { ThreadPort } from '../hostcalls/thread-port.ts';
import type { GuestSpec, StandardStream } from '../protocol/guest-spec.ts';
import { mcpParamCheck } from '../protocol/mcp-params.ts';
import type { ComponentStart, GuestEnding, GuestStart } from '../protocol/port.ts';
import type { ComponentGuest } from './component/instance.ts';
import { type CoreGuest, runCore } from './core/instance.ts';
import type { TurnTaking } from './guest-turns.ts';
import type { Leash } from './leash.ts';
import { LeashedChance } from './leashed-chance.ts';
import { throwUncatchable } from './uncatchable.ts';

const NS_PER_MS = 1e6;

/** What surrounds one guest on its thread. */
export interface Surroundings {
  readonly port: ThreadPort;
  /** Its number on this thread. */
  readonly guest: number;
  readonly openOutput: (spec: GuestSpec, post: RunningGuest['tellOutput']) => Output;
  /** What of its tape the host has not taken; null: nobody counts. */
  readonly tapeUnderway: TapeUnderway | null;
  /** Null: it has the thread for itself. */
  readonly leash: Leash | null;
  readonly giveWay: TurnTaking;
  /** Told of each memory that is made for the guest. */
  readonly madeMemory: (memory: GuestMemory) => void;
}

/** One guest on its thread: everything of it, and nothing of any other. It knows no secret and no file. */
export class RunningGuest {
  readonly link: HostLink;
  readonly #shared: Omit<CoreGuest, keyof GuestStartParts> & Pick<ComponentGuest, 'textTable'>;
  readonly #log: GuestLog;
  readonly #mark: (() => void) | null;
  readonly #leash: Leash | null;
  readonly #tape: Tape | null;
  readonly #rest: StreamRest | null;
  readonly #wait: WaitPoint;
  readonly #startWakes: boolean;

  constructor(spec: GuestSpec, { port, guest, openOutput, tapeUnderway, leash, giveWay, madeMemory }: Surroundings) {
    this.#leash = leash;
    // Chosen once: a guest without a journal does not pay for one.
    const tape = spec.tape && new Tape(spec.tape, tapeUnderway, leash === null ? undefined : throwUncatchable);
    this.#tape = tape;
    const drawn = spec.chance === null ? systemChance : new RecalledChance(spec.chance);
    const chance: Chance = tape ?? (leash === null ? drawn : new LeashedChance(leash, drawn));
    const table = tape === null ? hostcalls : tapedCalls(hostcalls, tape);
    this.#mark = tape === null ? null : () => tape.marks();
    const wait = new WaitPoint(this.#mark);
    this.#wait = wait;
    this.#startWakes = spec.tape?.startWakes ?? false;
    const link = new HostLink(port, guest, wait, tape);
    this.link = link;
    const afterMs = spec.tape?.tellsSleepsMs ?? null;
    const rest = tape === null || afterMs === null ? null : new StreamRest({ tape, wait, link, afterMs });
    this.#rest = rest;
    leash?.atEnd(() => rest?.close());
    const output = openOutput(spec, this.tellOutput);
    const said = new Set<string>();
    const notice = (text: string) => {
      if (said.has(text)) return;
      said.add(text);
      link.tell(0, ['notice', text]);
    };
    this.#log = new GuestLog(output, {
      verbose: spec.verbose,
      bytesPerSecond: spec.limits.log_bytes_per_second,
      now: () => Number(chance.monotonicNs()) / NS_PER_MS,
      onFirstDrop: () =>
        notice(
          `the guest logs more than limits.log_bytes_per_second = ${spec.limits.log_bytes_per_second}: lines are dropped`,
        ),
    });
    this.#shared = {
      args: spec.args,
      env: spec.env,
      output,
      counts: spec.hostcallCounts,
      table,
      textTable: tape === null ? table : tapedTexts(table, tape),
      newMemory: () => {
        const memory = tape === null ? new GuestMemory() : new TapedMemory(tape);
        madeMemory(memory);
        return memory;
      },
      leash,
      giveWay,
      state: newState(spec, { wait, link, chance, log: this.#log, notice }, rest),
    };
  }

  readonly tellOutput = (stream: StandardStream, chunk: Uint8Array<ArrayBuffer>): void =>
    this.link.tell(0, ['output', stream, chunk], [chunk.buffer]);

  /** From its start to its end, which the host is told of. */
  async run(start: GuestStart): Promise<void> {
    const running =
      start[0] === 'start'
        ? runCore({ ...this.#shared, ...start[1], readStdin: (maxBytes) => this.#readStdin(maxBytes) })
        : this.#runComponent(start[1]);
    if (this.#startWakes) this.#wait.notify();
    const ending = await running;
    this.#leash?.close();
    this.#tape?.close();
    this.#rest?.close();
    this.link.tell(0, ['ended', { ending, droppedLogLines: this.#log.dropped }]);
    this.link.close();
  }

  #readStdin(maxBytes: number): Promise<Uint8Array> {
    return new Promise((resolve) => this.#requestStdin(maxBytes, resolve));
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
      mark: this.#mark,
    };
    return runComponent({ ...this.#shared, component, stdin });
  }
}

type GuestStartParts = Pick<CoreGuest, 'module' | 'unknownImports' | 'turns' | 'readStdin'>;

function newState(
  { limits, servesStreams, mcpTask }: GuestSpec,
  parts: Pick<GuestState, 'wait' | 'link' | 'chance' | 'log' | 'notice'>,
  rest: StreamRest | null,
): CoreGuest['state'] {
  return {
    ...parts,
    fds: new FdTable(limits.max_fds),
    limits,
    streams: { areServed: servesStreams, open: new Set<UserStream>(), ctl: null, rest },
    waitingTools: [],
    chatBytes: 0,
    closingSessions: 0,
    mcpBytes: 0,
    answerBytes: 0,
    checkMcpParam: mcpParamCheck(mcpTask),
    depth: 0,
  };
}
