import { isJsonObject, type JsonObject, type JsonValue } from '../../../../base/json.ts';
import { pointedAt } from './normalise.ts';

/** Depth of nested objects, and of chained references. */
const MAX_DEPTH = 8;
/** Parts of a schema that are read; arguments of the others are sent unchanged. */
const MAX_PARTS = 2_000;

/**
 * Repairs of two frequent mistakes of models, made before the arguments are validated: a missing required property gets
 * its default, and a null is removed if the property is optional and not nullable.
 */
export interface ObjectRepairs {
  /** Null: none. */
  readonly defaults: ReadonlyMap<string, JsonValue> | null;
  readonly notNull: ReadonlySet<string> | null;
  readonly nested: ReadonlyMap<string, ObjectRepairs> | null;
}

/** Null: nothing can need a repair. */
export function repairsOf(schema: JsonObject): ObjectRepairs | null {
  return new RepairReader(schema).repairs(schema, MAX_DEPTH);
}

/** Returns the same object if nothing needs a repair, else a copy. */
export function repairedArguments(args: JsonObject, repairs: ObjectRepairs): JsonObject {
  let result = args;
  const own = () => {
    if (result === args) result = { ...args };
    return result;
  };
  const { defaults, notNull, nested } = repairs;
  if (notNull !== null || nested !== null) {
    for (const name in args) {
      const value = args[name] as JsonValue;
      if (value === null) {
        if (notNull?.has(name) === true) delete own()[name];
      } else if (nested !== null && isJsonObject(value)) {
        const inner = nested.get(name);
        const better = inner === undefined ? value : repairedArguments(value, inner);
        if (better !== value) own()[name] = better;
      }
    }
  }
  if (defaults !== null) {
    for (const [name, value] of defaults) if (!Object.hasOwn(args, name)) own()[name] = value;
  }
  return result;
}

class RepairReader {
  readonly #root: JsonObject;
  #left = MAX_PARTS;

  constructor(root: JsonObject) {
    this.#root = root;
  }

  repairs(given: JsonValue, depth: number): ObjectRepairs | null {
    const schema = this.#resolved(given, depth);
    if (schema === null || !isJsonObject(schema.properties) || depth === 0) return null;
    const required = new Set(Array.isArray(schema.required) ? schema.required : []);
    const defaults = new Map<string, JsonValue>();
    const notNull = new Set<string>();
    const nested = new Map<string, ObjectRepairs>();
    // Assigning __proto__ sets no property.
    const properties = Object.entries(schema.properties).filter(([name]) => name !== '__proto__');
    for (const [name, property] of properties) {
      if (--this.#left < 0) break;
      if (!isJsonObject(property)) continue;
      const isRequired = required.has(name) || property.required === true;
      if (isRequired && property.default !== undefined) defaults.set(name, property.default);
      if (!isRequired && this.#refusesNull(property, depth)) notNull.add(name);
    }
    // After the outer properties, which matter more if the schema is too large.
    for (const [name, property] of properties) {
      if (this.#left < 0) break;
      const inner = this.repairs(property, depth - 1);
      if (inner !== null) nested.set(name, inner);
    }
    if (defaults.size + notNull.size + nested.size === 0) return null;
    return {
      defaults: defaults.size === 0 ? null : defaults,
      notNull: notNull.size === 0 ? null : notNull,
      nested: nested.size === 0 ? null : nested,
    };
  }

  /** Whether a schema certainly rejects null. */
  #refusesNull(schema: JsonValue, depth: number): boolean {
    if (--this.#left < 0 || depth === 0 || !isJsonObject(schema) || schema.nullable === true) return false;
    const { type, enum: values, anyOf, oneOf, allOf, $ref: reference } = schema;
    const refuses = (other: JsonValue) => this.#refusesNull(other, depth - 1);
    if (typeof type === 'string' && nonNull.has(type)) return true;
    if (Array.isArray(type) && type.length > 0 && type.every((one) => nonNull.has(one))) return true;
    if (Array.isArray(values) && values.length > 0 && !values.includes(null)) return true;
    if (Array.isArray(anyOf) && anyOf.length > 0 && anyOf.every(refuses)) return true;
    if (Array.isArray(oneOf) && oneOf.length > 0 && oneOf.every(refuses)) return true;
    if (Array.isArray(allOf) && allOf.some(refuses)) return true;
    const target = typeof reference === 'string' ? pointedAt(this.#root, reference) : undefined;
    return target !== undefined && refuses(target);
  }

  #resolved(schema: JsonValue, depth: number): JsonObject | null {
    let found: JsonValue | undefined = schema;
    for (let left = depth; left > 0 && isJsonObject(found) && typeof found.$ref === 'string'; left--) {
      found = pointedAt(this.#root, found.$ref);
    }
    return isJsonObject(found) ? found : null;
  }
}

const nonNull: ReadonlySet<JsonValue> = new Set(['array', 'boolean', 'integer', 'number', 'object', 'string']);
