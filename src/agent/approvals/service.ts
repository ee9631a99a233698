import type { Counter } from '@opentelemetry/api';
import { cutText } from '../../base/text.ts';
import type { ApproverRule } from '../../config/registry/registry-config.ts';
import { DEFAULT_NAMESPACE } from '../../runtime/port/policy-layers.ts';
import { redactArguments } from '../../server/audit/redact.ts';
import type { SmsTrail } from '../../server/audit/sms-trail.ts';
import { Caller } from '../../server/identity/caller.ts';
import {
  type Approval,
  approvalId,
  approvalLimits,
  type BoundCall,
  decidersOf,
  differingField,
  isClosed,
  saltedHash,
} from '../../server/records/approval.ts';
import { MAX_TRIES } from '../../server/store/record-write.ts';
import { type RegistryStore, StoreError, wasOvertaken } from '../../server/store/store.ts';
import {
  type AskedCall,
  type Asking,
  auditFields,
  closed,
  counted,
  lastAllowed,
  newRequest,
  type Vote,
} from './approval-record.ts';
import { OpenApprovals } from './open-approvals.ts';
import { isSelfApproved, type PersonOf, reservingRule, ruleFor, whyNot } from './rules.ts';

export interface ApprovalQueueOptions {
  readonly rules: readonly ApproverRule[];
  /** False: the registry has no authentication, so users are not distinguished. */
  readonly hasNames: boolean;
  /** The person behind a name. @default every name is a person */
  readonly personOf?: PersonOf;
  /** How long a request waits for a decision, a grant for its call, and a grant for the call of a run that may be parked. */
  readonly waitMs: number;
  readonly grantMs: number;
  readonly keptGrantMs: number;
  /** How long, and how many, closed requests are retained. The audit log has all of them. */
  readonly keepMs: number;
  readonly maxKept: number;
  /** Pending requests at one time. */
  readonly maxWaiting: number;
  readonly trail: SmsTrail;
  readonly metrics: { readonly decisions: Pick<Counter, 'add'> };
  /** @default Date.now */
  readonly now?: () => number;
}

/**
 * Approval requests of all nodes, and their grants.
 *
 * Invariants
 * - Every change is written by compare-and-set on the revision of the request, after its audit event was accepted, and is
 *   durable before it is visible: of two simultaneous decisions one wins, and a grant is redeemed once.
 * - Every method that decides takes the caller; a request of another namespace does not exist for the caller.
 * - Requests and grants that expire are ended by the job `sweep`, also after a restart.
 *
 * Other registries may write to the same store. See docs/approvals.md.
 */
export class ApprovalQueue {
  readonly store: RegistryStore<Approval>;
  readonly #options: ApprovalQueueOptions;
  readonly #now: () => number;
  readonly #known: OpenApprovals;
  readonly #personOf: PersonOf;
  #rules: readonly ApproverRule[];
  #epoch = '';

  constructor(store: RegistryStore<Approval>, options: ApprovalQueueOptions) {
    this.store = store;
    this.#options = options;
    this.#rules = options.rules;
    this.#now = options.now ?? (() => Date.now());
    this.#personOf = options.personOf ?? ((name) => name);
    const { keepMs, maxKept } = options;
    const timely = (approval: Approval) => this.#timely(approval);
    this.#known = new OpenApprovals(store, { keepMs, maxKept, now: this.#now, timely });
  }

  get waiting(): number {
    return this.#known.waiting;
  }

  /** Replaces the rules. Votes that were counted stay counted. */
  useRules(rules: readonly ApproverRule[]): void {
    this.#rules = rules;
  }

  /** The rule that keeps a token name from admins of this namespace: see {@link reservingRule}. */
  reservingRule(namespace: string, name: string): string | null {
    return reservingRule(this.#rules, namespace, name)?.name ?? null;
  }

  /** Loads the requests of earlier processes. */
  async start(): Promise<void> {
    const { epoch, revision, records } = await this.store.list();
    this.#epoch = epoch;
    await this.#known.start(revision, records);
  }

  close(): void {
    this.#known.close();
  }

  /** The request of this call: the one that it has, or a new one. @throws QueueFull, StoreError */
  async open(caller: Caller, asked: AskedCall): Promise<Approval> {
    for (let tries = 1; ; tries++) {
      const { found, round } = await this.#find(asked);
      if (found !== null) return found;
      this.#requireRoom(asked, round);
      const approval = newRequest(asked, await this.#asking(caller, asked, round));
      try {
        return await this.#write(caller, approval, 0, 'request', () => ({
          event: 'sms.approval_requested',
          ...caller,
          ...auditFields(approval),
          reason: approval.cause.text,
          args: redactArguments(approval.arguments),
        }));
      } catch (error) {
        if (tries >= MAX_TRIES || !wasOvertaken(error)) throw error;
      }
    }
  }

  /** Counts the caller's vote. @throws AlreadyDecided, MayNotDecide, StoreError */
  async decide(caller: Caller, id: string, vote: Vote): Promise<Approval> {
    const actor = this.#nameOf(caller);
    for (let tries = 1; ; tries++) {
      const approval = await this.get(caller, id);
      if (approval.status !== 'waiting') throw new AlreadyDecided(approval);
      if (vote.ifModRevision !== undefined && vote.ifModRevision !== approval.mod_revision) {
        throw new StoreError(
          'revision_mismatch',
          `approval "${id}" is now at revision ${approval.mod_revision}; read it again`,
        );
      }
      const rule = ruleFor(this.#rules, approval);
      const refusal = whyNot(rule, approval, actor, this.#personOf);
      if (refusal !== null) throw new MayNotDecide(refusal);
      const needed = Math.max(approval.needed, rule?.needed ?? 1);
      const person = actor === null ? null : (this.#personOf(actor) ?? actor);
      const decided = counted(approval, vote, { needed, by: actor, person, now: this.#now() });
      try {
        const written = await this.#write(caller, decided, approval.mod_revision, 'decide', () => ({
          event: 'sms.approval_decided',
          ...caller,
          ...auditFields(decided),
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

  /** Redeems a grant. Null: redeemed; otherwise why not. A call that differs from the approved one ends the grant. */
  async redeem(
    caller: Caller,
    id: string,
    claim: string,
    call: BoundCall,
    argumentsHash: string,
  ): Promise<string | null> {
    // Another registry on the same store may have written the grant.
    await this.store.upToDate();
    for (let tries = 1; ; tries++) {
      const approval = await this.get(caller, id).catch((error: unknown) => {
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
          await this.#end(
            caller,
            approval,
            'withdrawn',
            `the call differs from the approved one: its ${other} changed`,
          );
          return other;
        }
        if (isSelfApproved(ruleFor(this.#rules, approval), approval, this.#personOf)) {
          await this.#end(
            caller,
            approval,
            'withdrawn',
            'the submitter of the run approved its call; another user must',
          );
          return 'submitted_by';
        }
        await this.#end(caller, { ...approval, claim }, 'used', null);
        return null;
      } catch (error) {
        if (tries >= MAX_TRIES || !wasOvertaken(error)) throw error;
      }
    }
  }

  async withdraw(caller: Caller, id: string, reason: string): Promise<void> {
    for (let tries = 1; ; tries++) {
      const approval = await this.get(caller, id);
      if (isClosed(approval)) return;
      try {
        await this.#end(caller, approval, 'withdrawn', cutText(reason, approvalLimits.reasonChars));
        return;
      } catch (error) {
        if (tries >= MAX_TRIES || !wasOvertaken(error)) throw error;
      }
    }
  }

  /** Whether the request is pending; false also if the caller has no access to its namespace. */
  isWaiting(caller: Caller, id: string): boolean {
    const approval = this.#known.openOne(id);
    return approval?.status === 'waiting' && this.scope(caller)(approval.namespace);
  }

  /** Withdraws all open requests of a run. */
  async withdrawAll(caller: Caller, namespace: string, run: string, reason: string): Promise<void> {
    const open = [...this.#known.open].filter((one) => one.run === run && one.namespace === namespace);
    for (const { approval_id: id } of open) await this.withdraw(caller, id, reason);
  }

  /** Which namespaces the caller has access to. */
  scope(caller: Caller): (namespace: string) => boolean {
    const hasAll = Caller.hasAllNamespaces(caller);
    return (namespace) => hasAll || caller.namespace === namespace;
  }

  /** Namespace of a node's request: the given one, else the caller's own. Null: the caller has no access to it. */
  namespaceFor(caller: Caller, given: string): string | null {
    const own = Caller.hasAllNamespaces(caller) ? DEFAULT_NAMESPACE : (caller.namespace ?? '');
    const namespace = given === '' ? own : given;
    return this.scope(caller)(namespace) ? namespace : null;
  }

  /** @throws StoreError `not_found`, also if the caller has no access to its namespace */
  async get(caller: Caller, id: string): Promise<Approval> {
    const mayName = this.scope(caller);
    const approval = this.store.kind.isId(id) ? await this.store.get(id) : null;
    if (approval === null || !mayName(approval.namespace)) {
      throw new StoreError('not_found', `there is no approval "${id}"`);
    }
    return this.#timely(approval);
  }

  /** The request with complete arguments; the audit log records the read. */
  async readWhole(caller: Caller, id: string): Promise<Approval> {
    const approval = await this.get(caller, id);
    this.#options.trail.write({ event: 'sms.approval_read', ...caller, ...auditFields(approval) });
    return approval;
  }

  /** Why the caller may not decide the request; null: the caller may. */
  whyNot(caller: Caller, approval: Approval): string | null {
    if (approval.status !== 'waiting') return `the approval is already ${approval.status}`;
    return whyNot(ruleFor(this.#rules, approval), approval, this.#nameOf(caller), this.#personOf);
  }

  /** Milliseconds until a pending request is denied, or a grant expires. */
  leftMs({ expires_at_ms: expiresAtMs }: Approval): number {
    return Math.max(0, expiresAtMs - this.#now());
  }

  /** Milliseconds since the decision. */
  ageMs({ decided_at_ms: decidedAtMs }: Approval): number {
    return decidedAtMs === null ? 0 : Math.max(0, this.#now() - decidedAtMs);
  }

  /** The latest request of the same call that is still valid, and the number of the next round. */
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

  async #asking(caller: Caller, asked: AskedCall, round: number): Promise<Asking> {
    const { waitMs, grantMs, keptGrantMs } = this.#options;
    return {
      ...{ round, waitMs, epoch: this.#epoch, requestedBy: this.#nameOf(caller), now: this.#now() },
      submitter: this.#submitter(caller, asked),
      rule: ruleFor(this.#rules, asked),
      changes: lastAllowed(await this.store.list(), asked),
      grantMs: asked.isKept ? keptGrantMs : grantMs,
    };
  }

  /** The person who submitted the run. A caller that is no node runs the guest itself (`spear-run --approve sms`). */
  #submitter(caller: Caller, { submitted_by: submittedBy }: AskedCall): string | null {
    const isNode = caller.role?.split(',').includes('node') ?? false;
    const name = submittedBy ?? (isNode ? null : this.#nameOf(caller));
    return name === null ? null : this.#personOf(name);
  }

  #nameOf({ actor }: Caller): string | null {
    return this.#options.hasNames ? actor : null;
  }

  #requireRoom({ run }: AskedCall, round: number): void {
    if (round > approvalLimits.rounds)
      throw new QueueFull(`approval of this call was requested ${approvalLimits.rounds} times, the maximum`);
    if (this.waiting >= this.#options.maxWaiting) throw new QueueFull('too many approvals are pending');
    let ofRun = 0;
    for (const approval of this.#known.open) if (approval.run === run && approval.status === 'waiting') ofRun += 1;
    if (ofRun >= approvalLimits.waitingPerRun) throw new QueueFull('too many approvals of this run are pending');
  }

  /** Ends the request if it has expired, or if the registry was restored from a backup after it was made. */
  async #timely(approval: Approval): Promise<Approval> {
    if (isClosed(approval)) return approval;
    const restored = approval.epoch !== this.#epoch;
    if (!restored && this.#now() < approval.expires_at_ms) return approval;
    const granted = approval.status === 'granted';
    const why = restored
      ? 'the registry was restored from a backup that does not have the outcome of this approval'
      : granted
        ? 'the grant expired before the call used it'
        : `no decision within ${approval.expires_at_ms - approval.created_at_ms} ms`;
    return this.#end(Caller.process('sweep'), approval, granted ? 'expired' : 'denied', why);
  }

  #end(caller: Caller, approval: Approval, status: Approval['status'], reason: string | null): Promise<Approval> {
    const ended = closed({ ...approval, reason: reason ?? approval.reason }, status);
    return this.#write(caller, ended, approval.mod_revision, 'end', () => ({
      event: 'sms.approval_ended',
      ...caller,
      ...auditFields(ended),
      status,
      reason,
    }));
  }

  async #write(
    caller: Caller,
    approval: Approval,
    ifModRevision: number,
    action: 'request' | 'decide' | 'end',
    line: () => Parameters<SmsTrail['write']>[0],
  ): Promise<Approval> {
    const { trail } = this.#options;
    const { approval_id } = approval;
    const announced = () => ({ event: 'sms.approval_write_started', ...caller, approval_id, action }) as const;
    if (!(await trail.allowsWrite(announced))) {
      const why = 'the audit log cannot be written, and approvals cannot change without it (audit.on_failure)';
      throw new StoreError('not_stored', why);
    }
    const { record } = await this.store.upsert(approval, { ifModRevision });
    trail.write(line());
    this.#known.remember(record);
    return record;
  }
}

/** The request was decided before, or has expired. The message has the decision and who made it. */
export class AlreadyDecided extends Error {
  readonly approval: Approval;

  constructor(approval: Approval) {
    super(`the approval is already ${approval.status}${by(approval)}`);
    this.name = 'AlreadyDecided';
    this.approval = approval;
  }
}

/** A rule does not let the caller decide. */
export class MayNotDecide extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'MayNotDecide';
  }
}

/** Too many pending requests. */
export class QueueFull extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'QueueFull';
  }
}

function by(approval: Approval): string {
  const who = decidersOf(approval);
  const reason = approval.reason === null ? '' : `: ${approval.reason}`;
  return `${who.length === 0 ? '' : `, ${approval.decision ?? ''} by ${who.join(' and ')}`}${reason}`;
}
