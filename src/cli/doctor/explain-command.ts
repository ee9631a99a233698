import { openPool } from '../../agent/mcp/client/open-pool.ts';
import { NameClaims, namedServers } from '../../agent/mcp/tool-names.ts';
import { approvalNote } from '../../agent/policy/approval-rules.ts';
import { quoted, type RegistryView } from '../../agent/policy/decision.ts';
import { wordsFor } from '../../agent/policy/layer-words.ts';
import { uriProblem } from '../../agent/policy/resource-uri.ts';
import {
  aboutCall,
  decideCall,
  explain,
  firstDenial,
  type LayerAnswer,
  type PolicyQuestion,
} from '../../agent/policy/walk.ts';
import type { CompiledHostConfig } from '../../config/host/host-config.ts';
import { processEnvironment } from '../../config/process-environment.ts';
import type { RunRegistry } from '../../run/open-registry.ts';
import type { CallKind, TaskPolicy } from '../../runtime/port/policy-layers.ts';
import type { McpServerRecord } from '../../server/records/server.ts';
import { spearExitCodes, UsageError } from '../exit-codes.ts';
import { hasTerminal } from '../terminal.ts';
import { diagnoseRegistry } from './diagnose-registry.ts';
import { diagnoseConnection, diagnoseReferences, ServerNotes } from './diagnose-servers.ts';
import { approvalRules, diagnoseHost, diagnoseTask } from './diagnose-task.ts';
import { type DiagnosedPolicy, shownName } from './diagnose-tools.ts';
import { bad, type Finding, isBad, ok, reportJson, reportText, skipped } from './finding.ts';
import { type ExplainFlags, explainFlagsOf } from './flags.ts';

/** `spear explain SERVER NAME`: why a task can or cannot call a tool, read a resource or get a prompt. */
export async function explainCommand(call: Parameters<typeof explainFlagsOf>[0]): Promise<number> {
  const flags = explainFlagsOf(call);
  const problem = flags.kind === 'resource' ? uriProblem(flags.tool) : null;
  if (problem !== null) throw new UsageError(`the uri ${quoted(flags.tool)} ${problem}`);
  const findings = await explainTool(flags);
  const callable = !findings.some(isBad);
  const name = `${quoted(flags.tool)} of ${quoted(flags.server)}`;
  const looked = findings.some(({ what, status }) => what === 'registry' && status === 'skipped');
  const but = looked ? ' (checked against the task only; no registry was given)' : '';
  const summary = callable
    ? `the task can ${verbs[flags.kind]} ${name}${but}`
    : `the task cannot ${verbs[flags.kind]} ${name}`;
  const style = { colours: process.stdout.isTTY === true && !processEnvironment.NO_COLOR };
  process.stdout.write(
    flags.json
      ? reportJson(findings, { callable, server: flags.server, kind: flags.kind, tool: flags.tool })
      : reportText(findings, summary, style),
  );
  return callable ? spearExitCodes.ok : spearExitCodes.failed;
}

async function explainTool(flags: ExplainFlags): Promise<Finding[]> {
  const { finding, policy, taskRules } = await diagnoseTask(flags);
  const { host, finding: hostFinding } = await diagnoseHost(flags);
  const before = [withoutChoice(finding), ...(hostFinding === null ? [] : [hostFinding])];
  if (policy === null || host === null) return before;
  if (flags.registry.directory === undefined && flags.registry.sms === undefined) {
    const question = aboutCall(null, policy.task, policy.session, flags.server, flags.tool, null, flags.kind);
    const answers = explain(question).filter(({ layer }) => layer !== 'node');
    const known = answers.map((answer) => layerFinding(answer, question));
    return [...before, ...known, skipped('registry', 'registry: not checked; pass --mcp-dir or --sms')];
  }
  const { finding: found, registry } = await diagnoseRegistry(flags, host, policy.task);
  if (registry === null) return [...before, found];
  try {
    return [
      ...before,
      registryFinding(found),
      ...(await explainRecord(flags, { ...policy, approvals: approvalRules(host, taskRules) }, host, registry)),
    ];
  } finally {
    await registry.close();
  }
}

/** The command does not report whether the session has servers at all. */
function withoutChoice(finding: Finding): Finding {
  return finding.cause === 'no_servers' ? { ...finding, status: 'ok', cause: null, fix: null } : finding;
}

/** The command reports no problems of other servers. */
function registryFinding(finding: Finding): Finding {
  return { ...finding, children: finding.children.map((child) => ({ ...child, status: 'skipped' as const })) };
}

async function explainRecord(
  flags: ExplainFlags,
  policy: Omit<DiagnosedPolicy, 'profile'>,
  host: CompiledHostConfig,
  registry: RunRegistry,
): Promise<Finding[]> {
  const { task, session, approvals } = policy;
  const view = registry.cache.view();
  const question = aboutCall(view, task, session, flags.server, flags.tool, null, flags.kind);
  const answers = explain(question);
  const layers = answers.map((answer) => layerFinding(answer, question));
  const { record } = question;
  if (record === null) return layers;
  const findings = [
    ...layers,
    ...approvalFindings(record, flags.tool, approvals),
    budgets(record),
    explicitly(flags, task, view),
  ];
  if (firstDenial(answers) !== null) return findings;
  if (flags.kind !== 'tool') return findings;
  const claims = new NameClaims(namedServers(view, task));
  findings.push(ok('name', `the model sees it as ${shownName(record, flags.tool, session, claims)}`));
  if (!flags.connect)
    return [...findings, skipped('server', 'not checked whether the server has the tool; --connect checks it')];
  return [...findings, ...(await askServer(flags, question, record, host, registry))];
}

async function askServer(
  { tool, timeoutMs }: ExplainFlags,
  question: PolicyQuestion,
  record: McpServerRecord,
  host: CompiledHostConfig,
  registry: RunRegistry,
): Promise<Finding[]> {
  const notes = new ServerNotes();
  const { references } = registry;
  const { pool, secrets, close } = await openPool({
    references,
    egress: host.egress,
    stdio: host.mcp.stdio,
    log: (entry) => notes.take(entry),
  });
  try {
    const references = await diagnoseReferences(record, secrets);
    if (isBad(references)) return [references];
    const deadline = { signal: AbortSignal.timeout(timeoutMs), timeoutMs };
    const { findings, list } = await diagnoseConnection(record, pool, notes, deadline);
    if (list === null) return [references, ...findings];
    const dropped = list.dropped.find(({ name }) => name === tool);
    const definition = list.tools.find(({ name }) => name === tool);
    if (definition !== undefined) {
      return [
        references,
        ...findings,
        ok('tool', 'the server has the tool'),
        ...pinFindings({ ...question, definition }),
      ];
    }
    const known = list.tools.map(({ name }) => name).slice(0, 20);
    const fix = `tools of this server: ${known.join(', ') || 'none'}`;
    const missing =
      dropped === undefined
        ? bad('tool', `the server has no tool ${quoted(tool)}`, { cause: 'unknown_tool', fix })
        : bad('tool', `the tool cannot be used: ${dropped.detail}`, {
            cause: dropped.reason,
            fix: 'fix the tool definition on the server',
          });
    return [references, ...findings, missing];
  } finally {
    await close();
  }
}

/** Decision of policy about the tool with the definition of its server. */
function pinFindings(question: PolicyQuestion): Finding[] {
  return explain(question)
    .filter(({ rule }) => rule === 'pins')
    .map((answer) => layerFinding(answer, question));
}

function layerFinding(answer: LayerAnswer, question: PolicyQuestion): Finding {
  const { layer, rule, verdict, reason } = answer;
  const { text, fix } = wordsFor(answer, question);
  const line = `${layer} ${rule}: ${text}`;
  if (verdict === 'denies') return bad('layer', line, { cause: reason ?? '', fix: fix ?? '' });
  return verdict === 'allows' ? ok('layer', line) : skipped('layer', line);
}

function approvalFindings(record: McpServerRecord, tool: string, rules: DiagnosedPolicy['approvals']): Finding[] {
  const notes = approvalNote(record, tool, rules);
  if (notes.length === 0) return [ok('approval', 'approval: not needed')];
  const asks = notes.some((note) => note.includes('needs an approval') || note.includes(': ask'));
  const who = asks && !hasTerminal() ? '; without a terminal, or with --approve deny, the call is denied' : '';
  return [skipped('approval', `approval: ${notes.join('; ')}${who}`)];
}

/** A guest that calls MCP itself has no session: only task and registry apply. */
function explicitly({ server, kind, tool }: ExplainFlags, task: TaskPolicy, view: RegistryView | null): Finding {
  const can = decideCall(view, task, null, server, tool, null, kind).allowed ? 'can' : 'cannot';
  return skipped('explicit', `a guest that calls MCP itself (mcp_open, ${hostcalls[kind]}) ${can} ${verbs[kind]} it`);
}

const verbs: Readonly<Record<CallKind, string>> = { tool: 'call', resource: 'read', prompt: 'get' };
const hostcalls: Readonly<Record<CallKind, string>> = {
  tool: 'mcp_call_tool',
  resource: 'mcp_read_resource',
  prompt: 'mcp_get_prompt',
};

function budgets({ budgets: { tool_timeout_ms, max_concurrency, max_tool_output_bytes } }: McpServerRecord): Finding {
  const text = `tool_timeout_ms ${tool_timeout_ms}, max_concurrency ${max_concurrency}, max_tool_output_bytes ${max_tool_output_bytes}`;
  return skipped('budgets', `budgets: ${text}`);
}
