/**
 * Normalises JSON schemas of MCP servers to the form that ajv accepts.
 *
 * Handles OpenAPI's `nullable`, draft 4's boolean `exclusiveMinimum`, draft 3's `required: true`, invalid types, and
 * references that lead nowhere. Meaningless keywords are removed and reported; the rest is validated. The result is only
 * for validation: the model and the guest get the schema of the server. The input is bounded by the caller (checks.ts).
 */

import { isJsonObject, type JsonObject, type JsonValue } from '../../../../base/json.ts';
import { cutText } from '../../../../base/text.ts';

interface NormalisedSchema {
  readonly schema: JsonObject;
  /** The first part that was removed; null: none. */
  readonly unused: string | null;
}

/**
 * `names`: whether to retain `$id`, anchors, and references by name. Without them each reference is a JSON pointer, and
 * its target becomes a definition.
 */
export function normalise(schema: JsonObject, { names }: { readonly names: boolean }): NormalisedSchema {
  return new Normaliser(schema, names).run();
}

/** Keywords by the kind of value that they have. Other keywords stay unchanged. `format` is not validated. */
const keywords = {
  data: ['default', 'example', 'examples', 'format'],
  schema: [
    ...['additionalItems', 'additionalProperties', 'contains', 'else', 'if', 'not', 'propertyNames', 'then'],
    ...['unevaluatedItems', 'unevaluatedProperties'],
  ],
  schemas: ['allOf', 'anyOf', 'oneOf', 'prefixItems'],
  'schema or schemas': ['items'],
  map: ['dependentSchemas', 'patternProperties', 'properties'],
  definitions: ['$defs', 'definitions'],
  number: [
    ...['maxContains', 'maxItems', 'maxLength', 'maxProperties', 'minContains', 'minItems', 'minLength'],
    ...['minProperties', 'multipleOf'],
  ],
  flag: ['uniqueItems'],
  pattern: ['pattern'],
  'texts by name': ['dependentRequired'],
  name: ['$anchor', '$dynamicAnchor', '$dynamicRef', '$id', '$recursiveAnchor', '$recursiveRef'],
  'old name': ['id'],
};

type Form = keyof typeof keywords;

const forms: ReadonlyMap<string, Form> = new Map(
  Object.entries(keywords).flatMap(([form, names]) => names.map((name) => [name, form as Form])),
);

const types: ReadonlySet<JsonValue> = new Set(['array', 'boolean', 'integer', 'null', 'number', 'object', 'string']);
const MAX_SHOWN_CHARS = 100;

type Entry = [keyword: string, value: JsonValue];

class Normaliser {
  readonly #root: JsonObject;
  readonly #names: boolean;
  /** By reference. */
  readonly #definitions = new Map<string, { readonly name: string; readonly target: JsonValue }>();
  #unused: string | null = null;

  constructor(root: JsonObject, names: boolean) {
    this.#root = root;
    this.#names = names;
  }

  run(): NormalisedSchema {
    const { nullable: _, ...root } = this.#root; // the root value is never null
    const schema = this.#schema(root) as JsonObject;
    const definitions: Entry[] = [];
    // The map grows during the loop: definitions refer to others.
    for (const { name, target } of this.#definitions.values()) definitions.push([name, this.#schema(target) ?? true]);
    const whole = definitions.length === 0 ? schema : { ...schema, $defs: Object.fromEntries(definitions) };
    return { schema: whole, unused: this.#unused };
  }

  /** Undefined: not a schema. */
  #schema(schema: JsonValue): JsonValue | undefined {
    if (typeof schema === 'boolean') return schema;
    if (!isJsonObject(schema)) return undefined;
    const entries = Object.entries(schema).flatMap(([keyword, value]) => this.#keyword(keyword, value, schema));
    const required = requiredByProperties(schema);
    const own = required.length === 0 ? entries : requiring(entries, required);
    return schema.nullable === true ? orNull(own) : Object.fromEntries(own);
  }

  #keyword(keyword: string, value: JsonValue, beside: JsonObject): Entry[] {
    switch (keyword) {
      case '$ref':
        return this.#reference(value);
      case 'type':
        return this.#type(value);
      case 'nullable':
        return [];
      case 'enum':
        return Array.isArray(value) && value.length > 0 ? [[keyword, value]] : this.#remove(keyword, value);
      case 'required':
        return this.#required(value);
      case 'dependencies':
        return this.#dependencies(value);
      case 'maximum':
      case 'minimum': {
        const isExclusive = beside[keyword === 'maximum' ? 'exclusiveMaximum' : 'exclusiveMinimum'] === true;
        if (typeof value !== 'number') return this.#remove(keyword, value);
        return isExclusive ? [] : [[keyword, value]];
      }
      case 'exclusiveMaximum':
      case 'exclusiveMinimum': {
        const bound = value === true ? beside[keyword === 'exclusiveMaximum' ? 'maximum' : 'minimum'] : value;
        if (typeof bound === 'number') return [[keyword, bound]];
        return typeof value === 'boolean' ? [] : this.#remove(keyword, value);
      }
      default:
        return this.#byForm(keyword, value);
    }
  }

  #byForm(keyword: string, value: JsonValue): Entry[] {
    const retained = (made: JsonValue | undefined): Entry[] =>
      made === undefined ? this.#remove(keyword, value) : [[keyword, made]];
    switch (forms.get(keyword)) {
      case undefined:
        return [[keyword, value]];
      case 'data':
      case 'old name':
        return [];
      case 'name':
        return this.#names ? [[keyword, value]] : [];
      case 'definitions':
        return this.#names ? retained(this.#map(value, keyword)) : [];
      case 'map':
        return retained(this.#map(value, keyword));
      case 'schema':
        return retained(this.#schema(value));
      case 'schemas':
        return retained(this.#list(value));
      case 'schema or schemas':
        return retained(Array.isArray(value) ? this.#list(value) : this.#schema(value));
      case 'number':
        return retained(typeof value === 'number' ? value : undefined);
      case 'flag':
        return retained(typeof value === 'boolean' ? value : undefined);
      case 'pattern':
        return retained(isPattern(value) ? value : undefined);
      case 'texts by name':
        return retained(isJsonObject(value) && Object.values(value).every(isTexts) ? value : undefined);
    }
  }

  #map(value: JsonValue, keyword: string): JsonObject | undefined {
    if (!isJsonObject(value)) return undefined;
    return Object.fromEntries(
      Object.entries(value).flatMap(([name, child]): Entry[] => {
        const made = keyword === 'patternProperties' && !isPattern(name) ? undefined : this.#schema(child);
        return made === undefined ? this.#remove(name, child) : [[name, made]];
      }),
    );
  }

  #list(value: JsonValue): JsonValue[] | undefined {
    if (!Array.isArray(value) || value.length === 0) return undefined;
    const made = value.map((child) => this.#schema(child));
    return made.includes(undefined) ? undefined : (made as JsonValue[]);
  }

  #dependencies(value: JsonValue): Entry[] {
    if (!isJsonObject(value)) return this.#remove('dependencies', value);
    const made = Object.entries(value).flatMap(([name, child]): Entry[] => {
      const dependency = isTexts(child) ? child : this.#schema(child);
      return dependency === undefined ? this.#remove('dependencies', child) : [[name, dependency]];
    });
    return [['dependencies', Object.fromEntries(made)]];
  }

  #reference(value: JsonValue): Entry[] {
    if (typeof value === 'string' && (this.#names || value === '#')) return [['$ref', value]];
    const known = typeof value === 'string' ? this.#definitions.get(value) : undefined;
    if (known !== undefined) return [['$ref', `#/$defs/${known.name}`]];
    const target = typeof value === 'string' ? pointedAt(this.#root, value) : undefined;
    if (typeof value !== 'string' || (typeof target !== 'boolean' && !isJsonObject(target))) {
      return this.#remove('$ref', value);
    }
    const name = `d${this.#definitions.size}`;
    this.#definitions.set(value, { name, target });
    return [['$ref', `#/$defs/${name}`]];
  }

  #type(value: JsonValue): Entry[] {
    const named = Array.isArray(value) ? value : [value];
    if (named.includes('any')) return [];
    if (named.length === 0 || !named.every((type) => types.has(type))) return this.#remove('type', value);
    return [['type', value]];
  }

  /** For a boolean see {@link requiredByProperties}. */
  #required(value: JsonValue): Entry[] {
    if (typeof value === 'boolean') return [];
    return isTexts(value) ? [['required', value]] : this.#remove('required', value);
  }

  #remove(keyword: string, value: JsonValue): [] {
    const shown = cutText(JSON.stringify(value), MAX_SHOWN_CHARS);
    this.#unused ??= `its ${cutText(keyword, MAX_SHOWN_CHARS)} ${shown} is not supported`;
    return [];
  }
}

function requiredByProperties({ properties }: JsonObject): string[] {
  if (!isJsonObject(properties)) return [];
  return Object.keys(properties).filter((name) => {
    const property = properties[name];
    return isJsonObject(property) && property.required === true;
  });
}

function requiring(entries: readonly Entry[], names: readonly string[]): Entry[] {
  const others = entries.filter(([keyword]) => keyword !== 'required');
  const before = entries.find(([keyword]) => keyword === 'required')?.[1] ?? [];
  return [...others, ['required', [...new Set([...(before as string[]), ...names])]]];
}

/** Keywords that apply to null as well, so null needs a branch of its own. */
const aboutNull: ReadonlySet<string> = new Set(['$ref', 'allOf', 'anyOf', 'const', 'if', 'not', 'oneOf']);

function orNull(entries: readonly Entry[]): JsonObject {
  // Null comes last, because errors are reported for the first branch.
  if (entries.some(([keyword]) => aboutNull.has(keyword))) {
    return { anyOf: [Object.fromEntries(entries), { type: 'null' }] };
  }
  return Object.fromEntries(
    entries.map(([keyword, value]): Entry => {
      if (keyword === 'type') return [keyword, [...new Set([...[value].flat(), 'null'])]];
      if (keyword === 'enum') return [keyword, [...(value as JsonValue[]), null]];
      return [keyword, value];
    }),
  );
}

const isTexts = (value: JsonValue): value is string[] =>
  Array.isArray(value) && value.every((text) => typeof text === 'string');

function isPattern(value: JsonValue): value is string {
  if (typeof value !== 'string') return false;
  try {
    new RegExp(value);
    return true;
  } catch {
    try {
      new RegExp(value, 'u');
      return true;
    } catch {
      return false;
    }
  }
}

/** The target of a JSON pointer such as `#/$defs/Point`; undefined: none within the schema. */
export function pointedAt(root: JsonObject, reference: string): JsonValue | undefined {
  if (reference === '#') return root;
  if (!reference.startsWith('#/')) return undefined;
  let found: JsonValue | undefined = root;
  for (const part of reference.slice(2).split('/')) {
    const key = unescaped(part);
    if (Array.isArray(found)) found = found[Number(key)];
    else if (isJsonObject(found) && Object.hasOwn(found, key)) found = found[key];
    else return undefined;
  }
  return found;
}

function unescaped(part: string): string {
  try {
    return decodeURIComponent(part).replaceAll('~1', '/').replaceAll('~0', '~');
  } catch {
    return part;
  }
}
