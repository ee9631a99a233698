/*
 * Host half of a run's journal while the run executes: records what the guest thread cannot record itself (replies, model
 * requests, tool calls, approvals, output), and answers from the recorded history when the run is replayed or resumed.
 *
 * Invariants
 * - Everything that precedes a side effect is written before the effect: `asked`, `started`, `printed` and `sends` flush.
 * - What the recorded history already has is not written again.
 * - After `suspend` only output and starts of tool calls are recorded; after `end` nothing is.
 *
 * Hot records are concatenated as text: building an object for each would cost as much as writing it.
 */
import { hash } from 'node:crypto';
import type { JsonObject } from '../../base/json.ts';
import { version } from '../../base/version.ts';
import type { StandardStream } from '../port/guest-spec.ts';
import type { ReplayStart } from '../port/journal-events.ts';
import type { TaskPolicy } from '../port/policy-layers.ts';
import type { HostReply } from '../port/port.ts';
import {
  type EndRecord,
  isResumable,
  type JournalHeader,
  type JournalRecord,
  type ModelRequestRecord,
  type ModelResponseRecord,
  type RecordedApprovalRules,
  type RecordedSend,
  type RefusedTool,
  type ToolsRecord,
} from './journal.ts';
import type { JournalWriter } from './journal-file.ts';
import { type RecordedResult, type RecordedRun, replyToJson, withResultNamed } from './recorded-run.ts';
import type { EarlierCall, ShownTools, StartedTool, ToolJournal } from './tool-journal.ts';

/** Results that the next model request may refer to; few turns have more. */
const MAX_RECENT_RESULTS = 64;

/** Attempt of a call that may have been made after the backup from which the run was restored. */
const BEFORE_RESTORE = 0;

/** The header before the task's policy is known. */
export type RunHeader = Omit<JournalHeader, 'policy'>;

export class RunJournal implements ToolJournal {
  readonly header: RunHeader;
  /** Recorded history; null: a new run. */
  readonly recorded: RecordedRun | null;
  readonly attempt: number;
  readonly written: (() => Promise<void>) | undefined;
  /** For the guest thread. */
  readonly replayStart: ReplayStart;
  /** Null: replay only, nothing is written. */
  readonly #file: JournalWriter | null;
  readonly #offsets: Record<StandardStream, number> = { stdout: 0, stderr: 0 };
  readonly #settled = new Map<number, RecordedSend>();
  readonly #queries = new Map<number, readonly (string | null)[]>();
  readonly #toolSets = new ToolSets();
  #lastResult: RecordedResult | null = null;
  /** A ring buffer. */
  readonly #recentResults: RecordedResult[] = [];
  #results = 0;
  readonly #isRestored: boolean;
  #isSuspended = false;
  #hasEnded = false;
  isInterrupted = false;

  /** `file` null: replay only. `isRestored`: calls may have been made that the journal does not have. */
  constructor(header: RunHeader, recorded: RecordedRun | null, file: JournalWriter | null, isRestored = false) {
    this.#isRestored = isRestored;
    this.header = header;
    this.recorded = recorded;
    this.#file = file;
    this.attempt = recorded === null || file === null ? (recorded?.attempt ?? 1) : recorded.attempt + 1;
    const wakesAtStart = header.quiet_start !== true;
    this.written = file?.written;
    const { sleeps } = recorded?.parked ?? { sleeps: [] };
    this.replayStart = { events: recorded?.events ?? [], continuesLive: file !== null, wakesAtStart, sleeps };
  }

  /** The run begins or resumes. `rules`: about approvals. @throws JournalError */
  begin(policy: TaskPolicy, rules: RecordedApprovalRules | null): void {
    if (this.#file === null) return;
    const header: JournalHeader = { ...this.header, policy, ...(rules === null ? {} : { approval_rules: rules }) };
    if (this.recorded === null) this.#file.append(JSON.stringify(header));
    else this.#write({ t: 'resumed', attempt: this.attempt, spear: version, v8: process.versions.v8 });
    try {
      this.#file.flush();
    } catch (error) {
      this.abandon();
      throw error;
    }
  }

  /** Whether this is a replay without live execution. */
  get isReplay(): boolean {
    return this.#file === null;
  }

  /** Inputs of the guest thread. */
  recordEvents(e: string): void {
    // Validated by the port: nothing in it needs escaping.
    this.#append(`{"t":"guest","e":"${e}"`);
  }

  /** A query about servers, recorded with its reply so that replay tests can answer the same query. */
  recordQuery(call: number, query: readonly (string | null)[]): void {
    if (this.#file !== null) this.#queries.set(call, query);
  }

  /** The session state that a send left, recorded with its reply. */
  settled(call: number, send: RecordedSend): void {
    this.#settled.set(call, send);
  }

  /** Records a reply. False: the guest must not receive it, because a resumed send requests callbacks that ran before. */
  reply(call: number, reply: HostReply): boolean {
    if (this.recorded !== null && reply[0] === 'tool' && reply[1] <= this.recorded.callbacks(call)) return false;
    if (this.#file === null) return true;
    let record = `{"t":"reply","call":${call},"m":${replyToJson(reply, this.#lastResult)}`;
    const send = taken(this.#settled, call);
    if (send !== undefined) record += `,"send":${JSON.stringify(send)}`;
    const q = taken(this.#queries, call);
    if (q !== undefined) record += `,"q":${JSON.stringify(q)}`;
    this.#append(record);
    return true;
  }

  /** A model request is about to be sent; the caller waits for the returned promise first. */
  asked(asked: Omit<ModelRequestRecord, 't' | 'sha256'>, request: JsonObject): Promise<void> | undefined {
    const said = asked.said?.map((message) => withResultNamed(message, this.#recentResults));
    const written = said === undefined ? asked : { ...asked, said };
    this.#write({ t: 'model.asked', ...written, sha256: hash('sha256', JSON.stringify(request)) });
    this.#file?.flush();
    return this.written?.();
  }

  answered(answered: Omit<ModelResponseRecord, 't'>): void {
    this.#write({ t: 'model.answered', ...answered });
  }

  started({ ordinal, session, kind, server, tool, args, revision }: StartedTool): void {
    const who = `{"t":"tool.started","ordinal":${JSON.stringify(ordinal)},"attempt":${this.attempt}`;
    const where = `,"session":${JSON.stringify(session)}${kind === undefined ? '' : `,"kind":"${kind}"`}`;
    const what = `,"server":${JSON.stringify(server)},"tool":${JSON.stringify(tool)},"args":${JSON.stringify(args)}`;
    this.#append(`${who}${where}${what},"revision":${revision}`, true);
    this.#file?.flush();
  }

  finished(ordinal: string, result: string, code: string | null, refused: RefusedTool | null): void {
    this.#lastResult = { ordinal, json: result };
    this.#recentResults[this.#results++ % MAX_RECENT_RESULTS] = this.#lastResult;
    const how = `"code":${code === null ? 'null' : JSON.stringify(code)},"result":${JSON.stringify(result)}`;
    const wanted = refused === null ? '' : `,"refused":${JSON.stringify(refused)}`;
    this.#append(`{"t":"tool.finished","ordinal":${JSON.stringify(ordinal)},${how}${wanted}`);
  }

  injected(session: string, params: ToolsRecord['params'], key: object, shown: () => ShownTools): void {
    if (this.#file === null) return;
    const record = this.#toolSets.record(session, params, key, shown);
    if (record !== null) this.#write(record);
  }

  earlier(ordinal: string): EarlierCall | null {
    const tool = this.recorded?.tool(ordinal) ?? null;
    if (tool === null) return this.#isRestored ? { kind: 'unknown', attempt: BEFORE_RESTORE } : null;
    return tool.finished === null
      ? { kind: 'unknown', attempt: tool.started?.attempt ?? 1 }
      : { kind: 'finished', json: tool.finished.result };
  }

  approval(event: JsonObject): void {
    this.#write({ t: 'approval', event });
  }

  /** Returns how many of the bytes an earlier attempt printed. Records the rest, so that it is printed once. */
  printed(fd: StandardStream, bytes: Uint8Array): number {
    const at = this.#offsets[fd];
    this.#offsets[fd] = at + bytes.byteLength;
    if (this.isReplay) return 0;
    const known = Math.min(Math.max((this.recorded?.outputBytes[fd] ?? 0) - at, 0), bytes.byteLength);
    if (known === bytes.byteLength) return known;
    const output = { t: 'output', fd, at: at + known, b: Buffer.from(bytes.subarray(known)).toString('base64') };
    this.#append(JSON.stringify(output).slice(0, -1), true);
    this.#file?.flush();
    return known;
  }

  /** A frame is about to be sent to a client. @throws JournalError */
  sends(): void {
    if (!this.#hasEnded) this.#file?.flush();
  }

  /**
   * The run is being stopped: from here on only output and starts of tool calls are recorded, so that a resume treats
   * calls in flight as unanswered.
   */
  suspend(): void {
    this.#isSuspended = true;
    this.isInterrupted = true;
  }

  /** Records the end. Nothing follows it: calls cancelled by the end have no end record. */
  end(end: Omit<EndRecord, 't'>): void {
    this.isInterrupted = isResumable(end);
    this.#file?.close(this.#timed(JSON.stringify({ t: 'end', ...end }).slice(0, -1)));
    this.#hasEnded = true;
  }

  /** The run does not start after all: leaves the journal unchanged. */
  abandon(): void {
    this.#file?.abandon();
    this.#hasEnded = true;
  }

  #write(record: JournalRecord): void {
    if (this.#file === null || this.#hasEnded) return;
    this.#append(JSON.stringify(record).slice(0, -1));
  }

  /** `record`: a JSON object without its closing brace. `always`: also after {@link suspend}. */
  #append(record: string, always = false): void {
    if (this.#file === null || this.#hasEnded || (this.#isSuspended && !always)) return;
    this.#file.append(this.#timed(record));
  }

  /** Never negative: the clock may have been set back. */
  #timed(record: string): string {
    return `${record},"ms":${Math.max(0, Date.now() - this.header.started)}}`;
  }
}

/** Removes and returns an entry; the maps are mostly empty. */
function taken<T>(from: Map<number, T>, call: number): T | undefined {
  if (from.size === 0) return undefined;
  const found = from.get(call);
  from.delete(call);
  return found;
}

/** Sessions whose last set is retained; for others it is written again. */
const MAX_SESSIONS = 1_024;

/** Tool sets of a run's sends: each set is written once, and each session's set when it changes. */
export class ToolSets {
  readonly #byKey = new WeakMap<object, number>();
  readonly #byContent = new Map<string, number>();
  readonly #sessions = new Map<string, string>();

  /** Null: the session has this set already. */
  record(session: string, params: ToolsRecord['params'], key: object, shown: () => ShownTools): ToolsRecord | null {
    let set = this.#byKey.get(key);
    let content: ShownTools | null = null;
    if (set === undefined) {
      content = shown();
      const sum = hash('sha256', JSON.stringify(content));
      const known = this.#byContent.get(sum);
      set = known ?? this.#byContent.size + 1;
      this.#byContent.set(sum, set);
      this.#byKey.set(key, set);
      if (known !== undefined) content = null;
    }
    const has = `${set} ${JSON.stringify(params)}`;
    if (content === null && this.#sessions.get(session) === has) return null;
    if (this.#sessions.size >= MAX_SESSIONS) this.#sessions.clear();
    this.#sessions.set(session, has);
    const record = { t: 'tools', session, params, set } as const;
    if (content === null) return record;
    const { tools, definitions, systemMessage } = content;
    return { ...record, shown: tools, definitions, system: systemMessage };
  }
}
