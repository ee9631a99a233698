import { isJsonObject, type JsonValue } from '../../base/json.ts';
import type { ErrnoName } from './errno.ts';

const MIB = 1024 * 1024;

/** Parameters with a number: a larger value than `max` is taken as `max`, as one value serves tools of several kinds. */
export const numberParams = {
  timeout_ms: { default: 600_000, max: 24 * 3_600_000, doc: 'deadline of a whole send' },
  max_iterations: { default: 8, max: 128, doc: 'model calls per send, handed-back rounds included' },
  max_total_tool_calls: { default: 32, max: 10_000, doc: 'tool calls per send, handed-back rounds included' },
  max_tool_output_bytes: { default: 65_536, max: 10 * MIB, doc: 'output of one tool call' },
} as const;

/** A guest tool's output is held twice, in its arena and in the history: it gets less room than an MCP tool's. */
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

/** Compares instead of looking up: a key out of a guest's JSON has no hash yet, and computing it costs more. */
function ownParam(key: string): OwnParam | undefined {
  for (const name of ownParams) if (name.length === key.length && name === key) return name;
  return key === 'max_tool_calls' ? 'max_total_tool_calls' : undefined;
}

export interface CheckedParam {
  readonly key: string;
  readonly value: JsonValue;
}

/**
 * Checks one SET_PARAM outside the `mcp.` keys. What is not ours is the provider's business and passes as it is.
 */
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
