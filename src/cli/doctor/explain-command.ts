import type { CompiledHostConfig } from '../../config/host/host-config.ts';
import { processEnvironment } from '../../config/process-environment.ts';
import { diagnoseRegistry } from '../../doctor/diagnose-registry.ts';
import { diagnoseConnection, diagnoseReferences, ServerNotes } from '../../doctor/diagnose-server.ts';
import { approvalRules, diagnoseHost, diagnoseTask } from '../../doctor/diagnose-task.ts';
import { approvalNote, type DiagnosedPolicy } from '../../doctor/diagnose-tools.ts';
import { bad, type Finding, isBad, ok, skipped } from '../../doctor/finding.ts';
import { wordsFor } from '../../doctor/layer-words.ts';
import { fullName, isHashed, toolName } from '../../mcp/tool-names.ts';
import { quoted } from '../../policy/decision.ts';
import {
  aboutCall,
  decideCall,
  explain,
  firstDenial,
  type LayerAnswer,
  type PolicyQuestion,
} from '../../policy/walk.ts';
import { openPool } from '../../pool/open-pool.ts';
import type { RegistryView, TaskPolicy } from '../../protocol/policy-layers.ts';
import type { McpServerRecord } from '../../protocol/record.ts';
import type { RunRegistry } from '../../run/open-registry.ts';
import { spearExitCodes } from '../exit-codes.ts';
import type { OwnCommand } from '../spear/command.ts';
import { hasTerminal } from '../terminal.ts';
import { type ExplainFlags, parseExplainFlags } from './flags.ts';
import { explainHelp } from './help.ts';
import { reportJson, reportText } from './report.ts';

/** `spear explain SERVER TOOL`: why a task can or cannot call it. */
export const explainCommand: OwnCommand = async (argv) => {
  const flags = parseExplainFlags(argv);
  if (flags === 'help') {
    process.stdout.write(explainHelp);
    return spearExitCodes.ok;
  }
  const findings = await explainTool(flags);
  const callable = !findings.some(isBad);
  const name = `${quoted(flags.tool)} of ${quoted(flags.server)}`;
  const looked = findings.some(({ what, status }) => what === 'registry' && status === 'skipped');
  const but = looked ? ', as far as the task goes: no registry was asked' : '';
  const summary = callable ? `the task can call ${name}${but}` : `the task cannot call ${name}`;
  const style = { colours: process.stdout.isTTY === true && !processEnvironment.NO_COLOR };
  process.stdout.write(
    flags.json
      ? reportJson(findings, { callable, server: flags.server, tool: flags.tool })
      : reportText(findings, summary, style),
  );
  return callable ? spearExitCodes.ok : spearExitCodes.failed;
};

async function explainTool(flags: ExplainFlags): Promise<Finding[]> {
  const { finding, policy, taskRules } = await diagnoseTask(flags);
  const { host, finding: hostFinding } = await diagnoseHost(flags);
  const before = [withoutChoice(finding), ...(hostFinding === null ? [] : [hostFinding])];
  if (policy === null || host === null) return before;
  const whole: DiagnosedPolicy = { ...policy, approvals: approvalRules(host, taskRules) };
  if (flags.registry.directory === undefined && flags.registry.sms === undefined) {
    const question = aboutCall(null, policy.task, policy.session, flags.server, flags.tool);
    const answers = explain(question).filter(({ layer }) => layer !== 'node');
    const known = answers.map((answer) => layerFinding(answer, question));
    return [...before, ...known, skipped('registry', 'registry: not asked; --mcp-dir or --sms names one')];
  }
  const { finding: found, registry } = await diagnoseRegistry(flags, host);
  if (registry === null) return [...before, found];
  try {
    return [...before, registryFinding(found), ...(await explainRecord(flags, whole, host, registry))];
  } finally {
    await registry.close();
  }
}

/** Whether a session gets any server is not the question here. */
function withoutChoice(finding: Finding): Finding {
  return finding.cause === 'no_servers' ? { ...finding, status: 'ok', cause: null, fix: null } : finding;
}

/** Neither are the records of other servers. */
function registryFinding(finding: Finding): Finding {
  return { ...finding, children: finding.children.map((child) => ({ ...child, status: 'skipped' as const })) };
}

async function explainRecord(
  flags: ExplainFlags,
  policy: DiagnosedPolicy,
  host: CompiledHostConfig,
  registry: RunRegistry,
): Promise<Finding[]> {
  const { task, session, approvals } = policy;
  const view = registry.cache.view();
  const question = aboutCall(view, task, session, flags.server, flags.tool);
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
  const name = toolName(record, flags.tool, session.toolNaming);
  const hashed = isHashed(record.server_id, flags.tool, name)
    ? ` (a hash: the full name has ${fullName(record.server_id, flags.tool).length} characters, models take 64)`
    : '';
  findings.push(ok('name', `the model sees it as ${name}${hashed}`));
  if (!flags.connect)
    return [...findings, skipped('server', 'the server was not asked whether it has the tool; --connect asks')];
  return [...findings, ...(await askServer(flags, record, host, registry))];
}

async function askServer(
  { tool, timeoutMs }: ExplainFlags,
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
    if (list.tools.some(({ name }) => name === tool)) return [references, ...findings, ok('tool', 'the server has it')];
    const known = list.tools.map(({ name }) => name).slice(0, 20);
    const fix = `it has ${known.join(', ') || 'none'}`;
    const missing =
      dropped === undefined
        ? bad('tool', `the server has no tool ${quoted(tool)}`, { cause: 'unknown_tool', fix })
        : bad('tool', `the tool cannot be used: ${dropped.detail}`, {
            cause: dropped.reason,
            fix: 'the server has to correct it',
          });
    return [references, ...findings, missing];
  } finally {
    await close();
  }
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
  if (notes.length === 0) return [ok('approval', 'approval: none is needed')];
  const asks = notes.some((note) => note.includes('asked about') || note.includes(': ask'));
  const who = asks && !hasTerminal() ? '; without a terminal, or with --approve deny, nobody can be asked: denied' : '';
  return [skipped('approval', `approval: ${notes.join('; ')}${who}`)];
}

/** A guest that calls MCP itself has no session, so it is bound by task and registry alone. */
function explicitly({ server, tool }: ExplainFlags, task: TaskPolicy, view: RegistryView | null): Finding {
  const can = decideCall(view, task, null, server, tool).allowed ? 'can' : 'cannot';
  return skipped('explicit', `a guest that calls MCP itself (mcp_open, mcp_call_tool) ${can} call it`);
}

function budgets({ budgets: { tool_timeout_ms, max_concurrency, max_tool_output_bytes } }: McpServerRecord): Finding {
  const text = `tool_timeout_ms ${tool_timeout_ms}, max_concurrency ${max_concurrency}, max_tool_output_bytes ${max_tool_output_bytes}`;
  return skipped('budgets', `budgets: ${text}`);
}
