import type { MissingServers } from '../agent/mcp/guest-mcp.ts';
import type { ApprovalRules } from '../agent/policy/approval-rules.ts';
import { systemErrorOf } from '../base/errors.ts';
import { isResumable, type RecordedApprovalRules } from '../runtime/durable/journal.ts';
import { JournalError } from '../runtime/durable/journal-error.ts';
import type { RunJournal } from '../runtime/durable/run-journal.ts';
import type { GuestScheduler, PooledGuest } from '../runtime/host/guest-scheduler.ts';
import { DedicatedThread, type GuestSlot, type SlotListener } from '../runtime/host/guest-slot.ts';
import { GuestOutput, throughHost } from '../runtime/host/guest-stdio.ts';
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
import { questionOf } from './mcp-service.ts';
import { type Ending, ended, fromReport, notLoaded, outOfTime, replayed } from './run-ending.ts';
import type { McpOfRun, RunMcp } from './run-mcp.ts';
import type { RunMetrics } from './run-metrics.ts';
import type { CompiledRunOptions } from './run-options.ts';
import type { RunTrace } from './run-trace.ts';

export interface HostedGuestParts {
  readonly options: CompiledRunOptions;
  readonly journal: RunJournal | null;
  /** Resolves when the journal is full. */
  readonly full: Promise<JournalError> | null;
  readonly metrics: RunMetrics | null;
  readonly trace: RunTrace | null;
  /** Null: a dedicated thread. */
  readonly scheduler: GuestScheduler | null;
  /** Null: the run is never parked. */
  readonly openWaits: ((run: WaitingRun) => LongWaits) | null;
}

/**
 * Host side of one guest, from its module to its end. Dispatches messages of the guest thread to the services, records
 * them in the journal, and ends the guest: by its own exit, deadline, interruption, parking, a full journal or a lost thread.
 *
 * Invariants
 * - `ended` resolves once, with the first ending; `leave` then releases everything and must be called.
 * - Nothing the guest thread sends after the end of a resumable run reaches the journal.
 * - With a journal, a reply is recorded before the guest receives it, and a stream frame leaves after its inputs are
 *   recorded. During replay only output and notices are processed.
 * - Thousands of guests may wait in a process, so parts that a guest may never use are created on first use.
 *
 * All methods run on the host thread. Messages are untrusted.
 */
export class HostedGuest implements SlotListener, WaitingRun, PooledGuest {
  readonly #parts: HostedGuestParts;
  readonly #options: CompiledRunOptions;
  readonly #journal: RunJournal | null;
  readonly #mcpOfRun: McpOfRun | null;
  readonly #waits: LongWaits | null;
  readonly #services: GuestServices;
  readonly #output: GuestOutput;
  readonly #slot: GuestSlot;
  readonly #deadline: RunClock;
  readonly #resumption: Resumption | null;
  readonly #started = performance.now();
  readonly recordEvents: SlotListener['recordEvents'];
  /** Null: the module is loaded for several guests, and loading is not aborted. */
  readonly #loading: AbortController | null;
  #report: GuestReport | null = null;
  #enteredAt: number | null = null;
  /** Number of messages sent to the guest. */
  #sent = 0;
  /** Number of missing servers that were reported as notices. */
  #noticed = 0;
  /** Aborts the wait for required servers. */
  #requiring: AbortController | null = null;
  #failed: { readonly error: unknown } | null = null;
  /** Whether replay has ended, or there is none. */
  #isLive = false;
  #needsOwnThread = false;
  /** Set when the guest is being torn down: later messages must not reach the journal. */
  #isGivenUp = false;
  #end: (ending: Ending) => void = () => {};
  /** Resolves with the ending; then call {@link leave}. */
  readonly ended = new Promise<Ending>((resolve) => {
    this.#end = resolve;
  });

  constructor(parts: HostedGuestParts) {
    const { options, journal, scheduler } = parts;
    this.#parts = parts;
    this.#options = options;
    this.#journal = journal;
    this.#waits = parts.openWaits?.(this) ?? null;
    this.#mcpOfRun = options.mcp === null ? null : this.#openMcp(options.mcp);
    const rules = this.#mcpOfRun === null ? null : rulesInJournal(this.#mcpOfRun.guest.approvalRules);
    journal?.begin(this.#mcpTask, rules);
    auditGuestStart(options.audit, options.run, options.args[0] ?? '', options.wasm);
    // The host writes output that is recorded, and output of shared threads, which must not block on a full pipe.
    this.#output = new GuestOutput(
      journal === null && scheduler === null ? options.output : throughHost(options.output),
      (what, amount) => this.#slot.reply(0, ['taken', what, amount]),
    );
    // A dedicated thread boots while the module compiles.
    this.#slot = scheduler === null ? new DedicatedThread(this) : scheduler.reserve(this);
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
    this.#slot.listen(this);
    this.#loading = scheduler === null ? new AbortController() : null;
    void this.#load(scheduler);
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
    return this.#slot.hostcalls();
  }

  computedMs(): Promise<number | null> {
    return this.#slot.computedMs();
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
    // During replay only output and notices are processed: replies come from the replay log.
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
        this.#waits?.rests(() => message[4] === this.#sent);
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

  /** Ends the guest if it still runs, and releases everything that was opened for it. @throws what a callback for its output threw */
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
    await this.#slot.leave();
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
      isolation: this.#slot.isolation,
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
    // The endings of its calls are not their results, and must not be recorded.
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

  /** Pauses the deadlines of the run and of the waiting send while an approver is asked. */
  #stopClocks(session: string): () => void {
    const resumes = [this.#deadline.pause(), this.#services.pause(session)];
    return () => {
      for (const resume of resumes) resume();
    };
  }

  #openResumption(journal: RunJournal): Resumption {
    return new Resumption(journal, this.#services.chat, (call, reply) => this.#send(call, reply));
  }

  #reply(call: number, reply: HostReply): void {
    if (this.#journal === null || this.#journal.reply(call, reply)) this.#send(call, reply);
  }

  #send(call: number, reply: HostReply): void {
    this.#sent += 1;
    this.#slot.reply(call, reply);
  }

  /** Time that the run has used in all attempts, without replays. */
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

  /** Ensures that everything before a stream frame is in the journal. */
  #isWritten(): boolean {
    try {
      this.#journal?.sends();
      return true;
    } catch (error) {
      if (error instanceof JournalError) return false; // ends the run
      throw error;
    }
  }

  /** Also after the end: a terminated thread may have posted more output than was read by then. */
  #takeOutput(stream: StandardStream, bytes: Uint8Array): void {
    if (this.#failed !== null) return;
    try {
      this.#output.receive(stream, bytes, this.#journal?.printed(stream, bytes) ?? 0);
    } catch (error) {
      if (error instanceof PortViolation) throw error;
      if (error instanceof JournalError) return; // ends the run
      this.#failed = { error };
      this.#end(ended('internal', 'cannot deliver the output of the guest'));
    }
  }

  /** Only before the first start of the guest: a resumed run has had its servers. */
  async #requireServers(): Promise<MissingServers | null> {
    const journal = this.#journal;
    const mcp = this.#mcpOfRun?.guest;
    if (mcp?.task.requiredServerIds === undefined) return null;
    if (journal !== null && (journal.isReplay || journal.replayStart.events.length > 0)) return null;
    this.#requiring = new AbortController();
    return mcp.requireServers(this.#requiring.signal);
  }

  async #load(scheduler: GuestScheduler | null): Promise<void> {
    const { wasm, args, verbose, onNotice } = this.#options;
    try {
      const bytes = wasm instanceof Uint8Array ? wasm : await wasm;
      const signal = this.#loading?.signal ?? null;
      const prepared = await (scheduler?.prepare(bytes, this.#options) ?? prepare(bytes, { ...this.#options, signal }));
      this.#enteredAt = performance.now();
      if (prepared.kind === 'component' && verbose) onNotice(describeComponent(prepared));
      for (const notice of guestNotices(prepared, args)) onNotice(notice);
      const missing = await this.#requireServers();
      if (this.#requiring?.signal.aborted) return;
      if (missing !== null) {
        // An exhausted host is not the fault of the servers: the run may be resumed.
        const reason = missing.exhausted === null ? 'required_server' : 'internal';
        return this.#end(ended(reason, missing.message, missing.exhausted));
      }
      await this.#slot.start(prepared);
      this.#deadline.start();
    } catch (error) {
      this.#end(notLoaded(error as Error));
    }
  }
}

/** Approval rules are plain data. */
const rulesInJournal = (rules: ApprovalRules) => rules as unknown as RecordedApprovalRules;

const heardInReplay: ReadonlySet<GuestMessage[3]> = new Set(['output', 'notice', 'replay', 'ended']);

/** Audits the start of a guest when its bytes are available, before it can do anything. */
export function auditGuestStart(
  audit: AuditSink,
  run: string,
  module: string,
  wasm: Uint8Array | Promise<Uint8Array>,
): void {
  if (audit === noAudit) return; // the digest is not needed
  const write = (module_sha256: string | null) => audit.write(run, { event: 'guest.started', module, module_sha256 });
  Promise.resolve(wasm).then(
    // Loaded here, so that runs without an audit log start sooner.
    (bytes) => write(process.getBuiltinModule('node:crypto').hash('sha256', bytes)),
    () => write(null),
  );
}

/** Repeats recorded replies of a resumed run, without repeating their effects. */
export class Resumption {
  readonly #journal: RunJournal;
  readonly #chat: ChatService;
  readonly #post: (call: number, reply: HostReply) => void;
  /** Calls whose unheard replies were sent. */
  readonly #repeated = new Set<number>();

  constructor(journal: RunJournal, chat: ChatService, post: (call: number, reply: HostReply) => void) {
    this.#journal = journal;
    this.#chat = chat;
    this.#post = post;
  }

  /** Whether the message was handled. */
  take(message: GuestMessage): boolean {
    const { recorded } = this.#journal;
    const call = message[1];
    if (recorded === null || call === 0) return false;
    if (message[3] === 'cancel' || message[3] === 'tool_result') return recorded.isAnswered(call);
    // Once per call: a guest sends several messages about a stream.
    const undelivered = this.#repeated.has(call) ? [] : recorded.undelivered(call);
    if (undelivered.length > 0) this.#repeated.add(call);
    for (const reply of undelivered) this.#post(call, reply);
    const last = recorded.lastReply(call);
    if (last === null) return false;
    if (message[3] === 'send' && last.send !== undefined) this.#chat.restore(message[4], message[6], last.send);
    if (message[3] === 'close_session') this.#chat.closeSession(0, message[4]);
    return true;
  }
}
