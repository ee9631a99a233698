import { errorText } from '../../../../base/error-text.ts';
import type { JsonObject, JsonValue } from '../../../../base/json.ts';
import { type ObjectRepairs, repaired, repairsOf } from './arguments.ts';
import { SchemaCompiler, type Validator } from './compile.ts';
import type { SchemaThread } from './schema-thread.ts';

/** Nothing is wrong, what is wrong, or why nobody could tell. */
export type Verdict = null | { readonly problem: string } | { readonly unchecked: string };

export interface SchemaLimits {
  readonly maxSchemaBytes: number;
  readonly maxSchemaDepth: number;
  readonly validationTimeoutMs: number;
}

/** A tool that asks for this is not one that somebody made by mistake. It is not offered at all. */
export class HostileSchemaError extends Error {}

/** Of a server: after so many schemas that took too long, its dear ones are not tried any more. */
const MAX_STRIKES = 3;

/** What the schemas of one server have cost. */
export class SchemaStrikes {
  #count = 0;

  get isOut(): boolean {
    return this.#count >= MAX_STRIKES;
  }

  add(): void {
    this.#count += 1;
  }
}

/** Values that the host's own thread checks: entries, with a long text counting as several. */
const SMALL_VALUE = 4_096;
const CHARS_PER_ENTRY = 64;
/** More than this is not even handed to the thread: to write it as JSON would hold up this one. */
const MAX_CHECKED_CHARS = 4 * 1024 * 1024;
const MAX_CHECKED_ENTRIES = 100_000;

/** Arguments that take too long are refused; a result that does was earned by its call and is passed on. */
export type CheckSubject = 'arguments' | 'structuredContent';

let nextKey = 1;

/**
 * One schema of a tool. Compiled when it is first asked: on the host's thread if its shape proves it cheap and the
 * value is small, in the thread for schemas otherwise. Neither a schema nor a value can hold up the host.
 */
export class SchemaCheck {
  readonly #schema: JsonObject;
  readonly #subject: CheckSubject;
  readonly #shape: SchemaShape;
  readonly #engine: SchemaEngine;
  readonly #strikes: SchemaStrikes;
  readonly #key = `schema-${nextKey++}`;
  #validator: Validator | null = null;
  /** Undefined: nobody asked yet. */
  #repairs: ObjectRepairs | null | undefined;
  /** As JSON; made when it is first handed to the thread. */
  #text: string | null = null;
  /** Why it cannot be used; what was found out once is not tried again. */
  #unusable: string | null = null;
  /** The thread has compiled it in time before. */
  #known = false;

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

  /** The arguments as they are checked and sent: the same object, unless something in them can be mended. */
  prepared(args: JsonObject): JsonObject {
    if (this.#repairs === undefined) this.#repairs = repairsOf(this.#schema);
    return this.#repairs === null ? args : repaired(args, this.#repairs);
  }

  /** At once for a cheap schema and a small value. */
  check(value: JsonValue): Verdict | Promise<Verdict> {
    if (this.#unusable !== null) return { unchecked: this.#unusable };
    if (!this.#shape.cheap || !fits(value, SMALL_VALUE)) return this.#askThread(value);
    const validator = this.#compiled();
    return validator === null
      ? { unchecked: this.#unusable ?? '' }
      : verdict(validator.problem(value), validator.unused);
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

  async #askThread(value: JsonValue): Promise<Verdict> {
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
    const ask = async (what: string | null) => {
      const answer = await thread.ask({ ...about, value: what }, limits.validationTimeoutMs);
      if (answer === 'too_dear') this.#strikes.add();
      return answer;
    };
    if (!this.#known) {
      const compiled = await ask(null);
      if (compiled === 'too_dear')
        this.#unusable = `compiling the schema took longer than ${limits.validationTimeoutMs} ms`;
      else if (compiled.kind === 'unusable') this.#unusable = compiled.why;
      if (this.#unusable !== null) return { unchecked: this.#unusable };
      this.#known = true;
    }
    const answer = await ask(text);
    if (answer === 'too_dear') {
      const late = `${this.#subject} could not be validated within ${limits.validationTimeoutMs} ms`;
      return this.#subject === 'arguments' ? { problem: late } : { unchecked: late };
    }
    return answer.kind === 'checked' ? verdict(answer.problem, answer.unused) : { unchecked: answer.why };
  }
}

/** A value that is right by a part of the schema was not checked by the rest of it. */
function verdict(problem: string | null, unused: string | null): Verdict {
  if (problem !== null) return { problem };
  return unused === null
    ? null
    : { unchecked: `part of the schema cannot be used; only the rest is validated: ${unused}` };
}

/** What all schemas of a pool share. */
export interface SchemaEngine {
  readonly compiler: SchemaCompiler;
  readonly thread: SchemaThread;
  readonly limits: SchemaLimits;
}

export async function loadSchemaEngine(thread: SchemaThread, limits: SchemaLimits): Promise<SchemaEngine> {
  return { compiler: await SchemaCompiler.load(), thread, limits };
}

/** Whether a value has at most so many entries, with a long text counting as several. */
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

/** Null for what is nested so deeply that it can be read but not written. */
function asJson(value: JsonValue): string | null {
  try {
    return JSON.stringify(value);
  } catch {
    return null;
  }
}

/** Keywords whose cost is not bounded by the size of the value. As names of properties they only cost a little time. */
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

/** What the host's own thread takes upon itself: compiling it takes a few milliseconds, checking a small value less. */
const cheap = { keys: 600, branches: 16, enumValues: 64 } as const;

/** Of a schema that is used at all; to look at so many takes this thread some milliseconds. */
export const MAX_SCHEMA_PARTS = 100_000;

export interface SchemaShape {
  readonly depth: number;
  /** Whether it has more than {@link MAX_SCHEMA_PARTS}: then nobody has looked at all of them. */
  readonly tooLarge: boolean;
  /** Whether it may be compiled, and small values be checked against it, on the host's own thread. */
  readonly cheap: boolean;
  /** Whether it gives names to itself or its parts, which other schemas could refer to. */
  readonly named: boolean;
  /** `$async` makes a validator answer with a promise, which counts as true: no schema of a tool has a use for it. */
  readonly async: boolean;
}

/** Looks at a schema without recursion, and no deeper than `maxDepth`. */
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
      // Not its entries: of an object with very many properties they would take longer than everything else here.
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

/**
 * Whether a schema has at most so many keys once each reference to its own definitions is replaced by what it names.
 * One that goes round in a circle never does, nor one that refers to anything else.
 */
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
