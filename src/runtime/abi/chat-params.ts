import { isJsonObject, type JsonValue } from '../../base/json.ts';
import type { ErrnoName } from './errno.ts';

const MIB = 1024 * 1024;

/** Numeric parameters. A value above `max` is clamped, because one value applies to tools of several kinds. */
export const numberParams = {
  timeout_ms: { default: 600_000, max: 24 * 3_600_000, doc: 'deadline of a whole send' },
  max_iterations: { default: 8, max: 128, doc: 'model calls per send, handed-back rounds included' },
  max_total_tool_calls: { default: 32, max: 10_000, doc: 'tool calls per send, handed-back rounds included' },
  max_tool_output_bytes: { default: 65_536, max: 10 * MIB, doc: 'output of one tool call' },
} as const;

/** Lower than for MCP tools: the output of a guest tool is held twice, in its arena and in the history. */
export const MAX_GUEST_TOOL_OUTPUT_BYTES = MIB;

export type NumberParam = keyof typeof numberParams;

type OwnParam = NumberParam | 'model' | 'backend' | 'tool_choice' | 'messages' | 'tools';

const ownParams: readonly OwnParam[] = [
  ...(Object.keys(numberParams) as NumberParam[]),
  'model',
  'backend',
  'tool_choice',
  'messages',
  'tools',
];

/** perf: compares instead of a lookup, because a key parsed from guest JSON has no hash yet and computing one costs more. */
function ownParam(key: string): OwnParam | undefined {
  for (const name of ownParams) if (name.length === key.length && name === key) return name;
  return key === 'max_tool_calls' ? 'max_total_tool_calls' : undefined;
}

export interface CheckedParam {
  readonly key: string;
  readonly value: JsonValue;
}

/** Checks a SET_PARAM outside the `mcp.` keys. Unknown keys are forwarded to the provider unchanged. */
export function checkParam(key: string, value: JsonValue): CheckedParam | ErrnoName {
  const name = ownParam(key);
  switch (name) {
    case undefined:
      return { key, value };
    case 'model':
    case 'backend':
      return typeof value === 'string' && value !== '' ? { key: name, value } : 'EINVAL';
    case 'tool_choice':
      return isToolChoice(value) ? { key: name, value } : 'EINVAL';
    case 'messages':
    case 'tools':
      return 'EACCES';
    default:
      if (typeof value !== 'number' || !Number.isInteger(value) || value < 1) return 'EINVAL';
      return { key: name, value: Math.min(value, numberParams[name].max) };
  }
}

function isToolChoice(value: JsonValue): boolean {
  return typeof value === 'string' || isJsonObject(value);
}
