import { createHash } from 'node:crypto';
import { canonicalJson, isJsonObject, type JsonObject, type JsonValue } from '../../base/json.ts';

/** What an approval and a pin are bound to of a tool: all that its server says of it before it is called. */
export interface ToolDefinition {
  readonly name: string;
  /** Text of the server: not to be trusted. */
  readonly description: string;
  readonly inputSchema: JsonObject;
  /** Null: it has none, or none that can be used. */
  readonly outputSchema: JsonObject | null;
  /** Hints of the server about itself: not to be trusted. */
  readonly annotations: JsonObject | null;
}

/** What somebody says that a server says: no field of it is trusted to be there. */
export function readDefinition(given: JsonObject): ToolDefinition {
  const object = (value: JsonValue | undefined) => (isJsonObject(value) ? value : null);
  return {
    name: String(given.name ?? ''),
    description: String(given.description ?? ''),
    inputSchema: object(given.inputSchema) ?? {},
    outputSchema: object(given.outputSchema),
    annotations: object(given.annotations),
  };
}

// A list of tools is shared by all calls until the server lists anew.
const hashes = new WeakMap<ToolDefinition, string>();

/** The same for two definitions exactly when the server says the same of the tool, in whatever order of keys. */
export function hashDefinition(definition: ToolDefinition): string {
  const known = hashes.get(definition);
  if (known !== undefined) return known;
  const { name, description, inputSchema, outputSchema, annotations } = definition;
  const hash = sha256({ name, description, inputSchema, outputSchema, annotations });
  if (Object.isFrozen(definition)) hashes.set(definition, hash);
  return hash;
}

/** Of the canonical JSON. @throws RangeError for values that are nested beyond all measure */
export function sha256(value: JsonValue): string {
  return createHash('sha256').update(canonicalJson(value)).digest('hex');
}
