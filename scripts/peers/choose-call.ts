import type { ToolDescriptor } from '../../src/agent/mcp/client/tool-list.ts';
import { isJsonObject, type JsonObject, type JsonValue } from '../../src/base/json.ts';

export interface ChosenCall {
  readonly tool: string;
  readonly args: JsonObject;
}

/** Names of tools that look something up. */
const reads =
  /(?:^|[-_.])(?:get|list|search|read|find|fetch|lookup|describe|show|echo|ping|hello|calculate|current|status|info|about|help|convert)(?:[-_.A-Z]|$)|^add$/;
/** What a call that nobody looks at must not do, whatever else the name says. */
const acts =
  /delete|remove|drop|create|update|write|insert|send|push|post|upload|execute|run|exec|shell|command|kill|install|deploy|click|navigate|merge/i;

/**
 * A call that asks for little and changes nothing: of the tools that say they only read, by hint or by name, one that
 * needs the fewest arguments, which are made up. Null where there is none.
 */
export function chooseCall(tools: readonly ToolDescriptor[]): ChosenCall | null {
  const harmless = tools.filter(
    ({ name, annotations }) => !acts.test(name) && (annotations?.readOnlyHint === true || reads.test(name)),
  );
  const [best] = harmless.toSorted((a, b) => requiredOf(a.inputSchema).length - requiredOf(b.inputSchema).length);
  return best === undefined ? null : { tool: best.name, args: madeUpObject(best.inputSchema) };
}

const requiredOf = ({ required }: JsonObject): string[] =>
  Array.isArray(required) ? required.filter((name) => typeof name === 'string') : [];

function madeUpObject(schema: JsonObject): JsonObject {
  const properties = isJsonObject(schema.properties) ? schema.properties : {};
  return Object.fromEntries(requiredOf(schema).map((name) => [name, madeUp(properties[name])]));
}

/** Something that the schema probably takes; where it does not, the answer says so. */
function madeUp(schema: JsonValue | undefined): JsonValue {
  if (!isJsonObject(schema)) return 'example';
  if (schema.default !== undefined) return schema.default;
  if (schema.const !== undefined) return schema.const;
  const [first] = [schema.enum, schema.anyOf, schema.oneOf].flatMap((list) => (Array.isArray(list) ? list : []));
  if (first !== undefined) return Array.isArray(schema.enum) ? first : madeUp(first);
  switch (Array.isArray(schema.type) ? schema.type[0] : schema.type) {
    case 'number':
    case 'integer':
      return typeof schema.minimum === 'number' ? schema.minimum : 1;
    case 'boolean':
      return false;
    case 'array':
      return typeof schema.minItems === 'number' && schema.minItems > 0 ? [madeUp(schema.items)] : [];
    case 'object':
      return madeUpObject(schema);
    case 'null':
      return null;
    default:
      return schema.format === 'uri' ? 'https://example.com/' : 'example'.padEnd(Number(schema.minLength ?? 0), 'e');
  }
}
