import { approvalMode } from '../../agent/policy/approval-mode.ts';
import { approvalNeed } from '../../agent/policy/approval-need.ts';
import { judge, type RuleVerdict } from '../../agent/policy/approval-rules.ts';
import { type Decision, quoted } from '../../agent/policy/decision.ts';
import { aboutCall, decide, denialOf } from '../../agent/policy/walk.ts';
import { cutText } from '../../base/cut-text.ts';
import { isJsonObject, type JsonObject, parseJson } from '../../base/json.ts';
import type {
  RefusedTool,
  ShownTool,
  TimedRecord,
  ToolFinished,
  ToolStarted,
  ToolsRecord,
} from '../../runtime/durable/journal.ts';
import type { ReadJournal } from '../../runtime/durable/read-journal.ts';
import { applyMcpParam } from '../../runtime/port/mcp-params.ts';
import { initialSession, type SessionPolicy } from '../../runtime/port/policy-layers.ts';
import type { McpServerRecord } from '../../server/records/record.ts';
import type { PolicyOfRun } from './changed-policy.ts';
import { type DifferenceKind, differs, type Finding, type RunDifference, same } from './judgement.ts';

const SHOWN_ARGUMENTS_CHARS = 200;

/** How sessions of chats are called; a guest that calls a tool itself has none. */
const CHAT = 'chat-';

/** Whether each call of a recorded run would be let through as it was. `strict`: and each tool be shown that was. */
export function judgeByPolicy({ records, header }: ReadJournal, policy: PolicyOfRun, strict: boolean): Finding {
  const run = new PolicyWalk(policy);
  const unfinished = !records.some(({ t }) => t === 'end');
  for (const record of records) {
    const difference = run.take(record);
    if (difference !== null) return { ...differs(difference), unfinished };
  }
  const noLongerShown = header.policy.enabled ? run.noLongerShown() : [];
  const [first] = noLongerShown;
  if (!strict || first === undefined) return { ...same(unfinished), noLongerShown };
  const where = 'tools shown to the model';
  const gone = {
    by: 'policy',
    kind: 'denied',
    where,
    recorded: `${first} was shown`,
    now: 'it is no longer shown',
  } as const;
  return { ...differs(gone), unfinished, noLongerShown };
}

/** What is said of one call now. */
type Said =
  | { readonly kind: 'free' }
  | { readonly kind: 'ask'; readonly why: string }
  | { readonly kind: 'denied'; readonly why: string };

class PolicyWalk {
  readonly #policy: PolicyOfRun;
  /** What each session chose, as policy has it now. */
  readonly #sessions = new Map<string, SessionPolicy>();
  readonly #unchanged: SessionPolicy;
  readonly #sets = new Map<number, readonly ShownTool[]>();
  readonly #annotations = new Map<string, JsonObject>();
  readonly #asked = new Set<string>();
  readonly #called = new Set<string>();
  readonly #hidden = new Set<string>();

  constructor(policy: PolicyOfRun) {
    this.#policy = policy;
    this.#unchanged = initialSession(policy.task);
  }

  take(record: TimedRecord): RunDifference | null {
    switch (record.t) {
      case 'tools':
        this.#shown(record);
        return null;
      case 'approval':
        if (record.event.event === 'approval.asked') this.#asked.add(askedKey(record.event));
        return null;
      case 'tool.started':
        return this.#started(record);
      case 'tool.finished':
        return record.refused === undefined ? null : this.#refused(record, record.refused);
      default:
        return null;
    }
  }

  /** Of those that were never called: a call of one is a difference of its own. */
  noLongerShown(): string[] {
    return [...this.#hidden].filter((tool) => !this.#called.has(tool)).sort();
  }

  #shown({ session, params, set, shown }: ToolsRecord): void {
    const { task } = this.#policy;
    let chosen = this.#unchanged;
    for (const [key, value] of params) {
      const applied = applyMcpParam(chosen, task, key, value);
      if (applied.ok) chosen = applied.policy;
    }
    this.#sessions.set(session, chosen);
    if (shown !== undefined) this.#sets.set(set, shown);
    for (const { server, tool, annotations } of this.#sets.get(set) ?? []) {
      const name = `${server}/${tool}`;
      if (annotations !== undefined) this.#annotations.set(name, annotations);
      if (!this.#decide({ session, server, tool }).allowed) this.#hidden.add(name);
    }
  }

  #started(call: ToolStarted): RunDifference | null {
    this.#called.add(`${call.server}/${call.tool}`);
    const said = this.#ask(call);
    if (said.kind === 'free') return null;
    // Somebody was asked then, and would be asked now.
    if (said.kind === 'ask' && this.#asked.has(callKey(call))) return null;
    const kind = said.kind === 'ask' ? 'approval' : 'denied';
    return difference(kind, call.ordinal, call, 'the call was made', said.why);
  }

  /** A call that policy let nobody make, and would now. */
  #refused({ ordinal, code }: ToolFinished, call: RefusedTool): RunDifference | null {
    if (code !== 'mcp_policy_denied') return null;
    const said = this.#ask(call);
    if (said.kind === 'denied') return null;
    if (said.kind === 'ask') return null; // nobody would be sure of what a person says
    return difference('allowed', ordinal, call, 'the call was denied', 'it is allowed');
  }

  #ask(call: Pick<ToolStarted, 'session' | 'kind' | 'server' | 'tool' | 'args'>): Said {
    const decision = this.#decide(call);
    if (!decision.allowed) return { kind: 'denied', why: `denied by the ${decision.layer}: ${decision.detail}` };
    const given = parseJson(call.args);
    const { server, tool } = call;
    const annotations = this.#annotations.get(`${server}/${tool}`) ?? null;
    const verdict = judge(this.#policy.rules, {
      server,
      tool,
      arguments: isJsonObject(given) ? given : {},
      annotations,
    });
    // Without records nobody knows whether an approval is needed, but a rule that denies holds for every call.
    const mode = this.#policy.view === null ? 'never' : approvalMode(decision.record, tool);
    const need = approvalNeed(mode, verdict);
    if (need === 'none') return { kind: 'free' };
    if (need === 'denied') return { kind: 'denied', why: `denied by ${ruleText(verdict)}` };
    const why = verdict.layer === null ? `approval_policy: ${mode}` : ruleText(verdict);
    return { kind: 'ask', why: `it needs an approval (${why})` };
  }

  #decide({
    session,
    server,
    tool,
    kind = 'tool',
  }: Pick<ToolStarted, 'session' | 'kind' | 'server' | 'tool'>): Decision {
    const { view, task } = this.#policy;
    const chosen = session.startsWith(CHAT) ? (this.#sessions.get(session) ?? this.#unchanged) : null;
    const question = aboutCall(view, task, chosen, server, tool, null, kind);
    if (view !== null) return decide(question);
    const known = { ...question, checks: question.checks.filter(({ layer }) => layer !== 'node') };
    return denialOf(known) ?? { allowed: true, record: unknownRecord };
  }
}

/** Stands where no records were given; nobody looks at it. */
const unknownRecord = Object.freeze({}) as McpServerRecord;

const ruleText = ({ layer, rule }: RuleVerdict) => `the rule ${quoted(rule ?? '')} of the ${layer}'s approval rules`;

const callKey = ({ session, server, tool }: Pick<ToolStarted, 'session' | 'server' | 'tool'>) =>
  JSON.stringify([session, server, tool]);

const askedKey = ({ session_id, server_id, tool_name }: JsonObject) =>
  JSON.stringify([session_id, server_id, tool_name]);

function difference(
  kind: DifferenceKind,
  ordinal: string,
  { server, tool, args }: Pick<ToolStarted, 'server' | 'tool' | 'args'>,
  recorded: string,
  now: string,
): RunDifference {
  const where = `call ${ordinal}, ${tool} of ${server} with ${cutText(args, SHOWN_ARGUMENTS_CHARS)}`;
  return { by: 'policy', kind, where, recorded, now };
}
