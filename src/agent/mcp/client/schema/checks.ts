/**
 * Validation of tool arguments and results against the schemas of MCP servers.
 *
 * Neither schema nor value is trusted. A schema whose shape is cheap is compiled on the main thread, and small values are
 * validated there; everything else runs on the schema thread with a timeout. Size and depth are bounded before that. A
 * server whose schemas exceed the time too often gets no expensive validation any more ({@link SchemaStrikes}).
 */
import { errorText } from '../../../../base/errors.ts';
import type { JsonObject, JsonValue } from '../../../../base/json.ts';
import { type ObjectRepairs, repairedArguments, repairsOf } from './arguments.ts';
import { SchemaCompiler, type Validator } from './compile.ts';
import type { SchemaThread } from './schema-thread.ts';

/** Null: valid. `unchecked`: why the value was not validated. */
export type ValidationResult = null | { readonly problem: string } | { readonly unchecked: string };

interface SchemaLimits {
  readonly maxSchemaBytes: number;
  readonly maxSchemaDepth: number;
  readonly validationTimeoutMs: number;
}

/** A schema that no server sends by mistake. Its tool is not offered. */
export class HostileSchemaError extends Error {}

/** Timeouts of the schemas of one server until its expensive schemas are no longer used. */
const MAX_STRIKES = 3;

/** Counts the timeouts of the schemas of one server. */
export class SchemaStrikes {
  #count = 0;

  get isOut(): boolean {
    return this.#count >= MAX_STRIKES;
  }

  add(): void {
    this.#count += 1;
  }
}

/** Size of values for the main thread, in entries; a long text counts as several. */
const SMALL_VALUE = 4_096;
const CHARS_PER_ENTRY = 64;
/** Larger values are not validated: serializing them would block the main thread. */
const MAX_CHECKED_CHARS = 4 * 1024 * 1024;
const MAX_CHECKED_ENTRIES = 100_000;

/** After a timeout, arguments are rejected; a result is passed on, because the call has taken effect. */
type CheckSubject = 'arguments' | 'structuredContent';

let nextKey = 1;

/** One schema of a tool; compiled when it is first used. */
export class SchemaCheck {
  readonly #schema: JsonObject;
  readonly #subject: CheckSubject;
  readonly #shape: SchemaShape;
  readonly #engine: SchemaEngine;
  readonly #strikes: SchemaStrikes;
  readonly #key = `schema-${nextKey++}`;
  #validator: Validator | null = null;
  /** Undefined: not computed yet. */
  #repairs: ObjectRepairs | null | undefined;
  /** The schema as JSON, for the schema thread. */
  #text: string | null = null;
  /** Why the schema cannot be used; final. */
  #unusable: string | null = null;
  /** The schema thread compiled it in time. */
  #isCompiled = false;

  constructor(schema: JsonObject, subject: CheckSubject, engine: SchemaEngine, strikes: SchemaStrikes) {
    this.#schema = schema;
    this.#subject = subject;
    this.#engine = engine;
    this.#strikes = strikes;
    const { maxSchemaDepth } = engine.limits;
    this.#shape = schemaShape(schema, maxSchemaDepth);
    if (this.#shape.async) throw new HostileSchemaError('the schema has $async');
    if (this.#shape.depth > maxSchemaDepth) {
      throw new HostileSchemaError(`the schema is nested deeper than ${maxSchemaDepth} levels`);
    }
    if (this.#shape.tooLarge) {
      this.#unusable = `the schema has more than ${MAX_SCHEMA_PARTS} parts`;
    }
  }

  /** The arguments to validate and send: the same object, unless something needs a repair. */
  prepared(args: JsonObject): JsonObject {
    if (this.#repairs === undefined) this.#repairs = repairsOf(this.#schema);
    return this.#repairs === null ? args : repairedArguments(args, this.#repairs);
  }

  /** Synchronous for a cheap schema and a small value. */
  check(value: JsonValue): ValidationResult | Promise<ValidationResult> {
    if (this.#unusable !== null) return { unchecked: this.#unusable };
    if (!this.#shape.cheap || !fits(value, SMALL_VALUE)) return this.#checkOnThread(value);
    const validator = this.#compiled();
    return validator === null
      ? { unchecked: this.#unusable ?? '' }
      : validationResult(validator.problem(value), validator.unused);
  }

  #compiled(): Validator | null {
    if (this.#validator !== null) return this.#validator;
    try {
      this.#validator = this.#engine.compiler.compile(this.#schema, this.#shape.named, this.#subject);
    } catch (error) {
      this.#unusable = errorText(error);
    }
    return this.#validator;
  }

  async #checkOnThread(value: JsonValue): Promise<ValidationResult> {
    if (this.#strikes.isOut) return { unchecked: "validation against this server's schemas took too long before" };
    if (!fits(value, MAX_CHECKED_ENTRIES)) {
      return { unchecked: `the value has more than ${MAX_CHECKED_ENTRIES} entries, or a string of that length` };
    }
    const text = asJson(value);
    if (text === null || text.length > MAX_CHECKED_CHARS) {
      return {
        unchecked: `the value has more than ${MAX_CHECKED_CHARS} characters, or is nested too deeply`,
      };
    }
    const { limits, thread } = this.#engine;
    this.#text ??= JSON.stringify(this.#schema);
    if (this.#text.length > limits.maxSchemaBytes) {
      this.#unusable = `the schema has ${this.#text.length} characters; the limit is ${limits.maxSchemaBytes}`;
      return { unchecked: this.#unusable };
    }
    const about = { key: this.#key, schema: this.#text, named: this.#shape.named, subject: this.#subject };
    const request = async (json: string | null) => {
      const response = await thread.validate({ ...about, value: json }, limits.validationTimeoutMs);
      if (response === 'too_expensive') this.#strikes.add();
      return response;
    };
    if (!this.#isCompiled) {
      const compiled = await request(null);
      if (compiled === 'too_expensive')
        this.#unusable = `compiling the schema took longer than ${limits.validationTimeoutMs} ms`;
      else if (compiled.kind === 'unusable') this.#unusable = compiled.why;
      if (this.#unusable !== null) return { unchecked: this.#unusable };
      this.#isCompiled = true;
    }
    const response = await request(text);
    if (response === 'too_expensive') {
      const late = `${this.#subject} could not be validated within ${limits.validationTimeoutMs} ms`;
      return this.#subject === 'arguments' ? { problem: late } : { unchecked: late };
    }
    return response.kind === 'checked'
      ? validationResult(response.problem, response.unused)
      : { unchecked: response.why };
  }
}

/** A value that is valid against part of the schema is reported as not fully validated. */
function validationResult(problem: string | null, unused: string | null): ValidationResult {
  if (problem !== null) return { problem };
  return unused === null
    ? null
    : { unchecked: `part of the schema cannot be used; only the rest is validated: ${unused}` };
}

/** Shared by all schemas of a pool. */
export interface SchemaEngine {
  readonly compiler: SchemaCompiler;
  readonly thread: SchemaThread;
  readonly limits: SchemaLimits;
}

export async function loadSchemaEngine(thread: SchemaThread, limits: SchemaLimits): Promise<SchemaEngine> {
  return { compiler: await SchemaCompiler.load(), thread, limits };
}

/** Whether a value has at most this many entries; a long text counts as several. */
function fits(value: JsonValue, entries: number): boolean {
  let room = entries;
  const open: JsonValue[] = [value];
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    room -= 1;
    if (typeof next === 'string') room -= next.length / CHARS_PER_ENTRY;
    if (room < 0) return false;
    if (typeof next !== 'object' || next === null) continue;
    const children = Array.isArray(next) ? next : Object.values(next);
    if (children.length > room) return false;
    for (const child of children) open.push(child);
  }
  return true;
}

/** Null: the value is nested too deeply for JSON.stringify. */
function asJson(value: JsonValue): string | null {
  try {
    return JSON.stringify(value);
  } catch {
    return null;
  }
}

/** Keywords whose cost is not bounded by the size of the value. Properties with these names count as well, which is harmless. */
const costly: ReadonlySet<string> = new Set([
  '$dynamicRef',
  '$recursiveRef',
  'contains',
  'pattern',
  'patternProperties',
  'propertyNames',
  'unevaluatedItems',
  'unevaluatedProperties',
  'uniqueItems',
]);
const branching: ReadonlySet<string> = new Set(['allOf', 'anyOf', 'dependentSchemas', 'if', 'not', 'oneOf']);
const identifying: ReadonlySet<string> = new Set(['$anchor', '$dynamicAnchor', '$id', '$recursiveAnchor']);

/** Limits for the main thread: compiling takes a few milliseconds, validating a small value less. */
const cheap = { keys: 600, branches: 16, enumValues: 64 } as const;

/** Larger schemas are not used. Counting this many parts takes a few milliseconds. */
const MAX_SCHEMA_PARTS = 100_000;

interface SchemaShape {
  readonly depth: number;
  /** Whether it has more than {@link MAX_SCHEMA_PARTS}; the rest was not read. */
  readonly tooLarge: boolean;
  /** Whether the main thread may compile it and validate small values. */
  readonly cheap: boolean;
  /** Whether it has names that other schemas could refer to. */
  readonly named: boolean;
  /** `$async` makes a validator return a promise, which is truthy. */
  readonly async: boolean;
}

/** Measures a schema without recursion, no deeper than `maxDepth`. */
export function schemaShape(schema: unknown, maxDepth: number): SchemaShape {
  let depth = 0;
  let keys = 0;
  let branches = 0;
  let enumValues = 0;
  let isCostly = false;
  let named = false;
  let isAsync = false;
  let refers = false;
  let level: unknown[] = [schema];
  while (level.length > 0 && depth <= maxDepth && keys <= MAX_SCHEMA_PARTS) {
    const next: unknown[] = [];
    for (const node of level) {
      if (keys > MAX_SCHEMA_PARTS) break;
      if (Array.isArray(node)) {
        keys += node.length;
        for (const child of keys > MAX_SCHEMA_PARTS ? [] : node) if (isNode(child)) next.push(child);
        continue;
      }
      const parts = node as Record<string, unknown>;
      // Not Object.entries: slow for an object with very many properties.
      for (const key in parts) {
        const child = parts[key];
        keys += 1;
        if (costly.has(key)) isCostly = true;
        if (branching.has(key)) branches += Array.isArray(child) ? child.length : 1;
        if (identifying.has(key)) named = true;
        if (key === '$async') isAsync = true;
        if (key === '$ref') refers = true;
        if (key === 'enum' && Array.isArray(child)) enumValues = Math.max(enumValues, child.length);
        if (isNode(child)) next.push(child);
      }
    }
    level = next;
    depth += 1;
  }
  const tooLarge = keys > MAX_SCHEMA_PARTS;
  return {
    depth,
    tooLarge,
    cheap:
      !isCostly &&
      !tooLarge &&
      (refers ? expandsTo(schema, cheap.keys) : keys <= cheap.keys) &&
      branches <= cheap.branches &&
      enumValues <= cheap.enumValues,
    named,
    async: isAsync,
  };
}

const isNode = (child: unknown): child is object => typeof child === 'object' && child !== null;

const LOCAL_REFERENCE = /^#\/(\$defs|definitions)\/([\w.-]+)$/;

/** Whether a schema has at most `most` keys with its references expanded. Circular and other references: false. */
function expandsTo(schema: unknown, most: number): boolean {
  let left = most;
  const open: unknown[] = [schema];
  for (let node = open.pop(); node !== undefined; node = open.pop()) {
    for (const [key, child] of Object.entries(node as object)) {
      left -= 1;
      if (left < 0) return false;
      if (key === '$ref') {
        const target = typeof child === 'string' ? definition(schema, child) : undefined;
        if (target === undefined) return false;
        open.push(target);
      } else if (typeof child === 'object' && child !== null && !(node === schema && isDefinitions(key))) {
        open.push(child);
      }
    }
  }
  return true;
}

const isDefinitions = (key: string) => key === '$defs' || key === 'definitions';

function definition(schema: unknown, reference: string): object | undefined {
  const [, group = '', name = ''] = LOCAL_REFERENCE.exec(reference) ?? [];
  const definitions = (schema as Record<string, unknown>)[group];
  if (typeof definitions !== 'object' || definitions === null || !Object.hasOwn(definitions, name)) return undefined;
  const found = (definitions as Record<string, unknown>)[name];
  return typeof found === 'object' && found !== null ? found : undefined;
}
