import { statSync } from 'node:fs';
import {
  type ApprovalRule,
  type ApprovalRules,
  approvalMode,
  approvalNeed,
  judge,
  noRules,
  type RuleVerdict,
} from '../../agent/policy/approval-rules.ts';
import { parseApprovalRules } from '../../agent/policy/approval-rules-parse.ts';
import { type Decision, quoted, type RegistryView } from '../../agent/policy/decision.ts';
import { parseTaskPolicy } from '../../agent/policy/task-policy.ts';
import { aboutCall, decide, denialOf } from '../../agent/policy/walk.ts';
import { errorCode } from '../../base/errors.ts';
import { isJsonObject, type JsonObject, parseJson } from '../../base/json.ts';
import { cutText } from '../../base/text.ts';
import { ConfigError } from '../../config/config-error.ts';
import { loadTaskConfig } from '../../config/task-config.ts';
import { openRunRegistry } from '../../run/open-registry.ts';
import { libraryWords } from '../../run/run-options.ts';
import type {
  JournalHeader,
  RefusedTool,
  ShownTool,
  TimedRecord,
  ToolEndRecord,
  ToolStartRecord,
  ToolsRecord,
} from '../../runtime/durable/journal.ts';
import type { ReadJournal } from '../../runtime/durable/read-journal.ts';
import { applyMcpParam } from '../../runtime/port/mcp-params.ts';
import { initialSession, type SessionPolicy, type TaskPolicy } from '../../runtime/port/policy-layers.ts';
import type { McpServerRecord } from '../../server/records/server.ts';
import { type DifferenceKind, differs, type Finding, type RunDifference, same } from './outcome.ts';

const SHOWN_ARGUMENTS_CHARS = 200;

/** Prefix of chat session ids; a tool call of the guest itself has no chat session. */
const CHAT = 'chat-';

/** Compares each call's recorded decision with the changed policy. `strict`: also the tools offered to the model. */
export function testUnderPolicy({ records, header }: ReadJournal, policy: PolicyOfRun, strict: boolean): Finding {
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

/** Decision of the changed policy about one call. */
type Said =
  | { readonly kind: 'free' }
  | { readonly kind: 'ask'; readonly why: string }
  | { readonly kind: 'denied'; readonly why: string };

class PolicyWalk {
  readonly #policy: PolicyOfRun;
  /** Session policies, applied to the changed task policy. */
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

  /** Hidden tools that were never called; a call of a hidden tool is its own difference. */
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

  #started(call: ToolStartRecord): RunDifference | null {
    this.#called.add(`${call.server}/${call.tool}`);
    const said = this.#ask(call);
    if (said.kind === 'free') return null;
    // An approval was requested for the recorded call too.
    if (said.kind === 'ask' && this.#asked.has(callKey(call))) return null;
    const kind = said.kind === 'ask' ? 'approval' : 'denied';
    return difference(kind, call.ordinal, call, 'the call was made', said.why);
  }

  /** Checks a call that policy denied when it was recorded. */
  #refused({ ordinal, code }: ToolEndRecord, call: RefusedTool): RunDifference | null {
    if (code !== 'mcp_policy_denied') return null;
    const said = this.#ask(call);
    if (said.kind === 'denied') return null;
    if (said.kind === 'ask') return null; // the approver's decision is unknown
    return difference('allowed', ordinal, call, 'the call was denied', 'it is allowed');
  }

  #ask(call: Pick<ToolStartRecord, 'session' | 'kind' | 'server' | 'tool' | 'args'>): Said {
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
    // Without server records the approval mode is unknown, but a rule that denies applies to every call.
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
  }: Pick<ToolStartRecord, 'session' | 'kind' | 'server' | 'tool'>): Decision {
    const { view, task } = this.#policy;
    const chosen = session.startsWith(CHAT) ? (this.#sessions.get(session) ?? this.#unchanged) : null;
    const question = aboutCall(view, task, chosen, server, tool, null, kind);
    if (view !== null) return decide(question);
    const known = { ...question, checks: question.checks.filter(({ layer }) => layer !== 'node') };
    return denialOf(known) ?? { allowed: true, record: unknownRecord };
  }
}

/** Placeholder if no server records were given; never read. */
const unknownRecord = Object.freeze({}) as McpServerRecord;

const ruleText = ({ layer, rule }: RuleVerdict) => `the rule ${quoted(rule ?? '')} of the ${layer}'s approval rules`;

const callKey = ({ session, server, tool }: Pick<ToolStartRecord, 'session' | 'server' | 'tool'>) =>
  JSON.stringify([session, server, tool]);

const askedKey = ({ session_id, server_id, tool_name }: JsonObject) =>
  JSON.stringify([session_id, server_id, tool_name]);

function difference(
  kind: DifferenceKind,
  ordinal: string,
  { server, tool, args }: Pick<ToolStartRecord, 'server' | 'tool' | 'args'>,
  recorded: string,
  now: string,
): RunDifference {
  const where = `call ${ordinal}, ${tool} of ${server} with ${cutText(args, SHOWN_ARGUMENTS_CHARS)}`;
  return { by: 'policy', kind, where, recorded, now };
}

/** The policy that one run is tested under. */
export interface PolicyOfRun {
  /** Null: no server records were given; decisions that depend on them stay as recorded. */
  readonly view: RegistryView | null;
  readonly task: TaskPolicy;
  readonly rules: ApprovalRules;
}

interface ChangedTask {
  readonly file: string;
  readonly policy: TaskPolicy;
  readonly rules: readonly ApprovalRule[];
}

/** The changed policy: a directory of servers and profiles, task configs, or both. */
export class ChangedPolicy {
  readonly #view: RegistryView | null;
  readonly #tasks: ReadonlyMap<string | null, ChangedTask>;

  private constructor(view: RegistryView | null, tasks: ReadonlyMap<string | null, ChangedTask>) {
    this.#view = view;
    this.#tasks = tasks;
  }

  /** @throws ConfigError if any part is unusable: a partial policy would give other results */
  static async open(paths: readonly string[], onNotice: (text: string) => void): Promise<ChangedPolicy> {
    let view: RegistryView | null = null;
    const tasks = new Map<string | null, ChangedTask>();
    for (const path of paths) {
      if (!isDirectory(path)) {
        const [name, task] = await readTask(path, onNotice);
        const before = tasks.get(name);
        const about = name === null ? 'tasks without a name' : `the task ${JSON.stringify(name)}`;
        if (before !== undefined)
          throw new ConfigError(`${path}: ${before.file} also configures ${about}; give only one of them`);
        tasks.set(name, task);
        continue;
      }
      if (view !== null) throw new ConfigError(`${path}: only one directory of servers and profiles can be given`);
      view = await readRecords(path, onNotice);
    }
    return new ChangedPolicy(view, tasks);
  }

  /** Policy for the run of this journal; null: none of the given files applies. A config without a name applies to every task. @throws ConfigError */
  of(header: JournalHeader): PolicyOfRun | null {
    const changed = this.#tasks.get(header.task) ?? this.#tasks.get(null);
    if (changed === undefined && this.#view === null) return null;
    const recorded = rulesOf(header);
    return {
      view: this.#view,
      task: changed?.policy ?? header.policy,
      rules: changed === undefined ? recorded : { node: recorded.node, task: changed.rules },
    };
  }
}

function isDirectory(path: string): boolean {
  try {
    return statSync(path).isDirectory();
  } catch (error) {
    throw new ConfigError(`${path}: cannot be read (${errorCode(error)})`);
  }
}

async function readTask(file: string, onNotice: (text: string) => void): Promise<[string | null, ChangedTask]> {
  const { name, config } = await loadTaskConfig(file);
  const parsed = parseTaskPolicy(config);
  const describe = ({ key, message }: { key: string; message: string }) => `${file}: config.${key}: ${message}`;
  if (!parsed.ok) throw new ConfigError(parsed.issues.map(describe).join('\n'));
  for (const warning of parsed.warnings) onNotice(describe(warning));
  return [name, { file, policy: parsed.policy, rules: parsed.approvalRules }];
}

async function readRecords(directory: string, onNotice: (text: string) => void): Promise<RegistryView | null> {
  const opener = { words: libraryWords, say: onNotice, profiles: true };
  const registry = await openRunRegistry({ directory, strict: true }, opener);
  try {
    return registry.cache.view();
  } finally {
    await registry.close();
  }
}

function rulesOf({ approval_rules: recorded }: JournalHeader): ApprovalRules {
  if (recorded === undefined) return noRules;
  const read = (layer: 'node' | 'task', rules: readonly JsonObject[]) => {
    const parsed = parseApprovalRules(rules);
    if (!parsed.ok) throw new ConfigError(`approval_rules.${layer} of the journal header cannot be read`);
    return parsed.rules;
  };
  return { node: read('node', recorded.node), task: read('task', recorded.task) };
}
