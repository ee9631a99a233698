import { isJsonObject, type JsonValue } from '../../base/json.ts';
import { textProblem } from '../../base/text.ts';
import { didYouMean } from '../../base/validation.ts';
import {
  isStringList,
  noOverrides,
  type ProfileOverrides,
  patternListProblem,
} from '../../runtime/port/policy-layers.ts';
import { isServerId, recordLimits, serverIdRule } from '../../server/records/field-rules.ts';

/** A field and what is wrong with it. */
type Problem = string;

const fields = Object.keys(noOverrides);

/** `mcp.profile_overrides` of a task; a field that is not known could have been meant to narrow, so it is refused. */
export function readProfileOverrides(value: JsonValue): ProfileOverrides | Problem {
  if (!isJsonObject(value)) return `must be a table with the keys ${fields.join(', ')}`;
  for (const [name, field] of Object.entries(value)) {
    const problem = fieldProblem(name, field);
    if (problem !== null) return `${name} ${problem}`;
  }
  return Object.freeze({ ...noOverrides, ...(value as Partial<ProfileOverrides>) });
}

function fieldProblem(name: string, value: JsonValue): Problem | null {
  switch (name) {
    case 'server_ids':
      return idsProblem(value);
    case 'server_tags':
      return tagsProblem(value);
    case 'tool_allowlist':
    case 'tool_denylist':
      return patternListProblem(value);
    case 'allowed_tools':
      return toolsProblem(value);
    default:
      return `is not a valid field; ${didYouMean(name, fields) ?? `valid fields: ${fields.join(', ')}`}`;
  }
}

function idsProblem(value: JsonValue): Problem | null {
  if (!isStringList(value)) return 'must be a list of strings';
  const odd = value.findIndex((id) => !isServerId(id));
  return odd === -1 ? null : `[${odd}] is not a server id: it must be ${serverIdRule}`;
}

export function tagsProblem(value: unknown): Problem | null {
  if (!isStringList(value)) return 'must be a list of strings';
  for (const [index, tag] of value.entries()) {
    const problem = textProblem(tag, recordLimits.tagChars);
    if (problem !== null) return `[${index}] ${problem}`;
  }
  return null;
}

function toolsProblem(value: JsonValue): Problem | null {
  if (!isJsonObject(value)) return 'must be a table of server ids and lists of patterns';
  for (const [id, patterns] of Object.entries(value)) {
    const problem = isServerId(id) ? patternListProblem(patterns) : `is not a server id: it must be ${serverIdRule}`;
    if (problem !== null) return `[${JSON.stringify(id)}] ${problem}`;
  }
  return null;
}
