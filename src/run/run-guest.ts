import { ModuleError } from '../abi/guest-module.ts';
import { namedCounts, sharedCounts } from '../guest/binding/hostcall-counts.ts';
import { JournalError } from '../journal/journal-error.ts';
import { describeComponent } from '../load/component/component-stages.ts';
import { guestNotices } from '../load/guest-notices.ts';
import { type Prepared, prepare } from '../load/prepare.ts';
import type { DeskWait } from '../mcp/approval/desk.ts';
import type { ApprovalRules } from '../policy/approval-rules.ts';
import type { GuestSpec, StandardStream } from '../protocol/guest-spec.ts';
import { type EndRecord, mayGoOn, type RecordedRules } from '../protocol/journal.ts';
import type { Limits } from '../protocol/limits.ts';
import { disabledTask } from '../protocol/policy-layers.ts';
import {
  type GuestMessage,
  type GuestReport,
  type HostReply,
  PortViolation,
  type ReplayState,
} from '../protocol/port.ts';
import type { RunTracing } from '../telemetry/span.ts';
import { auditGuestStart } from './audit-guest.ts';
import { ChatService } from './chat-service.ts';
import { GuestOutput, throughHost } from './guest-output.ts';
import type { CompiledJournal } from './journal-option.ts';
import { journaledModel } from './journaled-model.ts';
import type { LongWaits, LongWaitsOption, WaitingRun } from './long-waits.ts';
import { McpService, questionOf } from './mcp-service.ts';
import { NativeTools } from './native-tools.ts';
import { Resumption } from './resumption.ts';
import { RunClock } from './run-clock.ts';
import { RunMetrics } from './run-metrics.ts';
import { type CompiledRunOptions, compileRunOptions, type RunOptions } from './run-options.ts';
import type { Isolation, RunReason, RunResult } from './run-result.ts';
import { StdinReader } from './stdin-reader.ts';
import { StreamHub } from './streams/stream-hub.ts';
import type { GuestThreads } from './threads/guest-threads.ts';
import { OwnThread } from './threads/own-thread.ts';
import type { Seating } from './threads/seating.ts';

export type { RunReason, RunResult } from './run-result.ts';

type Ending = Pick<RunResult, 'reason' | 'exitCode' | 'message' | 'problem' | 'stack'>;

/**
 * Runs one guest, from its bytes to its end: on a thread of its own, or among others on `threads`. Never throws for what
 * the guest does.
 * @throws ConfigError, RangeError for options; whatever a callback for its output throws
 */
export async function runGuest(given: RunOptions): Promise<RunResult> {
  const asked = compileRunOptions(given);
  const full = Promise.withResolvers<string>();
  const opened = asked.journal === null ? null : await openJournal(asked, asked.journal, full.resolve);
  const journal = opened?.journal ?? null;
  if (journal?.recorded?.end != null && !journal.isReplay && !mayGoOn(journal.recorded.end)) {
    journal.abandon();
    return endedBefore(journal.recorded.end, asked.onNotice);
  }
  // What an earlier version recorded was recorded on a thread of its own, and counts places as such a thread does.
  const threads = journal?.tape.startWakes ? null : asked.threads;
  const seating = threads === null ? null : await openSeating(threads);
  const compiled = { ...asked, ...opened?.begun };
  const counts = sharedCounts();
  const metrics = compiled.metrics && new RunMetrics(compiled, compiled.metrics, () => namedCounts(counts));
  const counted = metrics?.options ?? compiled;
  // A replay does nothing that was not done before.
  const tracing = journal?.isReplay ? null : counted.tracing;
  const trace = tracing && (await openTrace(counted, tracing, journal?.attempt ?? 1));
  const options = trace?.options ?? counted;
  const { approve, elicit, decidedBy, run, audit, events } = options;
  const approvalTimeoutMs = options.limits.approval_timeout_ms;
  const desks = { approve, elicit, decidedBy, approvalTimeoutMs };
  let deadline: RunClock | null = null;
  let chats: ChatService | null = null;
  /** While a person is asked, neither the run's time passes nor that of the send which waits. */
  const stopClocks = (session: string) => {
    const goOn = [deadline?.pause(), chats?.pause(session)];
    return () => {
      for (const start of goOn) start?.();
    };
  };
  const underway = { models: 0 };
  let park = () => {};
  const waits: LongWaits | null =
    options.waits === null || journal === null
      ? null
      : await openWaits(options.waits, {
          underway: (waiting): number =>
            underway.models + (mcpOfRun?.guest.underway ?? 0) - waiting + Number(streams.isTaken),
          computedMs: () => seat.computedMs(),
          park: () => park(),
        });
  const watchWait = waits === null ? undefined : (wait: DeskWait) => waits.approval(wait);
  const asking = { ...desks, journal, trace: trace?.calls ?? null, stopClocks, waits: watchWait };
  const mcpOfRun = options.mcp?.forRun({ run, audit, events, ...asking }) ?? null;
  const spent = () => options.limits.timeout_ms - (deadline?.leftMs ?? 0);
  const mcpTask = journal?.recorded?.header.policy ?? mcpOfRun?.guest.task ?? disabledTask;
  journal?.begin(mcpTask, mcpOfRun === null ? null : rulesInJournal(mcpOfRun.guest.approvalRules));
  const started = performance.now();
  auditGuestStart(audit, run, options.args[0] ?? '', options.wasm);
  // Where the host has to know what was written, or a thread must not wait for a full pipe, the host writes.
  const output = new GuestOutput(
    journal === null && seating === null ? options.output : throughHost(options.output),
    (what, amount) => seat.reply(0, ['taken', what, amount]),
  );
  const spec = (kind: Isolation['kind']): GuestSpec => ({
    hostcallCounts: counts,
    args: options.args,
    env: options.env,
    limits: options.limits,
    mcpTask,
    servesStreams: journal?.recorded?.header.streams ?? options.streams !== null,
    verbose: options.verbose,
    tape: journal === null ? null : { ...journal.tape, tellsSleepsMs: options.waits?.parkAfterMs ?? null },
    chance: options.chance,
    ...output.spec(kind),
    computedMs: kind === 'shared' ? new Float64Array(new SharedArrayBuffer(Float64Array.BYTES_PER_ELEMENT)) : null,
  });
  // A thread of its own boots while the module compiles.
  const { namespace, wasm } = options;
  const seat = seating === null ? new OwnThread(spec('thread')) : seating.reserve({ namespace, wasm, spec });
  const stdin = new StdinReader(options.stdin);
  let report: GuestReport | undefined;
  let enteredAt: number | undefined;
  let failed: { readonly error: unknown } | undefined;
  const loading = new AbortController();

  const revision = () => mcpOfRun?.guest.revision ?? null;
  /** How much the guest was told. */
  let told = 0;
  const post = (call: number, message: HostReply) => {
    told += 1;
    seat.reply(call, message);
  };
  const reply =
    journal === null
      ? post
      : (call: number, message: HostReply) => {
          if (journal.reply(call, message)) post(call, message);
        };
  const native = new NativeTools(run, audit, events);
  const chat = new ChatService({
    backend: journal === null ? options.backend : journaledModel(options.backend, journal, revision, underway),
    observe: (session) => ({
      ...native.observe(session),
      failed: (error) =>
        options.onNotice(`a send failed inside the host: ${error instanceof Error ? error.stack : error}`),
    }),
    tools: mcpOfRun?.guest ?? null,
    onModelEvent: options.onModelEvent,
    reply,
    settled: journal === null ? null : (call, send) => journal.settled(call, send),
    takesEarlyAnswers: journal?.recorded != null,
  });
  chats = chat;
  const mcp = new McpService(mcpOfRun?.guest ?? null, reply);
  const { recorded = null } = journal ?? {};
  const streams = new StreamHub(reply, recorded && ((call) => recorded.told(call)));
  const resumption = journal?.recorded == null ? null : new Resumption(journal, chat, post);

  let stopWaiting = () => {};
  const ending = await new Promise<Ending>((resolve) => {
    deadline = new RunClock(
      options.limits.timeout_ms,
      () => seat.computedMs(),
      () => resolve(outOfTime(options.limits)),
    );
    /** From here on its thread speaks of a guest that is torn down: none of that belongs to a run that may go on. */
    let isGivenUp = false;
    const giveUp = (reason: 'interrupted' | 'parked', message: string) => {
      isGivenUp = true;
      resolve(ended(reason, message));
    };
    const interrupted = () => giveUp('interrupted', 'the guest was interrupted');
    if (options.signal?.aborted) interrupted();
    options.signal?.addEventListener('abort', interrupted, { once: true });
    stopWaiting = () => {
      deadline?.clear();
      options.signal?.removeEventListener('abort', interrupted);
    };
    park = () => {
      streams.isOver = true; // a client that comes from here on is for whoever takes the run up again
      giveUp('parked', 'it waits, and goes on when what it waits for comes');
    };
    if (journal === null || journal.tape.events.length === 0) goLive();
    void full.promise.then((why) => resolve(ended('journal', why)));
    seat.listen({
      receive: journal?.isReplay ? receiveAgain : receive,
      taped: journal === null ? null : taped,
      lost: ({ reason, message }) => resolve(report ? fromReport(report) : ended(reason, message)),
    });

    /** What it spent before it was parked is spent, whatever part of it the way back here took. */
    function goLive(): void {
      const spentMs = journal?.recorded?.parked.spent_ms ?? 0;
      if (spentMs > 0) deadline?.spend(Math.max(0, spentMs - spent()));
      streams.goLive();
      options.streams?.attach(streams);
    }

    function taped(events: string): void {
      if (!isGivenUp) journal?.taped(events);
      output.tapeTaken(events.length);
    }

    function receive(message: GuestMessage): void {
      if (isGivenUp && !heardInReplay.has(message[3])) return;
      if (resumption?.take(message)) return;
      const call = message[1];
      const question = journal === null ? null : questionOf(message);
      if (question !== null) journal?.questioned(call, question);
      switch (message[3]) {
        case 'send':
          chat.send(call, message[4], message[5], message[6]);
          return;
        case 'cancel':
          mcp.cancel(call);
          chat.cancel(call);
          return;
        case 'read':
          chat.read(call, message[4]);
          return;
        case 'tool_result':
          chat.toolResult(call, message[4], message[5], message[6]);
          return;
        case 'close_session':
          chat.closeSession(call, message[4]);
          return;
        case 'stdin':
          stdin.read(message[4]).then((chunk) => reply(call, ['stdin', chunk]));
          return;
        case 'mcp_open':
        case 'mcp_list':
        case 'mcp_list_resources':
        case 'mcp_list_prompts':
        case 'mcp_call':
        case 'mcp_read_resource':
        case 'mcp_get_prompt':
        case 'mcp_registry':
          mcp.receive(message);
          return;
        case 'stream_frame':
          takeFrame(message);
          return;
        case 'stream_open':
        case 'stream_watch':
        case 'stream_taken':
        case 'stream_close':
          streams.receive(message);
          return;
        case 'output':
          takeOutput(message[4], message[5]);
          return;
        case 'notice':
          options.onNotice(message[4]);
          return;
        case 'live':
          goLive();
          return;
        case 'sleeps':
          waits?.sleep(message[4], message[5]);
          return;
        case 'woke':
          waits?.woke(message[4]);
          return;
        case 'rests':
          waits?.rests(() => message[4] === told);
          return;
        case 'journal':
        case 'pong':
          return;
        case 'replay':
          resolve(replayed(message[4], message[5], journal?.recorded?.end ?? null));
          return;
        case 'ended':
          report = message[4];
          resolve(fromReport(report));
      }
    }

    /** Of a replay only what people see: what the guest is told, it is told by its tape. */
    function receiveAgain(message: GuestMessage): void {
      if (heardInReplay.has(message[3])) receive(message);
    }

    function takeFrame(message: GuestMessage): void {
      try {
        journal?.leaves();
      } catch (error) {
        if (error instanceof JournalError) return; // the run ends for it
        throw error;
      }
      streams.receive(message);
    }

    /** Also what comes after the end: a thread that was ended has posted more than was read by then. */
    function takeOutput(stream: StandardStream, bytes: Uint8Array): void {
      if (failed !== undefined) return;
      try {
        output.receive(stream, bytes, journal?.printed(stream, bytes) ?? 0);
      } catch (error) {
        if (error instanceof PortViolation) throw error;
        if (error instanceof JournalError) return; // the run ends for it
        failed = { error };
        resolve(ended('internal', 'the output could not be handed over'));
      }
    }

    load(options, seating, loading.signal)
      .then((prepared) => {
        enteredAt = performance.now();
        if (prepared.kind === 'component' && options.verbose) options.onNotice(describeComponent(prepared));
        for (const notice of guestNotices(prepared, options.args)) options.onNotice(notice);
        return seat.start(prepared);
      })
      .catch((error: unknown) => resolve(notLoaded(error as Error)));
  });

  const endedAt = performance.now();
  const parked = ending.reason === 'parked' ? { spent_ms: Math.round(spent()), sleeps: waits?.sleeps ?? [] } : {};
  waits?.close();
  stopWaiting();
  if (enteredAt === undefined) loading.abort();
  await seat.leave();
  output.finish();
  journal?.end({ reason: ending.reason, exit: ending.exitCode, message: ending.message, ...parked });
  stdin.close();
  await streams.close();
  await mcp.close();
  await chat.close();
  mcpOfRun?.close();
  metrics?.ended(ending.reason);
  trace?.ended(ending);
  const { reason: status, exitCode } = ending;
  const totalMs = Math.round(performance.now() - started);
  audit.write(run, { event: 'guest.ended', status, exit_code: exitCode, duration_ms: totalMs });
  if (failed !== undefined) throw failed.error;
  return {
    ...ending,
    isolation: seat.isolation,
    durations: {
      loadMs: Math.round((enteredAt ?? endedAt) - started),
      runMs: Math.round(endedAt - (enteredAt ?? endedAt)),
      totalMs,
    },
    hostcalls: namedCounts(counts),
    chat: chat.totals,
    traceId: trace?.traceId ?? null,
    droppedLogLines: report?.droppedLogLines ?? 0,
  };
}

/** Loaded only where there is one. */
async function openJournal(options: CompiledRunOptions, journal: CompiledJournal, onFull: (why: string) => void) {
  const { openGuestJournal } = await import('./guest-journal.ts');
  return openGuestJournal(options, journal, onFull);
}

/** Loaded only where somebody wants to see it. */
async function openTrace(options: CompiledRunOptions, tracing: RunTracing, attempt: number) {
  const { RunTrace } = await import('./run-trace.ts');
  return new RunTrace(options, tracing, attempt);
}

/** Loaded only where a run may be given up while it waits. */
async function openWaits(option: LongWaitsOption, run: WaitingRun): Promise<LongWaits> {
  const { LongWaits: Waits } = await import('./long-waits.ts');
  return new Waits(option, run);
}

/** Loaded only where guests share threads. */
async function openSeating(threads: GuestThreads) {
  const { seatingOf } = await import('./threads/seating.ts');
  return seatingOf(threads);
}

async function load(options: CompiledRunOptions, seating: Seating | null, signal: AbortSignal): Promise<Prepared> {
  const bytes = await options.wasm;
  return seating?.prepare(bytes, options) ?? prepare(bytes, { ...options, signal });
}

function ended(reason: RunReason, message: string): Ending {
  return { reason, exitCode: null, message, problem: null, stack: '' };
}

function notLoaded(error: Error): Ending {
  if (!(error instanceof ModuleError)) return ended('internal', error.message);
  return { ...ended('module', error.message), problem: error.problem };
}

/** They are plain data. */
const rulesInJournal = (rules: ApprovalRules) => rules as unknown as RecordedRules;

const heardInReplay: ReadonlySet<GuestMessage[3]> = new Set(['output', 'notice', 'replay', 'ended']);

/** What a replay comes to whose guest did not end by itself. */
function replayed(state: ReplayState, detail: string, end: EndRecord | null): Ending {
  if (state === 'diverged') return ended('diverged', `the run diverged from its journal ${detail}`);
  if (end === null) return ended('interrupted', 'the journal ends here: the run had not ended');
  return fromEnd(end);
}

const fromEnd = ({ reason, exit, message }: EndRecord): Ending => ({
  ...ended(reason as RunReason, ''),
  exitCode: exit,
  message,
});

function endedBefore(end: EndRecord, onNotice: (text: string) => void): RunResult {
  onNotice('the run of this journal has ended: nothing is left to do');
  return {
    ...fromEnd(end),
    isolation: { kind: 'thread', why: null },
    durations: { loadMs: 0, runMs: 0, totalMs: 0 },
    hostcalls: {},
    chat: { sends: 0, iterations: 0, toolCalls: 0, usage: {} },
    traceId: null,
    droppedLogLines: 0,
  };
}

function outOfTime(limits: Limits): Ending {
  return ended('deadline', `the guest ran longer than limits.timeout_ms = ${limits.timeout_ms}`);
}

function fromReport({ ending }: GuestReport): Ending {
  if (ending.kind === 'exit') return { reason: 'exit', exitCode: ending.code, message: null, problem: null, stack: '' };
  if (ending.kind === 'trap') return { ...ended('trap', ending.message), stack: ending.stack };
  return ended('module', ending.message);
}
