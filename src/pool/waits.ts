import type { Wait } from '../base/waiting.ts';
import type { McpServerRecord } from '../protocol/record.ts';
import type { PoolLimits } from './pool-options.ts';

const name = ({ server_id: serverId }: McpServerRecord) => `server ${JSON.stringify(serverId)}`;

export function startOf(record: McpServerRecord, timeoutMs: number): Wait {
  const command = record.stdio === null ? null : JSON.stringify(record.stdio.command);
  const how = command === null ? 'to be connected' : `to start: ${command} does not speak MCP yet`;
  return { what: `${name(record)} ${how}`, atMostMs: timeoutMs };
}

export function listOf(record: McpServerRecord, { listTimeoutMs }: PoolLimits): Wait {
  return { what: `${name(record)} to list its tools`, atMostMs: listTimeoutMs };
}

export function placeAt(record: McpServerRecord, { queueTimeoutMs }: PoolLimits): Wait {
  const { max_concurrency: most } = record.budgets;
  return { what: `a place at ${name(record)}: it takes ${most} calls at a time`, atMostMs: queueTimeoutMs };
}

export function placeAnywhere({ maxCallsInFlight, queueTimeoutMs }: PoolLimits): Wait {
  return { what: `a place for a call: ${maxCallsInFlight} are on their way to servers`, atMostMs: queueTimeoutMs };
}

export function answerOf(tool: string, record: McpServerRecord, timeoutMs: number): Wait {
  return { what: `tool ${JSON.stringify(tool)} of ${name(record)}`, atMostMs: timeoutMs };
}
