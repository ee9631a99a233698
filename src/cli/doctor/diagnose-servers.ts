import { type OpenPool, openPool } from '../../agent/mcp/client/open-pool.ts';
import { poolLimitSpecs } from '../../agent/mcp/client/pool-options.ts';
import type { ToolList } from '../../agent/mcp/client/tool-list.ts';
import { NameClaims, namedServers } from '../../agent/mcp/name-claims.ts';
import { defaultServers, effectiveSet } from '../../agent/policy/effective-set.ts';
import { wordsFor } from '../../agent/policy/layer-words.ts';
import { aboutChoice, aboutServer, explain, firstDenial } from '../../agent/policy/walk.ts';
import type { CompiledHostConfig } from '../../config/host/host-config.ts';
import type { RunRegistry } from '../../run/open-registry.ts';
import type { McpServerRecord } from '../../server/records/record.ts';
import { diagnoseConnection, diagnoseRecord, diagnoseReferences, ServerNotes } from './diagnose-server.ts';
import { type DiagnosedPolicy, diagnoseTools } from './diagnose-tools.ts';
import { bad, type Finding, isBad, ok, skipped } from './finding.ts';

export interface ServersQuestion {
  readonly registry: RunRegistry;
  /** Servers whose description is wrong: that was said. */
  readonly unusable: ReadonlySet<string>;
  readonly host: CompiledHostConfig;
  readonly policy: DiagnosedPolicy;
  /** False: no server is started or connected to. */
  readonly connect: boolean;
  /** For each server. */
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
}

/** Servers that are looked at beside each other. */
const AT_ONCE = 4;

interface Examined {
  readonly record: McpServerRecord;
  readonly findings: readonly Finding[];
  readonly list: ToolList | null;
}

/** Every server that a session of the task would have, from its record to its tools. All that was started is ended. */
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
    // The fault is told at the registry, with its fix.
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
  // A fault below is told there, with its fix.
  return all.some(isBad) ? { ...ok('server', name, all), status: 'bad', cause: 'server' } : ok('server', name, all);
}

/** A task that lists no servers and chooses none has a reason that no single server has. */
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
