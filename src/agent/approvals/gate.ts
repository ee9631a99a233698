import type { JsonObject } from '../../base/json.ts';
import { cutText } from '../../base/text.ts';
import type { RegistryCache } from '../../registry-client/cache.ts';
import type { ToolJournal } from '../../runtime/durable/tool-journal.ts';
import { limitSpecs } from '../../runtime/port/limits.ts';
import type { CallKind, SessionPolicy, TaskPolicy } from '../../runtime/port/policy-layers.ts';
import { type AuditEvent, type AuditSink, NO_DECIDER } from '../../server/audit/event.ts';
import { shownArguments } from '../../server/audit/redact.ts';
import type { BoundCall } from '../../server/records/approval.ts';
import type { ApprovalMode, McpServerRecord } from '../../server/records/server.ts';
import type { ElicitationDecider } from '../mcp/client/elicitation/question.ts';
import { McpArgumentsError, McpCancelledError } from '../mcp/client/errors.ts';
import type { McpPool } from '../mcp/client/pool.ts';
import {
  type ApprovalRules,
  approvalMode,
  approvalNeed,
  canDeny,
  isEmpty,
  judge,
  noRules,
  type RuleVerdict,
} from '../policy/approval-rules.ts';
import { hashDefinition, type ToolDefinition } from '../policy/definition-hash.ts';
import { profileOf } from '../policy/record-checks.ts';
import { type ApprovalClient, type GrantHandle, RegistryAnswer } from './client.ts';
import { ApprovalGrants, type GrantBinding, hashArguments, policyRevision, SESSION_GRANT_MS } from './grants.ts';
import { type ApprovalOutcome, PendingApprovals } from './pending.ts';
import { definitionChanges } from './presentation.ts';
import { type ApprovalCause, type ApprovalDecider, ApprovalRefused } from './request.ts';

/** How approvals work for one guest. */
export interface ApprovalOptions {
  /** Name of the task, shown to the approver. @default null */
  readonly task?: string | null;
  /** @default none: a call that needs an approval is denied at once */
  readonly decide?: ApprovalDecider | null;
  /** Requests approvals from a registry instead; these requests outlive this process. @default none */
  readonly client?: Pick<ApprovalClient, 'ask'> | null;
  /** Answers elicitation requests of servers. @default none: they are declined */
  readonly elicit?: ElicitationDecider | null;
  /** Name of the decider in the audit log. @default 'program' */
  readonly decidedBy?: string;
  /** Rules for servers with `approval_policy: policy`. @default none: each call needs an approval */
  readonly rules?: ApprovalRules;
  /** How long a decision is waited for. @default limitSpecs.approval_timeout_ms */
  readonly timeoutMs?: number;
}

/** What the gate has to know of a call, besides its arguments. */
export interface GatedCall {
  /** @default tool */
  readonly kind?: CallKind | undefined;
  readonly serverId: string;
  /** Of a resource its uri. */
  readonly tool: string;
  readonly callId: string;
  readonly session: string;
  /** Names the call in its run: the guest's own call, or send, turn and place in it. @default its id */
  readonly ordinal?: string | undefined;
  /** What the session chose of the task's tools; null for a guest that calls MCP itself. */
  readonly sessionPolicy: SessionPolicy | null;
}

/** What the gate needs of the guest whose calls it checks. */
export interface GateScope {
  readonly run: string;
  readonly task: TaskPolicy;
  readonly audit: AuditSink;
  /** Call journal of the run. @default none */
  readonly journal?: ToolJournal | null;
  /** Stops the deadlines of a session while an approver decides; the returned function starts them again. */
  readonly stopClocks?: ((session: string) => () => void) | undefined;
  readonly registry: Pick<RegistryCache, 'snapshot' | 'view'>;
  readonly pool: Pick<McpPool, 'describeCall'>;
}

/**
 * Approval gate of one guest: decides which calls need an approval, and waits for it.
 *
 * Invariants
 * - {@link obtain} runs before a call takes a slot anywhere; {@link redeem} runs at dispatch and compares the grant with
 *   the call as it would be sent: task, run, call, session, server, tool, arguments, definition and policy.
 * - A grant that a registry holds is redeemed there ({@link claim}) before {@link redeem} accepts it.
 * - A request is audited when it begins and when it ends; one of a run that resumes later has no end yet.
 *
 * One gate belongs to one guest; it decides many calls at the same time. See docs/approvals.md.
 */
export class ApprovalGate {
  readonly #scope: GateScope;
  readonly #task: string | null;
  readonly #rules: ApprovalRules;
  /** Where nothing needs an approval, rules are asked only if they can say no. */
  readonly #rulesDeny: boolean;
  readonly #grants = new ApprovalGrants({ now: () => performance.now() });
  readonly #pending = new PendingApprovals();
  #decide: ApprovalDecider | null;
  #client: Pick<ApprovalClient, 'ask'> | null;
  readonly #decidedBy: string;
  readonly #timeoutMs: number;

  constructor(options: ApprovalOptions, scope: GateScope) {
    this.#scope = scope;
    this.#task = options.task ?? null;
    this.#rules = options.rules ?? noRules;
    this.#rulesDeny = canDeny(this.#rules);
    this.#decide = options.decide ?? null;
    this.#client = options.client ?? null;
    this.#decidedBy = options.decidedBy ?? 'program';
    this.#timeoutMs = options.timeoutMs ?? limitSpecs.approval_timeout_ms.default;
  }

  /** Ends all pending requests. */
  close(): void {
    this.#decide = null;
    this.#client = null;
    this.#pending.endAll((serverId) => new McpCancelledError(serverId, 'the guest ended'));
  }

  /** Whether the call may need an approval. Called twice per call, so it does almost nothing. */
  concerns(record: McpServerRecord, { tool }: GatedCall): boolean {
    return this.#rulesDeny || approvalMode(record, tool) !== 'never';
  }

  /**
   * Waits until the call may be made. Returns the grant to redeem at dispatch, null if the call needs none.
   * @throws ApprovalRefused, or the McpError that ended the call meanwhile
   */
  async obtain(
    record: McpServerRecord,
    call: GatedCall,
    given: JsonObject,
    signal: AbortSignal,
  ): Promise<number | null> {
    const mode = approvalMode(record, call.tool);
    if (mode === 'never') return null;
    // Before anything is started for a call that cannot be made.
    if (!this.#hasDecider && (mode === 'always' || isEmpty(this.#rules))) throw noDecider(call, mode);
    const described = await this.#scope.pool.describeCall(record, {
      kind: call.kind,
      tool: call.tool,
      args: given,
      signal,
    });
    const { tool: definition, args } = described;
    const question = this.#question(record, call, args, definition);
    const verdict = this.#judge(call, args, definition);
    const need = approvalNeed(mode, verdict);
    if (need === 'denied') throw this.#deniedByRule(question, verdict);
    if (need === 'none') {
      this.#decided(question, { status: 'allowed', decision: 'rule', decided_by: ruleName(verdict) });
      return null;
    }
    if (this.#grants.coversSession(question.binding)) return null;
    if (!this.#hasDecider) throw noDecider(call, mode);
    if (this.#pending.isFull) {
      const message = `${call.tool}: too many calls are waiting for an approval`;
      throw new ApprovalRefused(call.serverId, 'approval_queue_full', message);
    }
    return this.#settle(await this.#put(question, causeOf(mode, verdict), 'call', signal), question);
  }

  /**
   * Requests an approval to repeat a call whose outcome is unknown: false, or the grant to redeem at dispatch.
   */
  async mayRepeat(
    record: McpServerRecord,
    call: GatedCall,
    given: JsonObject,
    signal: AbortSignal,
  ): Promise<number | null | false> {
    if (!this.#hasDecider || this.#pending.isFull) return false;
    const described = await this.#scope.pool.describeCall(record, { tool: call.tool, args: given, signal });
    const question = this.#question(record, call, described.args, described.tool);
    const earlier = this.#scope.journal?.earlier(question.binding.ordinal) ?? null;
    // Names the attempt that sent the call: a run that is interrupted here finds its request again.
    const purpose = `repeat ${earlier?.kind === 'unknown' ? earlier.attempt : 1}`;
    const outcome = await this.#put(question, unknownOutcome, purpose, signal);
    const allowed = outcome.kind === 'answered' && outcome.answer.decision !== 'deny';
    return allowed && this.#settle(outcome, question);
  }

  /** Whether a registry holds the grant: then {@link claim} has to succeed before the call is sent. */
  mustClaim(grant: number | null): boolean {
    return grant !== null && this.#grants.handleOf(grant) !== null;
  }

  /**
   * Redeems a grant in the registry that holds it, for this call as it would be sent.
   * @throws ApprovalRefused, `approval_outdated` if the call needs a new approval
   */
  async claim(
    record: McpServerRecord,
    call: GatedCall,
    args: JsonObject,
    definition: ToolDefinition,
    grant: number | null,
  ): Promise<void> {
    const handle = grant === null ? null : this.#grants.handleOf(grant);
    if (handle !== null) await this.#redeemRemote(handle, this.#question(record, call, args, definition));
  }

  async #redeemRemote(handle: GrantHandle, question: Question): Promise<void> {
    const refusal = await handle.redeem(boundCall(question, this.#task, handle.purpose), question.args);
    if (refusal === null) return;
    const { serverId, tool } = question.call;
    const denial = refusal.outdated ? 'approval_outdated' : 'approval_denied';
    throw new ApprovalRefused(serverId, denial, `${tool}: ${refusal.message}`);
  }

  get #hasDecider(): boolean {
    return this.#decide !== null || this.#client !== null;
  }

  /**
   * Checks the grant at dispatch: the call must be the approved one. Uses up a grant for one call.
   * @throws ApprovalRefused, `approval_outdated` if the call needs a new approval
   */
  redeem(
    record: McpServerRecord,
    call: GatedCall,
    args: JsonObject,
    definition: ToolDefinition,
    grant: number | null,
  ): void {
    const mode = approvalMode(record, call.tool);
    const verdict = this.#judge(call, args, definition);
    const need = approvalNeed(mode, verdict);
    if (need === 'none') return;
    const question = this.#question(record, call, args, definition);
    if (need === 'denied') throw this.#deniedByRule(question, verdict);
    if (grant !== null && this.#grants.redeem(grant, question.binding) === null) return;
    if (this.#grants.coversSession(question.binding)) return;
    const message = `${call.tool}: the approval does not match the call as it would be made now`;
    throw new ApprovalRefused(call.serverId, 'approval_outdated', message);
  }

  /** Gives up the grant of a call that was not sent. */
  drop(grant: number | null): void {
    if (grant !== null) this.#grants.drop(grant);
  }

  async #put(question: Question, cause: ApprovalCause, purpose: string, signal: AbortSignal): Promise<ApprovalOutcome> {
    const client = this.#client;
    const { call, args, definition, binding } = question;
    const { kind = 'tool', session, callId, serverId: server, tool } = call;
    const started = performance.now();
    const shown = shownArguments(this.#scope.audit, args);
    this.#audit({ event: 'approval.asked', ...this.#about(question), reason: cause.text, args: shown });
    const before = this.#grants.lastAllowed(binding);
    const request = {
      task: this.#task,
      run: this.#scope.run,
      session,
      callId,
      ordinal: binding.ordinal,
      server,
      kind,
      tool,
      arguments: structuredClone(args),
      cause,
      definition,
      changes: before === null ? [] : definitionChanges(before, definition),
    };
    const decide: ApprovalDecider | null =
      client === null
        ? this.#decide
        : (asked) =>
            client.ask({
              ...asked,
              bound: boundCall(question, this.#task, purpose),
              isResumable: () => this.#scope.journal?.isInterrupted ?? false,
            });
    if (decide === null) throw noDecider(call, 'always');
    // Deadlines of the session are paused while an approver decides.
    const resumeClocks = this.#scope.stopClocks?.(session);
    const timeoutMs = client === null ? this.#timeoutMs : null;
    const outcome = await this.#pending.ask(decide, request, binding, { timeoutMs, signal });
    resumeClocks?.();
    // A run that resumes later finds its request again: it has no outcome yet.
    if (outcome.kind === 'withdrawn' && this.#scope.journal?.isInterrupted) return outcome;
    this.#decided(question, { ...auditedOutcome(outcome, this.#decidedBy), duration_ms: performance.now() - started });
    return outcome;
  }

  async #settle(outcome: ApprovalOutcome, question: Question): Promise<number | null> {
    const { binding, definition } = question;
    const { serverId, tool } = question.call;
    switch (outcome.kind) {
      case 'covered':
        return null;
      case 'withdrawn':
        throw outcome.error;
      case 'timeout': {
        const message = `${tool}: no approval within ${this.#timeoutMs} ms (approval_timeout_ms)`;
        throw new ApprovalRefused(serverId, 'approval_timeout', message);
      }
      case 'answered': {
        const { answer } = outcome;
        const { decision, reason = '' } = answer;
        const handle = answer instanceof RegistryAnswer ? answer.grant : null;
        if (decision === 'allow_once') return this.#grants.grantOnce(binding, definition, handle?.leftMs, handle);
        if (decision === 'deny') {
          const why = reason === '' ? '' : `: ${cutReason(reason)}`;
          const denial =
            answer instanceof RegistryAnswer && answer.decidedBy === null ? 'approval_timeout' : 'approval_denied';
          throw new ApprovalRefused(serverId, denial, `${tool} was not approved${why}`);
        }
        // The session grant expired while the run was parked: it is valid for the approved call only.
        if (handle !== null && handle.ageMs >= SESSION_GRANT_MS) {
          return this.#grants.grantOnce(binding, definition, handle.leftMs, handle);
        }
        // A session grant covers more than this call, so it is redeemed now.
        if (handle !== null) await this.#redeemRemote(handle, question);
        this.#grants.grantSession(binding, definition, SESSION_GRANT_MS - (handle?.ageMs ?? 0));
        this.#pending.endCovered((other) => this.#grants.coversSession(other));
        return null;
      }
    }
  }

  #question(record: McpServerRecord, call: GatedCall, args: JsonObject, definition: ToolDefinition): Question {
    const { registry, task } = this.#scope;
    const binding: GrantBinding = {
      task: JSON.stringify(this.#task),
      run: this.#scope.run,
      ordinal: call.ordinal ?? call.callId,
      session: call.session,
      server: call.serverId,
      tool: boundName(call),
      arguments: argumentsHash(call, args),
      definition: hashDefinition(definition),
      policy: policyRevision(record, task, call.sessionPolicy, profileOf(registry.view(), task), this.#rules),
    };
    return { call, args, definition, binding };
  }

  #judge({ serverId: server, tool }: GatedCall, args: JsonObject, { annotations }: ToolDefinition): RuleVerdict {
    return judge(this.#rules, { server, tool, arguments: args, annotations });
  }

  #deniedByRule(question: Question, verdict: RuleVerdict): ApprovalRefused {
    const { serverId, tool } = question.call;
    const name = ruleName(verdict);
    this.#decided(question, { status: 'denied', decision: 'rule', decided_by: name });
    return new ApprovalRefused(serverId, 'denied_by_rule', `${tool} is denied by ${name}`);
  }

  #decided(question: Question, { reason, duration_ms: durationMs = 0, ...how }: Decided): void {
    this.#audit({
      event: 'approval.decided',
      ...this.#about(question),
      ...how,
      reason: reason === undefined ? null : cutReason(reason),
      duration_ms: Math.round(durationMs),
    });
  }

  #audit(event: AuditEvent): void {
    this.#scope.journal?.approval(event as unknown as JsonObject);
    this.#scope.audit.write(this.#scope.run, event);
  }

  #about({ call, binding }: Question) {
    return {
      ...(call.kind === undefined || call.kind === 'tool' ? {} : { kind: call.kind }),
      session_id: call.session,
      request_id: call.callId,
      server_id: call.serverId,
      tool_name: call.tool,
      revision: this.#scope.registry.snapshot()?.revision ?? null,
      args_sha256: binding.arguments,
      tool_sha256: binding.definition,
    };
  }
}

const unknownOutcome: ApprovalCause = {
  code: 'unknown_outcome',
  text: 'the run was interrupted during this call, and its outcome is unknown: allowing it makes the call again',
};

/** A call with its arguments and definition at one moment, and what a grant for it is bound to. */
interface Question {
  readonly call: GatedCall;
  readonly args: JsonObject;
  readonly definition: ToolDefinition;
  readonly binding: GrantBinding;
}

/** The call as a registry stores it; the approval client hashes the arguments with the salt of the request. */
function boundCall({ call, binding }: Question, task: string | null, purpose: string): BoundCall {
  const { run, ordinal, session, definition: definition_sha256, policy } = binding;
  const { kind = 'tool', serverId: server_id, tool: tool_name } = call;
  return { run, ordinal, task, session, server_id, kind, tool_name, definition_sha256, policy, purpose };
}

/** A grant for a tool does not cover a prompt of the same name. */
function boundName({ kind = 'tool', tool }: GatedCall): string {
  return kind === 'tool' ? tool : `${kind}\0${tool}`;
}

function noDecider({ serverId, tool }: GatedCall, mode: ApprovalMode): ApprovalRefused {
  const message = `${tool} needs an approval (approval_policy: ${mode}), and no approver is available`;
  return new ApprovalRefused(serverId, 'approval_required', message);
}

function argumentsHash({ serverId, tool }: GatedCall, args: JsonObject): string {
  try {
    return hashArguments(args);
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    throw new McpArgumentsError(serverId, tool, `tool "${tool}": its arguments are nested too deeply`);
  }
}

const MAX_REASON_CHARS = 500;

type DecidedEvent = Extract<AuditEvent, { event: 'approval.decided' }>;
export type Decided = Pick<DecidedEvent, 'status' | 'decision' | 'decided_by'> & {
  readonly reason?: string | undefined;
  readonly duration_ms?: number;
};

/** Outcome of a request as the audit log has it. */
export function auditedOutcome(outcome: ApprovalOutcome, decidedBy: string): Decided {
  switch (outcome.kind) {
    case 'answered': {
      const { answer } = outcome;
      const { decision } = answer;
      const by = answer instanceof RegistryAnswer ? clientName(answer) : decidedBy;
      const reason = answer.reason === '' ? undefined : answer.reason;
      return { status: decision === 'deny' ? 'denied' : 'allowed', decision, decided_by: by, reason };
    }
    case 'covered':
      return { status: 'allowed', decision: 'allow_session', decided_by: decidedBy, reason: 'by another decision' };
    case 'timeout':
      return { status: 'denied', decision: 'timeout', decided_by: NO_DECIDER };
    case 'withdrawn':
      return { status: 'denied', decision: 'cancelled', decided_by: NO_DECIDER, reason: outcome.error.message };
  }
}

const clientName = ({ decidedBy }: RegistryAnswer) => (decidedBy === null ? NO_DECIDER : `sms: ${decidedBy}`);

/** Why the call needs an approval. */
export function causeOf(mode: ApprovalMode, verdict: RuleVerdict): ApprovalCause {
  if (mode === 'always') return { code: 'always', text: 'every call needs an approval (approval_policy: always)' };
  if (verdict.layer === null) return { code: 'no_rule', text: 'no rule matches the call (approval_policy: policy)' };
  return { code: 'rule', text: `${ruleName(verdict)} requires an approval` };
}

export const ruleName = ({ layer, rule }: RuleVerdict) => `${JSON.stringify(rule)} of the ${layer}'s approval rules`;

/** Bounds a reason, which the decider wrote, for the model and the audit log. */
export const cutReason = (text: string) => cutText(text, MAX_REASON_CHARS);
