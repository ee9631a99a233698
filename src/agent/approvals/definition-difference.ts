import { canonicalJson, isJsonObject, type JsonValue } from '../../base/json.ts';
import type { ToolDefinition } from '../policy/definition-hash.ts';
import type { DefinitionChange } from './decider.ts';

/** A server that rewrites everything is described well enough by the first of it. */
export const MAX_DEFINITION_CHANGES = 50;
const MAX_DEPTH = 32;

/** What is different, in the order of the fields. */
export function definitionChanges(before: ToolDefinition, after: ToolDefinition): readonly DefinitionChange[] {
  const changes: DefinitionChange[] = [];
  for (const field of ['name', 'description', 'annotations', 'inputSchema', 'outputSchema'] as const) {
    compare(before[field], after[field], field, MAX_DEPTH, changes);
  }
  return changes.slice(0, MAX_DEFINITION_CHANGES);
}

function compare(
  before: JsonValue | undefined,
  after: JsonValue | undefined,
  path: string,
  depth: number,
  changes: DefinitionChange[],
): void {
  if (changes.length >= MAX_DEFINITION_CHANGES || before === after) return;
  if (depth > 0 && isJsonObject(before) && isJsonObject(after)) {
    for (const key of new Set([...Object.keys(before), ...Object.keys(after)])) {
      const own = (side: typeof before) => (Object.hasOwn(side, key) ? side[key] : undefined);
      compare(own(before), own(after), `${path}.${key}`, depth - 1, changes);
    }
    return;
  }
  if (text(before) !== text(after)) changes.push({ path, before, after });
}

const text = (value: JsonValue | undefined) => (value === undefined ? undefined : canonicalJson(value));
