import { parseApprovalRules } from '../../agent/policy/approval-rules-parse.ts';
import { parseTaskPolicy } from '../../agent/policy/task-policy.ts';
import { ConfigError } from '../../config/config-error.ts';
import { type CompiledHostConfig, loadHostConfig } from '../../config/host/host-config.ts';
import { processEnvironment } from '../../config/process-environment.ts';
import { loadTaskConfig, type TaskConfig } from '../../config/task-config.ts';
import { applyMcpParam } from '../../runtime/port/mcp-params.ts';
import { initialSession, type SessionPolicy, type TaskPolicy } from '../../runtime/port/policy-layers.ts';
import type { DiagnosedPolicy } from './diagnose-tools.ts';
import { bad, type DiagnosisFlags, type Finding, ok, skipped } from './finding.ts';

export interface DiagnosedTask {
  readonly finding: Finding;
  /** Null: the file is unusable. */
  readonly task: TaskConfig | null;
  /** Null: MCP is off, or its keys are invalid. */
  readonly policy: Omit<DiagnosedPolicy, 'approvals' | 'profile'> | null;
  readonly taskRules: DiagnosedPolicy['approvals']['task'];
}

/** The task's config, and the session that a guest with these parameters would have. */
export async function diagnoseTask(flags: DiagnosisFlags): Promise<DiagnosedTask> {
  const nothing = { task: null, policy: null, taskRules: [] };
  const { taskConfig: file } = flags;
  let task: TaskConfig;
  try {
    task = await loadTaskConfig(file);
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    const fix = error.message.includes('cannot be read') ? 'check the path of --task-config' : 'correct the file';
    return { ...nothing, finding: bad('task', error.message, { cause: 'task_config', fix }) };
  }
  const name = file === undefined ? 'no task config' : `task config ${file}`;
  const parsed = parseTaskPolicy(task.config, task.namespace);
  if (!parsed.ok) {
    const children = parsed.issues.map(({ key, message }) =>
      bad('task_key', `config.${key} ${message}`, { cause: 'task_config', fix: `correct config.${key}` }),
    );
    const fix = 'correct the keys below';
    return { ...nothing, task, finding: bad('task', `${name} is not valid`, { cause: 'task_config', fix, children }) };
  }
  const { policy, approvalRules: taskRules } = parsed;
  const { session, children } = sessionOf(policy, flags.params);
  if (!policy.enabled) return { ...nothing, task, finding: mcpOff(name, task, flags, children) };
  const text = `${name}: MCP is enabled; ${serversText(policy)}`;
  const chosen = session.serverIds ?? policy.defaultServerIds;
  if (chosen?.length !== 0 || !session.enabled) {
    return { finding: ok('task', text, children), task, policy: { task: policy, session }, taskRules };
  }
  const fix =
    'set "mcp.default_server_ids": ["ID"]; if the guest sets mcp.server_ids, test it with ' +
    `--param 'mcp.server_ids=["ID"]'`;
  const about = { cause: 'no_servers', fix, children };
  return {
    finding: bad('task', `${text}: a session gets no server`, about),
    task,
    policy: { task: policy, session },
    taskRules,
  };
}

function serversText({ defaultServerIds, allowedServerIds, serverTags, profile }: TaskPolicy): string {
  const ids = (list: readonly string[] | null) =>
    list === null ? 'selected by tags or profile' : list.join(', ') || 'none';
  const tags = serverTags === null ? '' : `; tags: ${serverTags.join(', ')}`;
  return `default servers: ${ids(defaultServerIds)}; allowed: ${ids(allowedServerIds)}${tags}${profile === null ? '' : `; profile: ${profile.name}`}`;
}

function mcpOff(
  name: string,
  { config }: TaskConfig,
  { registry: { directory, sms } }: DiagnosisFlags,
  children: readonly Finding[],
): Finding {
  const speaksOfMcp = Object.keys(config).some((key) => key.startsWith('mcp.'));
  const text = `${name}: MCP is disabled, so the model sees no tools`;
  const fix = 'set "mcp.enabled": true and "mcp.default_server_ids" in its config';
  const about = { cause: 'mcp_disabled', fix, children };
  return speaksOfMcp || directory !== undefined || sms !== undefined
    ? bad('task', text, about)
    : skipped('task', text, about);
}

function sessionOf(
  task: TaskPolicy,
  params: DiagnosisFlags['params'],
): { session: SessionPolicy; children: Finding[] } {
  let session = initialSession(task);
  const children = params.map(([key, value]) => {
    const applied = applyMcpParam(session, task, key, value);
    if (applied.ok) {
      session = applied.policy;
      if (key === 'mcp.enabled' && value === false) {
        const fix = 'do not set it to false';
        return bad('session_param', 'mcp.enabled: the session disables MCP', { cause: 'mcp_disabled', fix });
      }
      return ok('session_param', `session parameter ${key} is accepted`);
    }
    const fix =
      applied.errno === 'EACCES'
        ? 'a session can only narrow the set of servers: widen "mcp.allowed_server_ids" of the task, or request fewer servers'
        : 'correct the value';
    const text = `session parameter ${key} is rejected with ${applied.errno}: ${applied.message}`;
    return bad('session_param', text, { cause: applied.errno === 'EACCES' ? 'not_allowed' : 'session_param', fix });
  });
  return { session, children };
}

/** Checks the host config; returns a finding only for a problem. */
export async function diagnoseHost(
  flags: Pick<DiagnosisFlags, 'config'>,
): Promise<{ readonly host: CompiledHostConfig | null; readonly finding: Finding | null }> {
  try {
    const host = await loadHostConfig({ file: flags.config, env: processEnvironment });
    const rules = parseApprovalRules(host.mcp.approvalRules);
    if (rules.ok) return { host, finding: null };
    const text = rules.issues.map(({ path, message }) => `mcp.approval_rules${path}: ${message}`).join('; ');
    return { host, finding: bad('host', `${host.file}: ${text}`, { cause: 'host_config', fix: 'correct the file' }) };
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return { host: null, finding: bad('host', error.message, { cause: 'host_config', fix: 'correct the file' }) };
  }
}

/** Approval rules of both layers; {@link diagnoseHost} checks those of the node. */
export function approvalRules(
  host: CompiledHostConfig,
  task: DiagnosedTask['taskRules'],
): DiagnosedPolicy['approvals'] {
  const node = parseApprovalRules(host.mcp.approvalRules);
  return { node: node.ok ? node.rules : [], task };
}
