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

/** A turn seldom has more calls. */
const MAX_RECENT_RESULTS = 64;

/** The attempt of a call that was made after the backup of a restored run, if it was: no attempt has this number. */
const BEFORE_RESTORE = 0;

/** Before it is known what the task's policy is. */
export type RunHeader = Omit<JournalHeader, 'policy'>;

/**
 * The host's half of a run's journal, while it runs. What a replay would write stands there already. The records of a
 * governed call are put together as text: an object for each would cost the host as much as writing them.
 */
export class RunJournal implements ToolJournal {
  readonly header: RunHeader;
  /** What was there before; null: nothing was. */
  readonly recorded: RecordedRun | null;
  readonly attempt: number;
  readonly written: (() => Promise<void>) | undefined;
  /** For the guest's thread. */
  readonly replayStart: ReplayStart;
  /** Null: nothing is written. */
  readonly #file: JournalWriter | null;
  readonly #offsets: Record<StandardStream, number> = { stdout: 0, stderr: 0 };
  readonly #settled = new Map<number, RecordedSend>();
  readonly #questions = new Map<number, readonly (string | null)[]>();
  readonly #toolSets = new ToolSets();
  #lastResult: RecordedResult | null = null;
  /** Those that the next request to a model may tell of; a new one takes the place of the oldest. */
  readonly #recentResults: RecordedResult[] = [];
  #results = 0;
  readonly #isRestored: boolean;
  #isSuspended = false;
  #hasEnded = false;
  isInterrupted = false;

  /** Without a file it is a replay. `isRestored`: calls may have been made that the journal does not have. */
  constructor(header: RunHeader, recorded: RecordedRun | null, file: JournalWriter | null, isRestored = false) {
    this.#isRestored = isRestored;
    this.header = header;
    this.recorded = recorded;
    this.#file = file;
    this.attempt = recorded === null || file === null ? (recorded?.attempts ?? 1) : recorded.attempts + 1;
    const wakesAtStart = header.quiet_start !== true;
    this.written = file?.written;
    const { sleeps } = recorded?.parked ?? { sleeps: [] };
    this.replayStart = { events: recorded?.events ?? [], continuesLive: file !== null, wakesAtStart, sleeps };
  }

  /** The run begins, or goes on. `policy`: what its task lets sessions ask for, `rules` those about approvals. @throws JournalError */
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

  /** Whether nothing is done but what was done before. */
  get isReplay(): boolean {
    return this.#file === null;
  }

  /** What the guest's thread took. */
  recordEvents(e: string): void {
    // Checked where it came in: nothing in it needs escaping.
    this.#append(`{"t":"guest","e":"${e}"`);
  }

  /** The guest asks something about servers: kept with the reply, for whoever asks the same of the journal. */
  questioned(call: number, question: readonly (string | null)[]): void {
    if (this.#file !== null) this.#questions.set(call, question);
  }

  /** What a send left behind, for the reply that tells of it. */
  settled(call: number, send: RecordedSend): void {
    this.#settled.set(call, send);
  }

  /** Whether the guest is to be told: a send that goes on asks again for callbacks that ran before. */
  reply(call: number, reply: HostReply): boolean {
    if (this.recorded !== null && reply[0] === 'tool' && reply[1] <= this.recorded.callbacks(call)) return false;
    if (this.#file === null) return true;
    let record = `{"t":"reply","call":${call},"m":${replyToJson(reply, this.#lastResult)}`;
    const send = taken(this.#settled, call);
    if (send !== undefined) record += `,"send":${JSON.stringify(send)}`;
    const q = taken(this.#questions, call);
    if (q !== undefined) record += `,"q":${JSON.stringify(q)}`;
    this.#append(record);
    return true;
  }

  /** It is about to be sent: not before what this gives has resolved, where it gives something. */
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

  /** How many of the bytes were printed by an earlier attempt. The rest is written down, so that it is printed once. */
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

  /** A frame leaves for a client: whoever has it must find a run that knows of it. @throws JournalError */
  sends(): void {
    if (!this.#hasEnded) this.#file?.flush();
  }

  /**
   * From here on only output and the starts of tool calls are written: a run that is stopped is to resume as if its calls
   * in flight had no answer.
   */
  suspend(): void {
    this.#isSuspended = true;
    this.isInterrupted = true;
  }

  /** Nothing is written after it: calls that are stopped because the run ends have no end of their own. */
  end(end: Omit<EndRecord, 't'>): void {
    this.isInterrupted = isResumable(end);
    this.#file?.close(this.#timed(JSON.stringify({ t: 'end', ...end }).slice(0, -1)));
    this.#hasEnded = true;
  }

  /** Nothing is done after all: the journal stays as it was. */
  abandon(): void {
    this.#file?.abandon();
    this.#hasEnded = true;
  }

  #write(record: JournalRecord): void {
    if (this.#file === null || this.#hasEnded) return;
    this.#append(JSON.stringify(record).slice(0, -1));
  }

  /** An object without its end. */
  #append(record: string, hasHappened = false): void {
    if (this.#file === null || this.#hasEnded || (this.#isSuspended && !hasHappened)) return;
    this.#file.append(this.#timed(record));
  }

  /** The clock may have been set back: no record is older than its run. */
  #timed(record: string): string {
    return `${record},"ms":${Math.max(0, Date.now() - this.header.started)}}`;
  }
}

/** Seldom has anything to give. */
function taken<T>(from: Map<number, T>, call: number): T | undefined {
  if (from.size === 0) return undefined;
  const found = from.get(call);
  from.delete(call);
  return found;
}

/** Sessions whose last set is remembered; of others it is written again. */
const MAX_SESSIONS = 1_024;

/** Which tools the sends of a run get: each set is written once, each session says which it has when that changes. */
export class ToolSets {
  readonly #byKey = new WeakMap<object, number>();
  readonly #byContent = new Map<string, number>();
  readonly #sessions = new Map<string, string>();

  /** Null: the session has them already. */
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
