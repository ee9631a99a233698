import { errorText } from '../../../../base/error-text.ts';
import type { JsonObject, JsonValue } from '../../../../base/json.ts';
import { type ObjectRepairs, repaired, repairsOf } from './arguments.ts';
import { SchemaCompiler, type Validator } from './compile.ts';
import type { SchemaThread } from './schema-thread.ts';
import { MAX_SCHEMA_PARTS, type SchemaShape, schemaShape } from './shape.ts';

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
