import type { Wait } from '../../../base/waiting.ts';
import type { CallKind } from '../../../runtime/port/call-kind.ts';
import type { McpServerRecord } from '../../../server/records/record.ts';
import type { PoolLimits } from './pool-options.ts';
import type { CheckedTool } from './tool-list.ts';

const name = ({ server_id: serverId }: McpServerRecord) => `server ${JSON.stringify(serverId)}`;

export function startOf(record: McpServerRecord, timeoutMs: number): Wait {
  const command = record.stdio === null ? null : JSON.stringify(record.stdio.command);
  const how = command === null ? 'to connect' : `to start: ${command} has not completed the MCP handshake`;
  return { what: `${name(record)} ${how}`, atMostMs: timeoutMs };
}

export function listOf(kind: CallKind, record: McpServerRecord, { listTimeoutMs }: PoolLimits): Wait {
  return { what: `${name(record)} to list its ${kind}s`, atMostMs: listTimeoutMs };
}

export function placeAt(record: McpServerRecord, { queueTimeoutMs }: PoolLimits): Wait {
  const { max_concurrency: most } = record.budgets;
  return { what: `a slot at ${name(record)}: limited to ${most} concurrent calls`, atMostMs: queueTimeoutMs };
}

export function placeAnywhere({ maxCallsInFlight, queueTimeoutMs }: PoolLimits): Wait {
  return { what: `a call slot: ${maxCallsInFlight} calls to servers are in flight`, atMostMs: queueTimeoutMs };
}

/** Of what was called, what is waited for: the same words for every call of a tool. */
const answers = new WeakMap<Pick<CheckedTool, 'tool'>, string>();

export function answerOf(
  kind: CallKind,
  found: Pick<CheckedTool, 'tool'>,
  record: McpServerRecord,
  timeoutMs: number,
): Wait {
  let what = answers.get(found);
  if (what === undefined) {
    what = `${kind} ${JSON.stringify(found.tool.name)} of ${name(record)}`;
    answers.set(found, what);
  }
  return { what, atMostMs: timeoutMs };
}
