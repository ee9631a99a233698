import { isJsonObject, type JsonObject, type JsonValue } from '../../../base/json.ts';

/** A tool parameter that is mirrored in an HTTP header for intermediaries in front of the server. */
export interface HeaderParameter {
  readonly path: readonly string[];
  /** In lower case. */
  readonly header: string;
}

export type CallHeaders = Readonly<Record<string, string>>;

export const NO_HEADERS: CallHeaders = Object.freeze({});

const ANNOTATION = 'x-mcp-header';
const PREFIX = 'mcp-param-';
const token = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
const types: ReadonlySet<JsonValue | undefined> = new Set(['string', 'integer', 'boolean']);
/** Keywords whose subschemas may not apply to a call, so that its headers cannot be derived from the arguments. */
const conditional = [
  'items',
  'prefixItems',
  'contains',
  'additionalProperties',
  'unevaluatedProperties',
  'unevaluatedItems',
  'propertyNames',
  'oneOf',
  'anyOf',
  'allOf',
  'not',
  'if',
  'then',
  'else',
] as const;
const conditionalByName = ['patternProperties', 'dependentSchemas', '$defs', 'definitions'] as const;
/** Schemas are bounded before; this bounds the recursion here. */
const MAX_DEPTH = 512;

/** @throws Error naming the declaration that violates the protocol: such a tool must not be offered */
export function headerParameters(inputSchema: JsonObject): readonly HeaderParameter[] {
  const found: HeaderParameter[] = [];
  const names = new Set<string>();
  visit(inputSchema, [], true, (path, schema, isPlain) => {
    const name = schema[ANNOTATION];
    const where = path.length === 0 ? 'the schema itself' : `"${path.join('.')}"`;
    if (!isPlain || path.length === 0) throw new Error(`${ANNOTATION} of ${where}: allowed only on plain properties`);
    if (typeof name !== 'string' || !token.test(name)) {
      throw new Error(`${ANNOTATION} of ${where} is not a valid header name`);
    }
    if (!types.has(schema.type)) {
      throw new Error(`${ANNOTATION} of ${where}: allowed only on a string, an integer or a boolean`);
    }
    const header = `${PREFIX}${name.toLowerCase()}`;
    if (names.has(header)) throw new Error(`${ANNOTATION} of ${where}: another property uses the same header name`);
    names.add(header);
    found.push({ path, header });
  });
  return found;
}

type Visitor = (path: readonly string[], schema: JsonObject, isPlain: boolean) => void;

function visit(schema: JsonValue | undefined, path: readonly string[], isPlain: boolean, visitor: Visitor): void {
  if (!isJsonObject(schema)) return;
  if (path.length > MAX_DEPTH) throw new Error('the schema is nested too deeply');
  if (Object.hasOwn(schema, ANNOTATION)) visitor(path, schema, isPlain);
  for (const [name, property] of entries(schema.properties)) visit(property, [...path, name], isPlain, visitor);
  for (const keyword of conditional) {
    const below = schema[keyword];
    for (const part of Array.isArray(below) ? below : [below]) visit(part, [...path, keyword], false, visitor);
  }
  for (const keyword of conditionalByName) {
    for (const [, part] of entries(schema[keyword])) visit(part, [...path, keyword], false, visitor);
  }
}

function entries(value: JsonValue | undefined): [string, JsonValue][] {
  return isJsonObject(value) ? Object.entries(value) : [];
}

/** Headers of one call: its trace context, and the mirrored parameters that are present. */
export function callHeaders(
  parameters: readonly HeaderParameter[],
  args: JsonObject,
  traceparent?: string | undefined,
): CallHeaders {
  if (parameters.length === 0 && traceparent === undefined) return NO_HEADERS;
  const headers: Record<string, string> = traceparent === undefined ? {} : { traceparent };
  for (const { path, header } of parameters) {
    const text = headerText(valueAt(args, path));
    if (text !== null) headers[header] = encodedHeader(text);
  }
  return headers;
}

function valueAt(args: JsonObject, path: readonly string[]): JsonValue | undefined {
  let value: JsonValue | undefined = args;
  for (const name of path) value = isJsonObject(value) && Object.hasOwn(value, name) ? value[name] : undefined;
  return value;
}

function headerText(value: JsonValue | undefined): string | null {
  if (typeof value === 'string') return value;
  if (typeof value === 'boolean') return String(value);
  if (typeof value !== 'number' || (Number.isInteger(value) && !Number.isSafeInteger(value))) return null;
  return String(value);
}

const plainText = /^[\t\x20-\x7e]+$/;

/** Encodes text that a header cannot hold, and text that looks encoded. */
export function encodedHeader(text: string): string {
  const isEncoded = text.startsWith('=?base64?') && text.endsWith('?=');
  if (plainText.test(text) && text.trim() === text && !isEncoded) return text;
  return `=?base64?${Buffer.from(text, 'utf8').toString('base64')}?=`;
}
