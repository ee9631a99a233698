import { McpConnectionError, McpPolicyError, McpTimeoutError, toToolError } from '../../agent/mcp/client/errors.ts';
import { type OpenPool, openPool } from '../../agent/mcp/client/open-pool.ts';
import type { McpPool } from '../../agent/mcp/client/pool.ts';
import { type PoolLogEntry, poolLimitSpecs } from '../../agent/mcp/client/pool-options.ts';
import { resolveRecord } from '../../agent/mcp/client/resolved-record.ts';
import type { ToolList } from '../../agent/mcp/client/tool-list.ts';
import { NameClaims, namedServers } from '../../agent/mcp/tool-names.ts';
import { quoted } from '../../agent/policy/decision.ts';
import { defaultServers, effectiveSet } from '../../agent/policy/effective-set.ts';
import { wordsFor } from '../../agent/policy/layer-words.ts';
import { aboutChoice, aboutServer, explain, firstDenial } from '../../agent/policy/walk.ts';
import type { CompiledHostConfig } from '../../config/host/host-config.ts';
import type { RunRegistry } from '../../run/open-registry.ts';
import type { McpServerRecord } from '../../server/records/server.ts';
import { referencedNames } from '../../server/secrets/references.ts';
import type { SecretSource } from '../../server/secrets/secret-file.ts';
import { type DiagnosedPolicy, diagnoseTools } from './diagnose-tools.ts';
import { bad, type Finding, isBad, ok, skipped } from './finding.ts';

export interface ServersQuestion {
  readonly registry: RunRegistry;
  /** Servers with an invalid record, which an earlier finding reports. */
  readonly unusable: ReadonlySet<string>;
  readonly host: CompiledHostConfig;
  readonly policy: DiagnosedPolicy;
  /** False: no server is started or connected to. */
  readonly connect: boolean;
  /** Timeout per server. */
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
}

/** Servers that are checked concurrently. */
const AT_ONCE = 4;

interface Examined {
  readonly record: McpServerRecord;
  readonly findings: readonly Finding[];
  readonly list: ToolList | null;
}

/** Checks every server of a session of the task, from its record to its tools, and stops what it started. */
export async function diagnoseServers(question: ServersQuestion): Promise<Finding[]> {
  const { registry, host, policy, timeoutMs } = question;
  const { task, session } = policy;
  const chosen = [...new Set(session.serverIds ?? defaultServers(registry.cache.view(), task))].sort();
  const notes = new Map(chosen.map((id) => [id, new ServerNotes()]));
  const listTimeoutMs = Math.min(
    poolLimitSpecs.listTimeoutMs.default,
    Math.max(timeoutMs, poolLimitSpecs.listTimeoutMs.min),
  );
  const opened = await openPool({
    references: registry.references,
    egress: host.egress,
    stdio: host.mcp.stdio,
    limits: { listTimeoutMs },
    log: (entry) => notes.get(entry.serverId ?? '')?.take(entry),
  });
  try {
    const examined = await inTurns(chosen, (id) => examine(id, question, opened, notes.get(id) as ServerNotes));
    const claims = new NameClaims(namedServers(registry.cache.view(), task));
    const asked = examined.map((server) => ('status' in server ? server : conclude(server, policy, claims)));
    const others = (task.allowedServerIds ?? []).filter((id) => !chosen.includes(id));
    const none = chosen.length > 0 ? [] : nothingChosen(question);
    return [...asked, ...none, ...others.map((id) => notChosen(id))];
  } finally {
    await opened.close();
  }
}

async function examine(
  id: string,
  { registry, unusable, policy, connect, timeoutMs, signal }: ServersQuestion,
  { pool, secrets }: OpenPool,
  notes: ServerNotes,
): Promise<Examined | Finding> {
  const view = registry.cache.view();
  const question = aboutServer(view, policy.task, policy.session, id);
  const denial = firstDenial(explain(question));
  if (denial !== null) {
    const { text, fix } = wordsFor(denial, question);
    const finding = bad('server', `server ${id}: ${text}`, { cause: denial.reason ?? '', fix: fix ?? '' });
    // The finding about the registry has the problem and its fix.
    return view?.servers.has(id) !== true && unusable.has(id) ? { ...finding, fix: null } : finding;
  }
  const record = question.record as McpServerRecord; // one that is not there is denied
  const references = await diagnoseReferences(record, secrets);
  const findings = [diagnoseRecord(record), references];
  if (isBad(references) || !connect) {
    const why = connect ? 'not reached' : 'skipped (--offline)';
    findings.push(skipped('connect', `connection: ${why}`), skipped('tools_list', `tools/list: ${why}`));
    return { record, findings, list: null };
  }
  const deadline = { signal: AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]), timeoutMs };
  const connection = await diagnoseConnection(record, pool, notes, deadline);
  return { record, findings: [...findings, ...connection.findings], list: connection.list };
}

function conclude({ record, findings, list }: Examined, policy: DiagnosedPolicy, claims: NameClaims): Finding {
  const tools = list === null ? skipped('tools', 'tools: not reached') : diagnoseTools(list, record, policy, claims);
  const all = [...findings, tools];
  const name = `server ${record.server_id}`;
  // A finding below has the problem and its fix.
  return all.some(isBad) ? { ...ok('server', name, all), status: 'bad', cause: 'server' } : ok('server', name, all);
}

/** Why a task has no server at all; no finding about a single server says this. */
function nothingChosen({ registry, policy }: ServersQuestion): Finding[] {
  const view = registry.cache.view();
  const choice = aboutChoice(view, policy.task, policy.session);
  const denial = firstDenial(explain(choice));
  if (denial !== null) {
    const { text, fix } = wordsFor(denial, choice);
    return [bad('server', `servers: ${text}`, { cause: denial.reason ?? '', fix: fix ?? '' })];
  }
  const fix = 'change the profile, "mcp.profile_overrides" or "mcp.server_tags", or the tags of the servers';
  return effectiveSet(view, policy.task, policy.session).exclusions.map(({ reason, detail }) =>
    bad('server', `servers: ${detail}`, { cause: reason, fix }),
  );
}

function notChosen(id: string): Finding {
  const fix = `add it to "mcp.default_server_ids", or let the guest set mcp.server_ids`;
  return skipped('server', `server ${id}: allowed, but not in the default set`, { cause: 'not_requested', fix });
}

async function inTurns<T, R>(items: readonly T[], work: (item: T) => Promise<R>): Promise<R[]> {
  const results: R[] = [];
  for (let at = 0; at < items.length; at += AT_ONCE) {
    results.push(...(await Promise.all(items.slice(at, at + AT_ONCE).map(work))));
  }
  return results;
}

/** Log entries of the pool during the check of one server. */
export class ServerNotes {
  readonly #stderr: string[] = [];
  readonly #refused: string[] = [];
  connectedAt: number | null = null;
  listMs: number | null = null;

  take({ event, message, durationMs }: PoolLogEntry): void {
    if (event === 'connected') this.connectedAt = performance.now();
    if (event === 'tools_listed') this.listMs = durationMs ?? null;
    if (event === 'question_refused') this.#refused.push(message);
    if (event !== 'stderr') return;
    this.#stderr.push(message);
    if (this.#stderr.length > SHOWN_STDERR_LINES) this.#stderr.shift();
  }

  /** Requests of the server that its record does not permit. */
  refusals(): Finding[] {
    return this.#refused.map((message) => skipped('asked', message));
  }

  /** Last lines of the server's stderr, without secrets of the record. */
  findings(): Finding[] {
    return this.#stderr.map((line) => skipped('stderr', `stderr: ${line}`));
  }
}

const SHOWN_STDERR_LINES = 5;

/** What the record connects to, without anything that may be secret. */
export function diagnoseRecord(record: McpServerRecord): Finding {
  const where =
    record.http === null
      ? `command ${quoted(record.stdio?.command ?? '')}`
      : `host ${URL.parse(record.http.url)?.host ?? 'of its url, which contains a reference'}`;
  const { tool_timeout_ms: timeout, max_concurrency: concurrency, connect_timeout_ms: connect } = record.budgets;
  const budgets = `tool_timeout_ms ${timeout}, max_concurrency ${concurrency}, connect_timeout_ms ${connect}`;
  const { elicitation, roots } = record.client_features;
  const asks = elicitation.length === 0 ? '' : `; it may request user input (${elicitation.join(', ')})`;
  const rootsNote = roots.length === 0 ? '' : `; it receives ${roots.length} roots`;
  const about = `${record.transport}, ${where}; ${budgets}${asks}${rootsNote}`;
  return ok('record', `server at revision ${record.mod_revision}: ${about}`);
}

/** Checks the references of the record on this node. Prints names, never values. */
export async function diagnoseReferences(record: McpServerRecord, secrets: SecretSource): Promise<Finding> {
  const names = [...referencedNames(record)].sort();
  try {
    await resolveRecord(record, secrets);
  } catch (error) {
    const { variables } = secrets;
    const children = names
      .filter((name) => !variables.allows(name) || variables.get(name) === undefined)
      .map((name) =>
        skipped('reference', `${name}: ${variables.allows(name) ? 'not set' : 'not allowed for servers'}`),
      );
    const cause = error instanceof McpConnectionError ? error.reason : 'record_invalid';
    const { message } = toToolError(error);
    // A file with the wrong owner or mode: the message ends with the command that fixes it.
    const command = /; run: (.+)$/.exec(message)?.[1];
    const fix = command === undefined ? referenceFix(cause, names) : `run: ${command}`;
    return bad('references', message, { cause, fix, children });
  }
  return ok('references', names.length === 0 ? 'no references to the environment' : `references: ${names.join(', ')}`);
}

function referenceFix(cause: string, names: readonly string[]): string {
  const list = names.join(', ') || 'the file';
  if (cause === 'env_missing')
    return `set ${list} in the environment of spear-run, or write a default: \${ENV:NAME:-default}`;
  if (cause === 'env_refused')
    return 'list it in [mcp] allow_env or allow_files of the host config; model keys are never available to servers';
  return 'correct the server config';
}

/** Connects and lists the tools; a null list: this failed. */
export async function diagnoseConnection(
  record: McpServerRecord,
  pool: Pick<McpPool, 'listTools'>,
  notes: ServerNotes,
  deadline: { readonly signal: AbortSignal; readonly timeoutMs: number },
): Promise<{ readonly findings: readonly Finding[]; readonly list: ToolList | null }> {
  const startedAt = performance.now();
  const connected = () => {
    const how = record.transport === 'stdio' ? 'started and connected' : 'connected';
    return ok('connect', `${how} in ${Math.round((notes.connectedAt ?? startedAt) - startedAt)} ms`);
  };
  try {
    const list = await pool.listTools(record, { signal: deadline.signal });
    const took = notes.listMs === null ? '' : ` in ${Math.round(notes.listMs)} ms`;
    const odd = list.notice === null ? '' : `; ${list.notice}`;
    const listed = ok('tools_list', `tools/list: ${list.tools.length} tools${took}${odd}`);
    return { findings: [connected(), listed, ...notes.refusals()], list };
  } catch (error) {
    const children = notes.findings();
    const late = deadline.signal.aborted || error instanceof McpTimeoutError;
    const message = deadline.signal.aborted
      ? `no response within ${deadline.timeoutMs} ms`
      : toToolError(error).message;
    if (notes.connectedAt !== null) {
      const about = endAdvice(message, record) ?? listAdvice(late);
      const failed = bad('tools_list', `tools/list failed: ${message}`, { ...about, children });
      return { findings: [connected(), failed], list: null };
    }
    const about = endAdvice(message, record) ?? connectAdvice(error, late, record);
    return {
      findings: [
        bad('connect', `cannot connect: ${message}`, { ...about, children }),
        skipped('tools_list', 'tools/list: not reached'),
      ],
      list: null,
    };
  }
}

/** Signals of a crash. */
const crashes: ReadonlySet<string> = new Set(['SIGSEGV', 'SIGABRT', 'SIGBUS', 'SIGILL', 'SIGFPE', 'SIGTRAP', 'SIGSYS']);

/** Fix for a server process that ended; null: it did not end. */
function endAdvice(message: string, record: McpServerRecord): { cause: string; fix: string } | null {
  const [, how, what = ''] = /the server process ended \((signal|exit code) (\w+)\)/.exec(message) ?? [];
  const command = quoted(record.stdio?.command ?? '');
  if (how === 'exit code') {
    const fix = `the process exited: see its stderr for the reason, or run ${command} with its arguments manually; it must speak MCP on stdin and stdout`;
    return { cause: 'server_exited', fix };
  }
  if (how !== 'signal') return null;
  if (crashes.has(what)) {
    const fix = `${command} crashed: update it or report the crash to its maintainer; "spear servers test ${record.server_id}" runs it in isolation`;
    return { cause: 'server_crashed', fix };
  }
  const memory =
    what === 'SIGKILL'
      ? 'usually by the out-of-memory killer of the kernel: look for "oom" in dmesg or OOMKilled in the pod, and give it more memory; otherwise '
      : '';
  const fix = `${command} was killed with ${what}: ${memory}by an operator or a supervisor. The next call starts it again`;
  return { cause: 'server_killed', fix };
}

function listAdvice(late: boolean): { cause: string; fix: string } {
  if (!late)
    return {
      cause: 'list_failed',
      fix: 'see the error and stderr of the server; "spear servers test ID" runs it in isolation',
    };
  return {
    cause: 'list_timeout',
    fix:
      'the server takes too long to list its tools: reduce its work at startup. The host stops it after the deadline; an EPIPE ' +
      'that the server then reports is a consequence of that, not the cause',
  };
}

function connectAdvice(error: unknown, late: boolean, record: McpServerRecord): { cause: string; fix: string } {
  const reason = error instanceof McpConnectionError ? error.reason : null;
  const command = quoted(record.stdio?.command ?? '');
  if (error instanceof McpPolicyError) {
    const fix = 'if this node may connect to it, list it in [egress] allow_hosts or allow_addresses of the host config';
    return { cause: 'egress_denied', fix };
  }
  if (late) {
    const slow = 'raise budgets.connect_timeout_ms if it downloads packages at its first start';
    const fix =
      record.transport === 'stdio'
        ? `${command} did not complete the MCP handshake in time; ${slow}`
        : 'check that the url is the MCP endpoint of the server';
    return { cause: 'connect_timeout', fix };
  }
  switch (reason) {
    case 'spawn_failed':
      return { cause: reason, fix: `install ${command}, or set its full path; servers inherit the PATH of spear-run` };
    case 'sandbox_unavailable':
      return {
        cause: reason,
        fix:
          'install bubblewrap (bwrap), and allow this user to create namespaces; a server with sandbox.mode "preferred" runs ' +
          'without a sandbox if [mcp] stdio of the host config is "allow"',
      };
    case 'stdio_denied':
      return { cause: reason, fix: 'set [mcp] stdio of the host config to "sandboxed" or "allow"' };
    case 'unauthorized':
      return {
        cause: reason,
        fix: loginFix(toToolError(error).message) ?? 'check http.headers, http.auth_ref and http.oauth of the server',
      };
    case 'env_missing':
    case 'env_refused':
    case 'record_invalid':
      return { cause: reason, fix: referenceFix(reason, []) };
    default:
      return {
        cause: reason ?? toToolError(error).code,
        fix:
          record.transport === 'stdio'
            ? `run ${command} with its arguments manually; it must speak MCP on stdin and stdout`
            : 'check that the server is running, that the url is its MCP endpoint, and that [egress] of the host config allows it',
      };
  }
}

/** If a login is needed, the error contains the command. */
function loginFix(message: string): string | null {
  const command = /spear servers login \S+/.exec(message)?.[0];
  return command === undefined ? null : `run: ${command}`;
}
