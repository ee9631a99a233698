import { randomBytes } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { redactArguments } from '../../audit/redact-arguments.ts';
import { cutText } from '../../base/cut-text.ts';
import { canonicalJson, type JsonObject } from '../../base/json.ts';
import type { ApproverRule } from '../../config/sms/sms-config.ts';
import {
  type Approval,
  type ApprovalDecision,
  approvalId,
  approvalLimits,
  type BoundCall,
  boundCallFields,
  decidersOf,
  differingField,
  isClosed,
  saltedHash,
} from '../../protocol/approval.ts';
import { ALL_NAMESPACES, DEFAULT_NAMESPACE } from '../../protocol/people.ts';
import type { SmsMetrics } from '../metrics/sms-metrics.ts';
import { MAX_TRIES } from '../record-write.ts';
import { type RegistryStore, StoreError, wasOvertaken } from '../store/store.ts';
import { byItself, currentCaller } from '../trail/caller.ts';
import type { SmsTrail } from '../trail/sms-trail.ts';
import { closed } from './closed.ts';
import { AlreadyDecided, MayNotDecide, QueueFull } from './errors.ts';
import { lastAllowed } from './last-allowed.ts';
import { ruleFor, whyNot } from './rules.ts';

export interface ApprovalQueueOptions {
  readonly rules: readonly ApproverRule[];
  /** False: everybody may do everything, so nobody is told apart. */
  readonly hasNames: boolean;
  /** How long a request waits for somebody, and a yes for its call. */
  readonly waitMs: number;
  readonly grantMs: number;
  /** Of requests that are closed: how many and for how long they are kept. The trail has them all. */
  readonly keepMs: number;
  readonly maxKept: number;
  /** Requests that wait at one time. */
  readonly maxWaiting: number;
  readonly trail: SmsTrail;
  readonly metrics: Pick<SmsMetrics, 'decisions'>;
  /** @default Date.now */
  readonly now?: () => number;
}

/** What a node asks. */
export interface AskedCall extends BoundCall {
  readonly namespace: string;
  readonly callId: string;
  readonly nodeId: string;
  readonly arguments: JsonObject;
  readonly definition: JsonObject;
  readonly cause: Approval['cause'];
}

export interface Vote {
  readonly decision: ApprovalDecision;
  readonly reason: string | null;
  /** Of the request that was looked at; undefined: whatever it is. */
  readonly ifModRevision?: number | undefined;
}

const NOBODY = 'nobody';
/** A timer is set anew at the latest then: what is due is found by the clock on the wall, and that may be set. */
const LONGEST_PAUSE_MS = 30_000;

/** After a watch that broke. */
const FOLLOW_AGAIN_MS = 500;

/**
 * The requests of all nodes. Everything that becomes of one is written by compare-and-set on its revision, durable before
 * anybody is told: of two who decide at the same moment one wins, and a yes is used once.
 */
export class ApprovalQueue {
  readonly store: RegistryStore<Approval>;
  readonly #options: ApprovalQueueOptions;
  readonly #now: () => number;
  /** Those of which something can still become. */
  readonly #open = new Map<string, Approval>();
  /** The others, oldest first. */
  readonly #closed = new Set<string>();
  #epoch = '';
  #timer: NodeJS.Timeout | null = null;
  #isClosed = false;
  readonly #ended = new AbortController();

  constructor(store: RegistryStore<Approval>, options: ApprovalQueueOptions) {
    this.store = store;
    this.#options = options;
    this.#now = options.now ?? Date.now;
  }

  get waiting(): number {
    let count = 0;
    for (const { status } of this.#open.values()) if (status === 'waiting') count += 1;
    return count;
  }

  /** Takes up what an earlier process left. */
  async start(): Promise<void> {
    const { epoch, revision, records } = await this.store.list();
    this.#epoch = epoch;
    const byAge = [...records].sort((a, b) => a.updated_at_ms - b.updated_at_ms);
    for (const approval of byAge) this.#remember(approval);
    await this.#sweep();
    void this.#follow(revision);
  }

  close(): void {
    this.#isClosed = true;
    this.#ended.abort();
    if (this.#timer !== null) clearTimeout(this.#timer);
  }

  /** The request of this call: the one that it has, or a new one. @throws QueueFull, StoreError */
  async open(asked: AskedCall): Promise<Approval> {
    for (let tries = 1; ; tries++) {
      const { found, round } = await this.#find(asked);
      if (found !== null) return found;
      this.#requireRoom(asked, round);
      const approval = await this.#made(asked, round);
      try {
        return await this.#write(approval, 0, 'request', () => ({
          event: 'sms.approval_requested',
          ...currentCaller(),
          ...this.#about(approval),
          reason: approval.cause.text,
          args: redactArguments(approval.arguments),
        }));
      } catch (error) {
        if (tries >= MAX_TRIES || !wasOvertaken(error)) throw error;
      }
    }
  }

  /** Counts what somebody says of a request. @throws AlreadyDecided, MayNotDecide, StoreError */
  async decide(id: string, vote: Vote): Promise<Approval> {
    const actor = this.#who();
    for (let tries = 1; ; tries++) {
      const approval = await this.get(id);
      if (approval.status !== 'waiting') throw new AlreadyDecided(approval);
      if (vote.ifModRevision !== undefined && vote.ifModRevision !== approval.mod_revision) {
        throw new StoreError('revision_mismatch', `approval "${id}" is at revision ${approval.mod_revision} now`);
      }
      const rule = ruleFor(this.#options.rules, approval);
      const refusal = whyNot(rule, approval, actor);
      if (refusal !== null) throw new MayNotDecide(refusal);
      const decided = this.#counted(approval, vote, Math.max(approval.needed, rule?.needed ?? 1), actor);
      try {
        const written = await this.#write(decided, approval.mod_revision, 'decide', () => ({
          event: 'sms.approval_decided',
          ...currentCaller(),
          ...this.#about(decided),
          decision: vote.decision,
          status: decided.status,
          reason: vote.reason,
        }));
        if (written.status !== 'waiting') this.#options.metrics.decisions.add(1, { decision: vote.decision });
        return written;
      } catch (error) {
        if (tries >= MAX_TRIES || !wasOvertaken(error)) throw error;
      }
    }
  }

  /** Uses up a yes. Null: it is theirs; otherwise why not, and where a field is another, the yes is gone. */
  async claim(id: string, claim: string, call: BoundCall, argumentsHash: string): Promise<string | null> {
    // The yes may have been told by another registry on the same store.
    await this.store.upToDate();
    for (let tries = 1; ; tries++) {
      const approval = await this.get(id).catch((error: unknown) => {
        if (error instanceof StoreError && error.code === 'not_found') return null;
        throw error;
      });
      if (approval === null) return 'unknown';
      const other =
        differingField(approval, call) ?? (approval.arguments_sha256 === argumentsHash ? null : 'arguments');
      if (approval.status === 'used' && approval.claim === claim && other === null) return null;
      if (approval.status !== 'granted') return approval.status;
      try {
        if (other !== null) {
          await this.#end(approval, 'withdrawn', `the call is not the one that was allowed: its ${other} is another`);
          return other;
        }
        await this.#end({ ...approval, claim }, 'used', null);
        return null;
      } catch (error) {
        if (tries >= MAX_TRIES || !wasOvertaken(error)) throw error;
      }
    }
  }

  async withdraw(id: string, reason: string): Promise<void> {
    for (let tries = 1; ; tries++) {
      const approval = await this.get(id);
      if (isClosed(approval)) return;
      try {
        await this.#end(approval, 'withdrawn', cutText(reason, approvalLimits.reasonChars));
        return;
      } catch (error) {
        if (tries >= MAX_TRIES || !wasOvertaken(error)) throw error;
      }
    }
  }

  /** Whether nothing became of it yet; false also where it is not known, or belongs to others. */
  isWaiting(id: string): boolean {
    const approval = this.#open.get(id);
    return approval?.status === 'waiting' && this.scope()(approval.namespace);
  }

  /** The run does not want any of its answers any more. */
  async withdrawAll(namespace: string, run: string, reason: string): Promise<void> {
    const open = [...this.#open.values()].filter((one) => one.run === run && one.namespace === namespace);
    for (const { approval_id: id } of open) await this.withdraw(id, reason);
  }

  /** Which namespaces whoever asks now may name. */
  scope(): (namespace: string) => boolean {
    const { namespace: own } = currentCaller();
    return (namespace) => own === null || own === ALL_NAMESPACES || own === namespace;
  }

  /** The namespace of what a node asks: the one it names, if it may; its own where it names none. Null: it may not. */
  namespaceFor(given: string): string | null {
    const { namespace: own } = currentCaller();
    const namespace = given !== '' ? given : own === null || own === ALL_NAMESPACES ? DEFAULT_NAMESPACE : own;
    return this.scope()(namespace) ? namespace : null;
  }

  /** As it is now. @throws StoreError `not_found`, also where it belongs to others */
  async get(id: string): Promise<Approval> {
    const mayName = this.scope();
    const approval = this.store.kind.isId(id) ? await this.store.get(id) : null;
    if (approval === null || !mayName(approval.namespace)) {
      throw new StoreError('not_found', `there is no approval "${id}"`);
    }
    return this.#timely(approval);
  }

  /** For whoever wants to see all that would be sent; the trail says that they did. */
  async readWhole(id: string): Promise<Approval> {
    const approval = await this.get(id);
    this.#options.trail.write({ event: 'sms.approval_read', ...currentCaller(), ...this.#about(approval) });
    return approval;
  }

  /** Why whoever asks may not decide about it; null: they may. */
  whyNot(approval: Approval): string | null {
    if (approval.status !== 'waiting') return `it is ${approval.status} already`;
    return whyNot(ruleFor(this.#options.rules, approval), approval, this.#who());
  }

  /** Until a waiting request is denied, or a yes ends. */
  leftMs({ expires_at_ms: expiresAtMs }: Approval): number {
    return Math.max(0, expiresAtMs - this.#now());
  }

  /** Since it was decided. */
  ageMs({ decided_at_ms: decidedAtMs }: Approval): number {
    return decidedAtMs === null ? 0 : Math.max(0, this.#now() - decidedAtMs);
  }

  /** The latest that is bound to the same, if it still says something, and the number of the next. */
  async #find(asked: AskedCall): Promise<{ readonly found: Approval | null; readonly round: number }> {
    let found: Approval | null = null;
    let round = 1;
    for (let at = 1; at <= approvalLimits.rounds; at++) {
      const approval = await this.store.get(approvalId(asked.namespace, asked, at));
      if (approval === null) continue;
      round = at + 1;
      const same =
        differingField(approval, asked) === null &&
        approval.namespace === asked.namespace &&
        saltedHash(approval.salt, asked.arguments) === approval.arguments_sha256;
      if (same) found = await this.#timely(approval);
    }
    const holds = found !== null && ['waiting', 'granted', 'denied'].includes(found.status);
    return { found: holds ? found : null, round };
  }

  #who(): string | null {
    return this.#options.hasNames ? currentCaller().actor : null;
  }

  #requireRoom({ run }: AskedCall, round: number): void {
    if (round > approvalLimits.rounds) throw new QueueFull('this call was asked about too often');
    if (this.waiting >= this.#options.maxWaiting) throw new QueueFull('too many requests wait for a decision');
    let ofRun = 0;
    for (const approval of this.#open.values()) if (approval.run === run && approval.status === 'waiting') ofRun += 1;
    if (ofRun >= approvalLimits.waitingPerRun) throw new QueueFull('too many requests of this run wait for a decision');
  }

  async #made(asked: AskedCall, round: number): Promise<Approval> {
    const now = this.#now();
    const salt = randomBytes(16).toString('hex');
    const rule = ruleFor(this.#options.rules, asked);
    const call = Object.fromEntries(boundCallFields.map((field) => [field, asked[field]])) as unknown as BoundCall;
    return {
      ...call,
      approval_id: approvalId(asked.namespace, asked, round),
      namespace: asked.namespace,
      epoch: this.#epoch,
      status: 'waiting',
      call_id: asked.callId,
      node_id: asked.nodeId,
      requested_by: this.#who(),
      cause: asked.cause,
      arguments: asked.arguments,
      arguments_sha256: saltedHash(salt, asked.arguments),
      salt,
      definition: asked.definition,
      changes: lastAllowed(await this.store.list(), asked),
      created_at_ms: now,
      expires_at_ms: now + this.#options.waitMs,
      needed: rule?.needed ?? 1,
      rule: rule?.name ?? null,
      votes: [],
      decision: null,
      reason: null,
      decided_at_ms: null,
      claim: null,
      updated_at_ms: 0,
      mod_revision: 0,
    };
  }

  #counted(approval: Approval, { decision, reason }: Vote, needed: number, by: string | null): Approval {
    const now = this.#now();
    const votes = [...approval.votes, { by, decision, reason, at_ms: now }];
    const voted = { ...approval, needed, votes };
    if (decision === 'deny') {
      return closed({ ...voted, decision, reason, decided_at_ms: now }, 'denied');
    }
    if (votes.length < needed) return voted;
    // Where they do not mean the same, the least that all of them allow.
    const agreed = votes.every((vote) => vote.decision === 'allow_session') ? 'allow_session' : 'allow_once';
    const expires = now + this.#options.grantMs;
    return { ...voted, status: 'granted', decision: agreed, reason, decided_at_ms: now, expires_at_ms: expires };
  }

  /** As it is now: its time may be over, and so is that of whatever another store knew. */
  async #timely(approval: Approval): Promise<Approval> {
    if (isClosed(approval)) return approval;
    const restored = approval.epoch !== this.#epoch;
    if (!restored && this.#now() < approval.expires_at_ms) return approval;
    const granted = approval.status === 'granted';
    const why = restored
      ? 'the registry was restored from a backup, which does not know what became of it'
      : granted
        ? 'it was allowed, and not used in time'
        : `nobody decided within ${approval.expires_at_ms - approval.created_at_ms} ms`;
    return byItself(() => this.#end(approval, granted ? 'expired' : 'denied', why));
  }

  #end(approval: Approval, status: Approval['status'], reason: string | null): Promise<Approval> {
    const ended = closed({ ...approval, reason: reason ?? approval.reason }, status);
    return this.#write(ended, approval.mod_revision, 'end', () => ({
      event: 'sms.approval_ended',
      ...currentCaller(),
      ...this.#about(ended),
      status,
      reason,
    }));
  }

  async #write(
    approval: Approval,
    ifModRevision: number,
    action: 'request' | 'decide' | 'end',
    line: () => Parameters<SmsTrail['write']>[0],
  ): Promise<Approval> {
    const { trail } = this.#options;
    const { approval_id } = approval;
    const announced = () => ({ event: 'sms.approval_write_started', ...currentCaller(), approval_id, action }) as const;
    if (!(await trail.allowsWrite(announced))) {
      const why = 'the audit trail cannot be written, and nothing is decided without it (audit.on_failure)';
      throw new StoreError('not_stored', why);
    }
    const { record } = await this.store.upsert(approval, { ifModRevision });
    trail.write(line());
    this.#remember(record);
    this.#arm();
    return record;
  }

  #about(approval: Approval) {
    const { approval_id, namespace, run, ordinal, task, session: session_id, server_id, kind, tool_name } = approval;
    const { arguments_sha256: args_sha256, definition_sha256: tool_sha256, needed } = approval;
    const deciders = decidersOf(approval);
    return {
      approval_id,
      approval_namespace: namespace,
      run,
      ordinal,
      task_name: task,
      session_id,
      server_id,
      kind,
      tool_name,
      args_sha256,
      tool_sha256,
      needed,
      decided_by: deciders.length === 0 ? NOBODY : deciders.join(', '),
    };
  }

  #remember(approval: Approval): void {
    const { approval_id: id } = approval;
    if (!isClosed(approval)) {
      this.#open.set(id, approval);
      return;
    }
    this.#open.delete(id);
    this.#closed.add(id);
  }

  /** What others write to the same store is remembered too: they may decide, and this ends what is due. */
  async #follow(since: number): Promise<void> {
    const { signal } = this.#ended;
    for (let at = since; !signal.aborted; ) {
      try {
        for await (const { revision, upserts, deletes } of this.store.watch(at, signal)) {
          at = revision;
          for (const id of deletes) this.#forget(id);
          for (const approval of upserts) this.#remember(approval);
          this.#arm();
        }
      } catch (error) {
        if (error instanceof StoreError && error.code === 'closed') return;
        await delay(FOLLOW_AGAIN_MS, undefined, { signal }).catch(() => {});
        at = 0;
      }
    }
  }

  #forget(id: string): void {
    this.#open.delete(id);
    this.#closed.delete(id);
  }

  #arm(): void {
    if (this.#isClosed) return;
    if (this.#timer !== null) clearTimeout(this.#timer);
    let due = this.#now() + LONGEST_PAUSE_MS;
    for (const { expires_at_ms: expiresAtMs } of this.#open.values()) due = Math.min(due, expiresAtMs);
    this.#timer = setTimeout(() => void this.#sweep().catch(() => this.#arm()), Math.max(10, due - this.#now()));
    this.#timer.unref();
  }

  /** Ends what is due, and lets go what is old. Where the store cannot be written, it is tried again. */
  async #sweep(): Promise<void> {
    for (const approval of [...this.#open.values()]) {
      await this.#timely(approval).catch((error: unknown) => {
        if (!(error instanceof StoreError)) throw error;
      });
    }
    const { keepMs, maxKept } = this.#options;
    const old: string[] = [];
    for (const id of this.#closed) {
      const approval = await this.store.get(id);
      const surplus = this.#closed.size - old.length > maxKept;
      if (approval !== null && !surplus && this.#now() - approval.updated_at_ms < keepMs) break;
      old.push(id);
    }
    for (const id of old) this.#closed.delete(id);
    const there = [];
    for (const id of old) if ((await this.store.get(id)) !== null) there.push({ remove: id });
    if (there.length > 0) await this.store.apply(there);
    this.#arm();
  }
}

/** Whether it can be kept, and be read by whoever decides. Null: it can. */
export function sizeProblem({ arguments: args, definition, ...texts }: AskedCall): string | null {
  const bytes = Buffer.byteLength(canonicalJson(args));
  if (bytes > approvalLimits.argumentBytes) {
    return `the arguments have ${bytes} bytes, and of more than ${approvalLimits.argumentBytes} nobody decides here`;
  }
  if (Buffer.byteLength(canonicalJson(definition)) > approvalLimits.definitionBytes)
    return 'the definition is too large';
  const long = Object.entries(texts).find(
    ([, text]) => typeof text === 'string' && text.length > approvalLimits.textChars,
  );
  return long === undefined ? null : `${long[0]} has more than ${approvalLimits.textChars} characters`;
}
