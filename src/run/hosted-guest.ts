import type { MissingServers } from '../agent/mcp/guest-mcp.ts';
import type { ApprovalRules } from '../agent/policy/approval-rules.ts';
import { systemErrorOf } from '../base/errors.ts';
import { isResumable, type RecordedApprovalRules } from '../runtime/durable/journal.ts';
import { JournalError } from '../runtime/durable/journal-error.ts';
import type { RunJournal } from '../runtime/durable/run-journal.ts';
import { DedicatedThread, type GuestSlot, type SlotListener } from '../runtime/host/guest-slot.ts';
import { GuestOutput, throughHost } from '../runtime/host/guest-stdio.ts';
import type { GuestScheduler, PooledGuest } from '../runtime/host/guest-threads.ts';
import { RunClock } from '../runtime/host/run-clock.ts';
import type { GuestLoss, RunResult } from '../runtime/host/run-result.ts';
import type { DedicatedSpec, GuestSpec, StandardStream } from '../runtime/port/guest-spec.ts';
import { disabledTask, type TaskPolicy } from '../runtime/port/policy-layers.ts';
import { type GuestMessage, type GuestReport, type HostReply, PortViolation } from '../runtime/port/port.ts';
import { describeComponent } from '../runtime/wasm/component/component-stages.ts';
import { guestNotices } from '../runtime/wasm/guest-notices.ts';
import { prepare } from '../runtime/wasm/prepare.ts';
import { type AuditSink, noAudit } from '../server/audit/event.ts';
import type { RunDegradation } from '../server/records/run.ts';
import type { ChatService } from './chat-service.ts';
import { GuestServices } from './guest-services.ts';
import type { LongWaits, WaitingRun } from './long-waits.ts';
import { type McpOfRun, questionOf, type RunMcp } from './mcp-service.ts';
import { type Ending, ended, fromReport, notLoaded, outOfTime, replayed } from './run-ending.ts';
import type { RunMetrics } from './run-metrics.ts';
import type { CompiledRunOptions } from './run-options.ts';
import type { RunTrace } from './run-trace.ts';

/** What a guest is run with. */
export interface HostedGuestParts {
  readonly options: CompiledRunOptions;
  readonly journal: RunJournal | null;
  /** Why the journal takes no more, if that happens. */
  readonly full: Promise<JournalError> | null;
  readonly metrics: RunMetrics | null;
  readonly trace: RunTrace | null;
  /** Null: the guest gets a thread of its own. */
  readonly seating: GuestScheduler | null;
  /** Null: it is held, however long it waits. */
  readonly openWaits: ((run: WaitingRun) => LongWaits) | null;
}

/**
 * One guest as its host has it: what it says is given to the service it is for, and one of many things ends it. Thousands
 * of them wait in a process, so what a guest may never ask for is made when it does.
 */
export class HostedGuest implements SlotListener, WaitingRun, PooledGuest {
  readonly #parts: HostedGuestParts;
  readonly #options: CompiledRunOptions;
  readonly #journal: RunJournal | null;
  readonly #mcpOfRun: McpOfRun | null;
  readonly #waits: LongWaits | null;
  readonly #services: GuestServices;
  readonly #output: GuestOutput;
  readonly #seat: GuestSlot;
  readonly #deadline: RunClock;
  readonly #resumption: Resumption | null;
  readonly #started = performance.now();
  readonly recordEvents: SlotListener['recordEvents'];
  /** Null: the module is kept for others, whoever asked first. */
  readonly #loading: AbortController | null;
  #report: GuestReport | null = null;
  #enteredAt: number | null = null;
  /** How much the guest was told. */
  #told = 0;
  /** How many servers that it lacks were notices. */
  #noticed = 0;
  /** While the servers that its task requires are asked. */
  #requiring: AbortController | null = null;
  #failed: { readonly error: unknown } | null = null;
  /** Whether it does what it has not done before: it is not replayed, or no longer. */
  #isLive = false;
  #needsOwnThread = false;
  /** From here on its thread speaks of a guest that is torn down: none of that belongs to a run that may go on. */
  #isGivenUp = false;
  #end: (ending: Ending) => void = () => {};
  /** How it ended, as soon as that is known; its seat is to be left then. */
  readonly ended = new Promise<Ending>((resolve) => {
    this.#end = resolve;
  });

  constructor(parts: HostedGuestParts) {
    const { options, journal, seating } = parts;
    this.#parts = parts;
    this.#options = options;
    this.#journal = journal;
    this.#waits = parts.openWaits?.(this) ?? null;
    this.#mcpOfRun = options.mcp === null ? null : this.#openMcp(options.mcp);
    const rules = this.#mcpOfRun === null ? null : rulesInJournal(this.#mcpOfRun.guest.approvalRules);
    journal?.begin(this.#mcpTask, rules);
    auditGuestStart(options.audit, options.run, options.args[0] ?? '', options.wasm);
    // Where the host has to know what was written, or a thread must not wait for a full pipe, the host writes.
    this.#output = new GuestOutput(
      journal === null && seating === null ? options.output : throughHost(options.output),
      (what, amount) => this.#seat.reply(0, ['taken', what, amount]),
    );
    // A thread of its own boots while the module compiles.
    this.#seat = seating === null ? new DedicatedThread(this) : seating.reserve(this);
    const mcp = this.#mcpOfRun?.guest ?? null;
    this.#services = new GuestServices(options, journal, mcp, (call, reply) => this.#reply(call, reply));
    this.#resumption = journal?.recorded == null ? null : this.#openResumption(journal);
    this.#deadline = new RunClock(
      options.limits.timeout_ms,
      () => this.computedMs(),
      () => this.#end(outOfTime(options.limits)),
    );
    if (options.signal?.aborted) this.#interrupted();
    options.signal?.addEventListener('abort', this.#interrupted, { once: true });
    if (journal === null || journal.replayStart.events.length === 0) this.#goLive();
    void parts.full?.then((why) => this.#end(ended('journal', why.message, systemErrorOf(why))));
    this.recordEvents = journal === null ? null : (events) => this.#recordEvents(journal, events);
    this.#seat.listen(this);
    this.#loading = seating === null ? new AbortController() : null;
    void this.#load(seating);
  }

  get namespace(): string {
    return this.#options.namespace;
  }

  get wasm(): Uint8Array | Promise<Uint8Array> {
    return this.#options.wasm;
  }

  get unshareable(): string | null {
    return this.#journal?.recorded?.needsOwnThread
      ? 'the memory of the guest grew beyond the limit of its shared thread'
      : null;
  }

  spec(): GuestSpec {
    const { args, env, limits, verbose, chance: recordedValues, streams, waits } = this.#options;
    const journal = this.#journal;
    const replay = journal === null ? null : { ...journal.replayStart, reportTimersMs: waits?.parkAfterMs ?? null };
    const servesStreams = journal?.recorded?.header.streams ?? streams !== null;
    return { args, env, limits, mcpTask: this.#mcpTask, servesStreams, verbose, replay, recordedValues };
  }

  dedicatedSpec(): Omit<DedicatedSpec, 'hostcallCounts'> {
    return { ...this.spec(), ...this.#output.spec() };
  }

  hostcalls(): Record<string, number> {
    return this.#seat.hostcalls();
  }

  computedMs(): Promise<number | null> {
    return this.#seat.computedMs();
  }

  underway(waiting: number): number {
    return this.#services.underway - waiting;
  }

  park(): void {
    this.#services.endStreams();
    this.#giveUp('parked', 'parked: the run resumes when the event it waits for arrives');
  }

  lost({ reason, message, systemError = null, needsOwnThread }: GuestLoss): void {
    // Unlike in every other case the thread continues, so the guest must be torn down there.
    if (needsOwnThread && this.#report === null) {
      this.#needsOwnThread = true;
      this.#giveUp('lost', message);
    }
    this.#end(this.#report === null ? ended(reason, message, systemError) : fromReport(this.#report));
  }

  receive(message: GuestMessage): void {
    // Of a replay only what people see: what the guest is told, it is told by its tape.
    if ((this.#isGivenUp || this.#journal?.isReplay) && !heardInReplay.has(message[3])) return;
    if (this.#resumption?.take(message)) return;
    const question = this.#journal === null ? null : questionOf(message);
    if (question !== null) this.#journal?.recordQuery(message[1], question);
    switch (message[3]) {
      case 'output':
        this.#takeOutput(message[4], message[5]);
        return;
      case 'notice':
        this.#options.onNotice(message[4]);
        return;
      case 'live':
        this.#goLive();
        return;
      case 'sleeps':
        this.#waits?.sleep(message[4], message[5]);
        return;
      case 'woke':
        this.#waits?.woke(message[4]);
        return;
      case 'rests':
        this.#waits?.rests(() => message[4] === this.#told);
        return;
      case 'stream_frame':
        if (this.#isWritten()) this.#services.receive(message);
        return;
      case 'journal':
      case 'pong':
        return;
      case 'replay':
        this.#end(replayed(message[4], message[5], this.#journal?.recorded?.end ?? null));
        return;
      case 'ended':
        this.#report = message[4];
        this.#end(fromReport(this.#report));
        return;
      default:
        this.#services.receive(message);
    }
  }

  /** Ends the guest where it has not ended, and everything that was opened for it. @throws what a callback for its output threw */
  async leave(ending: Ending): Promise<RunResult> {
    const { metrics, trace } = this.#parts;
    const { audit, run } = this.#options;
    const endedAt = performance.now();
    const sleeps = ending.reason === 'parked' ? { sleeps: this.#waits?.sleeps ?? [] } : {};
    const ownThread = this.#needsOwnThread ? { own_thread: true as const } : {};
    const more = isResumable(ending) ? { spent_ms: Math.round(this.#spentMs), ...sleeps, ...ownThread } : {};
    this.#waits?.close();
    this.#deadline.clear();
    this.#options.signal?.removeEventListener('abort', this.#interrupted);
    if (this.#enteredAt === null) this.#loading?.abort();
    this.#requiring?.abort();
    await this.#seat.leave();
    this.#output.finish();
    this.#journal?.end({ reason: ending.reason, exit: ending.exitCode, message: ending.message, ...more });
    await this.#services.close();
    this.#mcpOfRun?.close();
    metrics?.ended(ending.reason);
    trace?.ended(ending);
    const totalMs = Math.round(performance.now() - this.#started);
    const { reason: status, exitCode: exit_code } = ending;
    audit.write(run, { event: 'guest.ended', status, exit_code, duration_ms: totalMs });
    if (this.#failed !== null) throw this.#failed.error;
    const enteredAt = this.#enteredAt ?? endedAt;
    return {
      ...ending,
      isolation: this.#seat.isolation,
      durations: {
        loadMs: Math.round(enteredAt - this.#started),
        runMs: Math.round(endedAt - enteredAt),
        totalMs,
      },
      hostcalls: this.hostcalls(),
      chat: this.#services.totals,
      traceId: trace?.traceId ?? null,
      droppedLogLines: this.#report?.droppedLogLines ?? 0,
      degraded: this.#mcpOfRun?.guest.degraded ?? [],
    };
  }

  readonly #interrupted = (): void => {
    const { waits, signal } = this.#options;
    const until = waits?.parkedBy?.(signal?.reason) ?? null;
    // Whatever ends its calls now is not their answer.
    if (until !== null) this.#journal?.suspend();
    // A run that is still in replay has done nothing new yet.
    if (until !== null && this.#isLive && this.#waits !== null) this.#waits.stop(until);
    else this.#giveUp('interrupted', 'the guest was interrupted');
  };

  #giveUp(reason: 'interrupted' | 'parked' | 'lost', message: string): void {
    this.#isGivenUp = true;
    this.#end(ended(reason, message));
  }

  get #mcpTask(): TaskPolicy {
    return this.#journal?.recorded?.header.policy ?? this.#mcpOfRun?.guest.task ?? disabledTask;
  }

  #openMcp(mcp: RunMcp): McpOfRun {
    const { approve, elicit, decidedBy, submittedBy, run, audit, events, limits } = this.#options;
    const waits = this.#waits;
    return mcp.forRun({
      ...{ run, audit, events, approve, elicit, decidedBy, submittedBy, journal: this.#journal },
      approvalTimeoutMs: limits.approval_timeout_ms,
      trace: this.#parts.trace?.calls ?? null,
      stopClocks: (session) => this.#stopClocks(session),
      waits: waits === null ? undefined : (wait) => waits.approval(wait),
      troubles: {
        onDegraded: this.#options.onDegraded ?? ((all) => this.#noticeDegraded(all)),
        onServerWait: this.#options.onServerWait ?? undefined,
      },
    });
  }

  #noticeDegraded(all: readonly RunDegradation[]): void {
    for (const { server, reason } of all.slice(this.#noticed)) {
      this.#options.onNotice(`the run continues without the tools of MCP server ${server}: ${reason}`);
    }
    this.#noticed = all.length;
  }

  /** While a person is asked, neither the run's time passes nor that of the send which waits. */
  #stopClocks(session: string): () => void {
    const goOn = [this.#deadline.pause(), this.#services.pause(session)];
    return () => {
      for (const start of goOn) start();
    };
  }

  #openResumption(journal: RunJournal): Resumption {
    return new Resumption(journal, this.#services.chat, (call, reply) => this.#tell(call, reply));
  }

  #reply(call: number, reply: HostReply): void {
    if (this.#journal === null || this.#journal.reply(call, reply)) this.#tell(call, reply);
  }

  #tell(call: number, reply: HostReply): void {
    this.#told += 1;
    this.#seat.reply(call, reply);
  }

  /** How much of its time the run has used, in all its attempts; the replay of earlier ones is not counted. */
  get #spentMs(): number {
    return this.#isLive ? this.#clockedMs : (this.#journal?.recorded?.parked.spent_ms ?? 0);
  }

  get #clockedMs(): number {
    return this.#options.limits.timeout_ms - this.#deadline.leftMs;
  }

  /** Sets the clock to the time that earlier attempts used. Replay had a separate limit of the same length. */
  #goLive(): void {
    if (!this.#isLive) this.#deadline.spend(this.#spentMs - this.#clockedMs);
    this.#isLive = true;
    this.#services.goLive();
  }

  #recordEvents(journal: RunJournal, events: string): void {
    if (!this.#isGivenUp) journal.recordEvents(events);
    this.#output.ackEvents(events.length);
  }

  /** Whether all that a frame was made of stands in the journal. */
  #isWritten(): boolean {
    try {
      this.#journal?.sends();
      return true;
    } catch (error) {
      if (error instanceof JournalError) return false; // the run ends for it
      throw error;
    }
  }

  /** Also what comes after the end: a thread that was ended has posted more than was read by then. */
  #takeOutput(stream: StandardStream, bytes: Uint8Array): void {
    if (this.#failed !== null) return;
    try {
      this.#output.receive(stream, bytes, this.#journal?.printed(stream, bytes) ?? 0);
    } catch (error) {
      if (error instanceof PortViolation) throw error;
      if (error instanceof JournalError) return; // the run ends for it
      this.#failed = { error };
      this.#end(ended('internal', 'cannot deliver the output of the guest'));
    }
  }

  /** Only before the guest has done anything: a run that resumes has had its servers. */
  async #requireServers(): Promise<MissingServers | null> {
    const journal = this.#journal;
    const mcp = this.#mcpOfRun?.guest;
    if (mcp?.task.requiredServerIds === undefined) return null;
    if (journal !== null && (journal.isReplay || journal.replayStart.events.length > 0)) return null;
    this.#requiring = new AbortController();
    return mcp.requireServers(this.#requiring.signal);
  }

  async #load(seating: GuestScheduler | null): Promise<void> {
    const { wasm, args, verbose, onNotice } = this.#options;
    try {
      const bytes = wasm instanceof Uint8Array ? wasm : await wasm;
      const signal = this.#loading?.signal ?? null;
      const prepared = await (seating?.prepare(bytes, this.#options) ?? prepare(bytes, { ...this.#options, signal }));
      this.#enteredAt = performance.now();
      if (prepared.kind === 'component' && verbose) onNotice(describeComponent(prepared));
      for (const notice of guestNotices(prepared, args)) onNotice(notice);
      const missing = await this.#requireServers();
      if (this.#requiring?.signal.aborted) return;
      if (missing !== null) {
        // A host without resources says nothing about the servers: the run may be resumed.
        const reason = missing.exhausted === null ? 'required_server' : 'internal';
        return this.#end(ended(reason, missing.message, missing.exhausted));
      }
      await this.#seat.start(prepared);
      this.#deadline.start();
    } catch (error) {
      this.#end(notLoaded(error as Error));
    }
  }
}

/** They are plain data. */
const rulesInJournal = (rules: ApprovalRules) => rules as unknown as RecordedApprovalRules;

const heardInReplay: ReadonlySet<GuestMessage[3]> = new Set(['output', 'notice', 'replay', 'ended']);

/** Tells that a guest begins, as soon as its bytes are there: before it can do anything. */
export function auditGuestStart(
  audit: AuditSink,
  run: string,
  module: string,
  wasm: Uint8Array | Promise<Uint8Array>,
): void {
  if (audit === noAudit) return; // nobody reads the digest
  const tell = (module_sha256: string | null) => audit.write(run, { event: 'guest.started', module, module_sha256 });
  Promise.resolve(wasm).then(
    // Loaded here: a run without a trail starts sooner without it.
    (bytes) => tell(process.getBuiltinModule('node:crypto').hash('sha256', bytes)),
    () => tell(null),
  );
}

/** Answers again what was answered before the run was interrupted, without doing anything again. */
export class Resumption {
  readonly #journal: RunJournal;
  readonly #chat: ChatService;
  readonly #post: (call: number, reply: HostReply) => void;
  /** Calls of which the guest will hear what it had not. */
  readonly #told = new Set<number>();

  constructor(journal: RunJournal, chat: ChatService, post: (call: number, reply: HostReply) => void) {
    this.#journal = journal;
    this.#chat = chat;
    this.#post = post;
  }

  /** Whether nothing is left to do about the message. */
  take(message: GuestMessage): boolean {
    const { recorded } = this.#journal;
    const call = message[1];
    if (recorded === null || call === 0) return false;
    if (message[3] === 'cancel' || message[3] === 'tool_result') return recorded.isAnswered(call);
    // Once: a guest says more than one thing about a stream.
    const unheard = this.#told.has(call) ? [] : recorded.undelivered(call);
    if (unheard.length > 0) this.#told.add(call);
    for (const reply of unheard) this.#post(call, reply);
    const last = recorded.lastReply(call);
    if (last === null) return false;
    if (message[3] === 'send' && last.send !== undefined) this.#chat.restore(message[4], message[6], last.send);
    if (message[3] === 'close_session') this.#chat.closeSession(0, message[4]);
    return true;
  }
}
