import { type ApprovalRule, approvalNote } from '../agent/policy/approval-rules.ts';
import type { RegistryView } from '../agent/policy/decision.ts';
import { wordsFor } from '../agent/policy/layer-words.ts';
import { parseTaskPolicy } from '../agent/policy/task-policy.ts';
import {
  aboutCall,
  aboutServer,
  explain,
  firstDenial,
  type LayerAnswer,
  type PolicyQuestion,
} from '../agent/policy/walk.ts';
import type { JsonObject } from '../base/json.ts';
import { TimeSlice } from '../base/timing.ts';
import { checkTaskDocument } from '../config/task-document.ts';
import type { ToolReport } from '../registry-client/node-report.ts';
import { initialSession, type SessionPolicy, type TaskPolicy } from '../runtime/port/policy-layers.ts';
import type { McpServerRecord } from '../server/records/server.ts';
import type { AccessJson, AccessServerJson, AccessTaskJson, DecisionJson, LayerAnswerJson } from './console-api.ts';

/** A task as it was pasted in: the file of `--task-config`. */
export interface TaskQuestion {
  readonly name: string;
  readonly config: JsonObject;
}

type ReadTask =
  | {
      readonly name: string;
      readonly policy: TaskPolicy;
      readonly session: SessionPolicy;
      readonly rules: readonly ApprovalRule[];
      readonly warnings: readonly string[];
    }
  | { readonly name: string; readonly problems: readonly string[] };

export type KnownTools = (serverId: string) => readonly ToolReport[] | null;

/** Which servers, and how many of their tools, a session of each task would have: the walk of `spear explain`. */
export async function accessMatrix(
  view: RegistryView,
  revision: number,
  tasks: readonly TaskQuestion[],
  toolsOf: KnownTools,
  signal: AbortSignal,
): Promise<AccessJson> {
  const records = [...view.servers.values()];
  const slice = new TimeSlice();
  const rows: AccessTaskJson[] = [];
  for (const task of tasks.map(readTask)) {
    const cells: AccessTaskJson['cells'][number][] = [];
    if (!('problems' in task)) {
      for (const { server_id: id } of records) {
        if (slice.isOver) await slice.yield();
        // Whoever asked has gone.
        if (signal.aborted) return { revision, servers: [], tasks: [] };
        cells.push(serverCell(view, task, id, toolsOf(id)));
      }
    }
    const [problems, warnings] = 'problems' in task ? [task.problems, []] : [[], task.warnings];
    rows.push({ name: task.name, problems, warnings, cells });
  }
  const servers = records.map(({ server_id: id }) => ({ server_id: id, tools: toolsOf(id)?.length ?? null }));
  return { revision, servers, tasks: rows };
}

/** The same for the tools of one server, each with the whole walk. */
export function accessOfServer(
  view: RegistryView,
  record: McpServerRecord,
  tasks: readonly TaskQuestion[],
  tools: readonly ToolReport[] | null,
): AccessServerJson {
  const { server_id: id } = record;
  return {
    server_id: id,
    tools: tools?.map(({ name, definitionSha256 }) => ({ name, definition_sha256: definitionSha256 })) ?? null,
    tasks: tasks.map(readTask).flatMap((task) => {
      if ('problems' in task) return [];
      const question = aboutServer(view, task.policy, task.session, id);
      const cells = (tools ?? []).map(({ name }) => {
        const call = aboutCall(view, task.policy, task.session, id, name);
        const answers = explain(call);
        return {
          ...decisionOf(answers, call),
          walk: answers.map((answer) => answerJson(answer, call)),
          approval: approvalNote(record, name, { node: [], task: task.rules }),
        };
      });
      return [{ name: task.name, walk: explain(question).map((answer) => answerJson(answer, question)), cells }];
    }),
  };
}

function serverCell(
  view: RegistryView,
  { policy, session }: Extract<ReadTask, { policy: TaskPolicy }>,
  id: string,
  tools: readonly ToolReport[] | null,
) {
  const question = aboutServer(view, policy, session, id);
  const decision = decisionOf(explain(question), question);
  const mayCall = ({ name }: ToolReport) => firstDenial(explain(aboutCall(view, policy, session, id, name))) === null;
  return { ...decision, tools_allowed: decision.allowed ? (tools ?? []).filter(mayCall).length : 0 };
}

function decisionOf(answers: readonly LayerAnswer[], question: PolicyQuestion): DecisionJson {
  const decides = firstDenial(answers) ?? answers.findLast(({ verdict }) => verdict === 'allows') ?? null;
  if (decides === null) return { allowed: true, by: null, text: 'no rule denies it' };
  const { layer, rule, matched, verdict } = decides;
  return { allowed: verdict !== 'denies', by: { layer, rule, matched }, text: wordsFor(decides, question).text };
}

function answerJson(answer: LayerAnswer, question: PolicyQuestion): LayerAnswerJson {
  const { layer, rule, verdict, matched } = answer;
  return { layer, rule, verdict, matched, ...wordsFor(answer, question) };
}

function readTask({ name, config: given }: TaskQuestion): ReadTask {
  const checked = checkTaskDocument(name, given);
  if ('complaint' in checked) return { name, problems: [checked.complaint] };
  const parsed = parseTaskPolicy((checked.document.config ?? {}) as JsonObject);
  const text = ({ key, message }: { key: string; message: string }) => `config.${key}: ${message}`;
  if (!parsed.ok) return { name, problems: parsed.issues.map(text) };
  const { policy, approvalRules: rules, warnings } = parsed;
  return { name, policy, session: initialSession(policy), rules, warnings: warnings.map(text) };
}
