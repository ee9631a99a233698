import type { AuditEvent } from '../../audit/event.ts';
import type { JsonObject } from '../../base/json.ts';
import { approvalMode } from '../../policy/approval-mode.ts';
import { type ApprovalRules, canDeny, isEmpty, judge, noRules, type RuleVerdict } from '../../policy/approval-rules.ts';
import { McpArgumentsError, McpCancelledError } from '../../pool/errors.ts';
import { limitSpecs } from '../../protocol/limits.ts';
import type { SessionPolicy } from '../../protocol/policy-layers.ts';
import type { ApprovalMode, McpServerRecord } from '../../protocol/record.ts';
import { type GuestScope, revisionOf, shownArguments } from '../guest-scope.ts';
import { type GrantBinding, hashArguments, hashDefinition, policyRevision } from './binding.ts';
import type { ApprovalCause, ApprovalDecider, ToolDefinition } from './decider.ts';
import { definitionChanges } from './definition-difference.ts';
import { ApprovalGrants } from './grants.ts';
import { type ApprovalOutcome, PendingApprovals } from './pending.ts';
import { ApprovalRefused } from './refusal.ts';
import { causeOf, cutReason, type Decided, inTheTrail, ruleName } from './sentences.ts';

/** How approvals work for one guest. */
export interface ApprovalOptions {
  /** Name of the task, for whoever decides. @default null */
  readonly task?: string | null;
  /** @default nobody: what needs an approval is denied at once */
  readonly decide?: ApprovalDecider | null;
  /** Who that is, for the audit trail. @default 'program' */
  readonly decidedBy?: string;
  /** What records with `policy` are decided by. @default none: each call is asked about */
  readonly rules?: ApprovalRules;
  /** How long an answer is waited for. @default limitSpecs.approval_timeout_ms */
  readonly timeoutMs?: number;
}

/** What the gate has to know of a call, besides its arguments. */
export interface GatedCall {
  readonly serverId: string;
  readonly tool: string;
  readonly callId: string;
  readonly session: string;
  /** What the session chose of the task's tools; null for a guest that calls MCP itself. */
  readonly sessionPolicy: SessionPolicy | null;
}

/** The guest, as far as the gate looks at it. */
export type GateScope = Pick<GuestScope, 'run' | 'task' | 'audit'> & {
  readonly registry: Pick<GuestScope['registry'], 'snapshot'>;
  readonly pool: Pick<GuestScope['pool'], 'describeTool'>;
};

/**
 * Where calls wait for an approval. {@link obtain} asks before a call takes a place anywhere, {@link redeem} looks again
 * at the moment it is sent: what was allowed must still be the same.
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
  readonly #decidedBy: string;
  readonly #timeoutMs: number;

  constructor(options: ApprovalOptions, scope: GateScope) {
    this.#scope = scope;
    this.#task = options.task ?? null;
    this.#rules = options.rules ?? noRules;
    this.#rulesDeny = canDeny(this.#rules);
    this.#decide = options.decide ?? null;
    this.#decidedBy = options.decidedBy ?? 'program';
    this.#timeoutMs = options.timeoutMs ?? limitSpecs.approval_timeout_ms.default;
  }

  /** Nobody is asked any more. */
  close(): void {
    this.#decide = null;
    this.#pending.endAll((serverId) => new McpCancelledError(serverId, 'the guest ended'));
  }

  /** Whether the gate has anything to say about it. Asked twice for every call, so it does next to nothing. */
  concerns(record: McpServerRecord, { tool }: GatedCall): boolean {
    return this.#rulesDeny || approvalMode(record, tool) !== 'never';
  }

  /**
   * Waits until the call may be made. Returns the grant that it has to bring then, null if it needs none.
   * @throws ApprovalRefused, or the McpError that ended the call meanwhile
   */
  async obtain(
    record: McpServerRecord,
    call: GatedCall,
    args: JsonObject,
    signal: AbortSignal,
  ): Promise<number | null> {
    const mode = approvalMode(record, call.tool);
    if (mode === 'never') return null;
    // Before anything is started for a call that cannot be made.
    if (this.#decide === null && (mode === 'always' || isEmpty(this.#rules))) throw nobodyThere(call, mode);
    const definition = await this.#scope.pool.describeTool(record, { tool: call.tool, args, signal });
    const question = this.#question(record, call, args, definition);
    const verdict = this.#judge(call, args, definition);
    if (verdict.verdict === 'deny') throw this.#deniedByRule(question, verdict);
    if (mode === 'policy' && verdict.verdict === 'allow') {
      this.#decided(question, { status: 'allowed', decision: 'rule', decided_by: ruleName(verdict) });
      return null;
    }
    if (this.#grants.coversSession(question.binding)) return null;
    if (this.#decide === null) throw nobodyThere(call, mode);
    if (this.#pending.isFull) {
      const message = `${call.tool}: too many calls wait for an approval`;
      throw new ApprovalRefused(call.serverId, 'approval_queue_full', message);
    }
    return this.#ask(this.#decide, question, causeOf(mode, verdict), signal);
  }

  /**
   * At the moment the call is sent: what was allowed must be what is done. Uses up a grant for one call.
   * @throws ApprovalRefused, `approval_outdated` where it has to be asked about again
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
    const isFree = mode === 'never' ? verdict.verdict !== 'deny' : mode === 'policy' && verdict.verdict === 'allow';
    if (isFree) return;
    const question = this.#question(record, call, args, definition);
    if (verdict.verdict === 'deny') throw this.#deniedByRule(question, verdict);
    if (grant !== null && this.#grants.redeem(grant, question.binding) === null) return;
    if (this.#grants.coversSession(question.binding)) return;
    const message = `${call.tool}: what was approved is not what would be done now`;
    throw new ApprovalRefused(call.serverId, 'approval_outdated', message);
  }

  /** The call ended without its grant. */
  drop(grant: number | null): void {
    if (grant !== null) this.#grants.drop(grant);
  }

  async #ask(
    decide: ApprovalDecider,
    question: Question,
    cause: ApprovalCause,
    signal: AbortSignal,
  ): Promise<number | null> {
    const { call, args, definition, binding } = question;
    const { session, callId, serverId: server, tool } = call;
    const started = performance.now();
    const shown = shownArguments(this.#scope, args);
    this.#audit({ event: 'approval.asked', ...this.#about(question), reason: cause.text, args: shown });
    const before = this.#grants.lastAllowed(binding);
    const request = {
      task: this.#task,
      run: this.#scope.run,
      session,
      callId,
      server,
      tool,
      arguments: structuredClone(args),
      cause,
      definition,
      changes: before === null ? [] : definitionChanges(before, definition),
    };
    const outcome = await this.#pending.ask(decide, request, binding, { timeoutMs: this.#timeoutMs, signal });
    this.#decided(question, { ...inTheTrail(outcome, this.#decidedBy), duration_ms: performance.now() - started });
    return this.#settle(outcome, question);
  }

  #settle(outcome: ApprovalOutcome, { call: { serverId, tool }, binding, definition }: Question): number | null {
    switch (outcome.kind) {
      case 'covered':
        return null;
      case 'withdrawn':
        throw outcome.error;
      case 'timeout': {
        const message = `${tool}: nobody approved it within ${this.#timeoutMs} ms (approval_timeout_ms)`;
        throw new ApprovalRefused(serverId, 'approval_timeout', message);
      }
      case 'answered': {
        const { decision, reason } = outcome.answer;
        if (decision === 'allow_once') return this.#grants.grantOnce(binding, definition);
        if (decision === 'deny') {
          const why = reason === undefined ? '' : `: ${cutReason(reason)}`;
          throw new ApprovalRefused(serverId, 'approval_denied', `${tool} was not approved${why}`);
        }
        this.#grants.grantSession(binding, definition);
        this.#pending.endCovered((other) => this.#grants.coversSession(other));
        return null;
      }
    }
  }

  #question(record: McpServerRecord, call: GatedCall, args: JsonObject, definition: ToolDefinition): Question {
    const binding: GrantBinding = {
      task: JSON.stringify([this.#scope.run, this.#task]),
      session: call.session,
      server: call.serverId,
      tool: call.tool,
      arguments: argumentsHash(call, args),
      definition: hashDefinition(definition),
      policy: policyRevision(record, this.#scope.task, call.sessionPolicy, this.#rules),
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
    this.#scope.audit.write(this.#scope.run, event);
  }

  #about({ call, binding }: Question) {
    return {
      session_id: call.session,
      request_id: call.callId,
      server_id: call.serverId,
      tool_name: call.tool,
      revision: revisionOf(this.#scope),
      args_sha256: binding.arguments,
      tool_sha256: binding.definition,
    };
  }
}

/** A call together with what it would do, as both stand at one moment. */
interface Question {
  readonly call: GatedCall;
  readonly args: JsonObject;
  readonly definition: ToolDefinition;
  readonly binding: GrantBinding;
}

function nobodyThere({ serverId, tool }: GatedCall, mode: ApprovalMode): ApprovalRefused {
  const message = `${tool} needs an approval (approval_policy: ${mode}), and there is nobody here to give it`;
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
