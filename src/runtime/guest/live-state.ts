import type { Chance } from '../durable/guest/chance.ts';
import type { GuestTerms } from '../port/guest-spec.ts';
import type { Limits } from '../port/limits.ts';
import { mcpParamCheck } from '../port/mcp-params.ts';
import type { WaitPoint } from './descriptors/readiness.ts';
import type { UserStream } from './descriptors/stream-entries.ts';
import { FdTable } from './descriptors/table.ts';
import { GuestLog } from './hostcalls/guest-log.ts';
import type { GuestState, OpenStreams, ToolRunner } from './hostcalls/guest-state.ts';
import type { HostLink } from './hostcalls/host-link.ts';
import type { Output } from './hostcalls/output.ts';
import type { StreamRest } from './hostcalls/stream-rest.ts';

const NS_PER_MS = 1e6;

/** The state of a guest that runs. What it may never use is made when it does: thousands of guests wait on a thread. */
export class LiveState implements GuestState {
  readonly fds: FdTable;
  readonly wait: WaitPoint;
  readonly link: HostLink;
  readonly chance: Chance;
  readonly waitingTools: GuestState['waitingTools'] = [];
  runTool: ToolRunner = noTools;
  chatBytes = 0;
  closingSessions = 0;
  mcpBytes = 0;
  answerBytes = 0;
  depth = 0;
  readonly #terms: GuestTerms;
  readonly #output: Output;
  readonly #rest: StreamRest | null;
  #log: GuestLog | null = null;
  #streams: OpenStreams | null = null;
  #noticed: Set<string> | null = null;

  constructor(
    terms: GuestTerms,
    output: Output,
    wait: WaitPoint,
    link: HostLink,
    chance: Chance,
    rest: StreamRest | null,
  ) {
    this.#terms = terms;
    this.#output = output;
    this.#rest = rest;
    this.fds = new FdTable(terms.limits.max_fds);
    this.wait = wait;
    this.link = link;
    this.chance = chance;
  }

  get limits(): Limits {
    return this.#terms.limits;
  }

  get checkMcpParam(): GuestState['checkMcpParam'] {
    return mcpParamCheck(this.#terms.mcpTask);
  }

  get log(): GuestLog {
    this.#log ??= this.#newLog();
    return this.#log;
  }

  get droppedLogLines(): number {
    return this.#log?.dropped ?? 0;
  }

  get streams(): OpenStreams {
    this.#streams ??= {
      areServed: this.#terms.servesStreams,
      open: new Set<UserStream>(),
      ctl: null,
      rest: this.#rest,
    };
    return this.#streams;
  }

  notice(text: string): void {
    this.#noticed ??= new Set();
    if (this.#noticed.has(text)) return;
    this.#noticed.add(text);
    this.link.tell(0, ['notice', text]);
  }

  #newLog(): GuestLog {
    const { verbose, limits } = this.#terms;
    const bytesPerSecond = limits.log_bytes_per_second;
    const dropped = `the guest logs more than limits.log_bytes_per_second = ${bytesPerSecond}: lines are dropped`;
    return new GuestLog(this.#output, {
      verbose,
      bytesPerSecond,
      now: () => Number(this.chance.monotonicNs()) / NS_PER_MS,
      onFirstDrop: () => this.notice(dropped),
    });
  }
}

const noTools: ToolRunner = () => {
  throw new Error('a tool was called before the instance existed');
};
