import { deny, type Exclusion, type ExclusionReason, exclusion } from '../policy/decision.ts';
import { policyHash } from '../policy/policy-hash.ts';
import { aboutTool, decide } from '../policy/walk.ts';
import { McpConnectionError, McpTimeoutError } from '../pool/errors.ts';
import type { ToolDescriptor, ToolList } from '../pool/tool-list.ts';
import type { SessionPolicy, TaskPolicy } from '../protocol/policy-layers.ts';
import type { McpServerRecord } from '../protocol/record.ts';

/** The tools of one server that a session may call, and why it may not call the others. */
export interface ServerTools {
  readonly record: McpServerRecord;
  readonly tools: readonly ToolDescriptor[];
  readonly exclusions: readonly Exclusion[];
  /** Set if the server could not be listed. */
  readonly failure: ExclusionReason | null;
  readonly durationMs: number;
}

// A list lives as long as the pool keeps it; what policies make of it lives as long as the list.
const filtered = new WeakMap<ToolList, Map<string, Pick<ServerTools, 'tools' | 'exclusions'>>>();

/** Applies the three layers to a server's tools, in the order of their names. */
export function filterTools(
  list: ToolList,
  record: McpServerRecord,
  task: TaskPolicy,
  session: SessionPolicy | null,
): Pick<ServerTools, 'tools' | 'exclusions'> {
  const byPolicy = filtered.get(list) ?? new Map<string, Pick<ServerTools, 'tools' | 'exclusions'>>();
  filtered.set(list, byPolicy);
  const key = policyHash(record, task, session);
  const known = byPolicy.get(key);
  if (known) return known;

  const exclusions: Exclusion[] = list.dropped.map(({ name, reason, detail }) =>
    exclusion(record.server_id, name, deny(reason, 'node', detail)),
  );
  const tools = [...list.tools]
    .sort((a, b) => (a.name < b.name ? -1 : 1))
    .filter(({ name }) => {
      const decision = decide(aboutTool(record, task, session, name));
      if (!decision.allowed) exclusions.push(exclusion(record.server_id, name, decision));
      return decision.allowed;
    });
  const result = { tools, exclusions };
  byPolicy.set(key, result);
  return result;
}

/** Why a server's tools are not there, in the words of the decision log. */
export function listFailure(error: unknown): ExclusionReason {
  if (error instanceof McpTimeoutError) return 'list_timeout';
  if (error instanceof McpConnectionError) {
    if (error.reason === 'env_missing' || error.reason === 'env_refused') return error.reason;
  }
  return 'list_failed';
}
