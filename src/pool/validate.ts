import type { Ajv, ErrorObject, Options, ValidateFunction } from 'ajv';
import type { Ajv2020 } from 'ajv/dist/2020.js';
import { isJsonObject, type JsonValue } from '../base/json.ts';
import { runBounded, wasStopped } from './bounded-run.ts';
import { schemaShape } from './schema-shape.ts';

/** What is wrong with the value, or null. Never repeats the value itself. */
export type Validator = (value: JsonValue) => string | null;

export interface SchemaLimits {
  readonly maxSchemaBytes: number;
  readonly maxSchemaDepth: number;
  readonly validationTimeoutMs: number;
}

/*
 * Schemas come from servers and are not trusted. Guarded: their size and nesting; references leave nothing but the
 * schema itself (no network, `$data` off); compiling, and checking by any schema whose keywords can cost more than a
 * pass over the value (patterns, references, uniqueItems, …), are stopped after `validationTimeoutMs`, so a regular
 * expression that backtracks without end costs that time and fails the call. Not guarded: `format` is not checked at
 * all, and a server may describe a tool wrongly.
 */
const options: Options = {
  strict: false,
  allErrors: false,
  logger: false,
  meta: false,
  validateSchema: false,
  validateFormats: false,
  ownProperties: true,
  code: { regExp: Object.assign(lenientRegExp, { code: 'new RegExp' }) },
};

// Patterns are meant to be read with the `u` flag; many in the wild are only valid without it.
function lenientRegExp(pattern: string, flags: string): RegExp {
  try {
    return new RegExp(pattern, flags);
  } catch {
    return new RegExp(pattern);
  }
}

type Dialect = 'draft-07' | '2020-12';

export class SchemaCompiler {
  readonly #limits: SchemaLimits;
  readonly #library: { Ajv: typeof Ajv; Ajv2020: typeof Ajv2020 };
  readonly #engines: Partial<Record<Dialect, Ajv | Ajv2020>> = {};

  constructor(limits: SchemaLimits, library: { Ajv: typeof Ajv; Ajv2020: typeof Ajv2020 }) {
    this.#limits = limits;
    this.#library = library;
  }

  /** Loads ajv; it costs tens of milliseconds, so not before there is something to check. */
  static async load(limits: SchemaLimits): Promise<SchemaCompiler> {
    const [{ Ajv }, { Ajv2020 }] = await Promise.all([import('ajv'), import('ajv/dist/2020.js')]);
    return new SchemaCompiler(limits, { Ajv, Ajv2020 });
  }

  /** @throws Error that says why the schema cannot be used */
  compile(schema: JsonValue, subject: string): Validator {
    if (!isJsonObject(schema)) throw new Error('the schema is not an object');
    const { maxSchemaBytes, maxSchemaDepth } = this.#limits;
    const shape = schemaShape(schema, maxSchemaDepth);
    if (shape.depth > maxSchemaDepth) throw new Error(`the schema is nested deeper than ${maxSchemaDepth} levels`);
    const bytes = Buffer.byteLength(JSON.stringify(schema));
    if (bytes > maxSchemaBytes) throw new Error(`the schema has ${bytes} bytes, at most ${maxSchemaBytes} are allowed`);
    const { $schema: declared, ...body } = schema;
    return this.#validator(this.#compileAs(dialects(declared), body, shape.named), shape.costly, subject);
  }

  #compileAs([dialect, ...others]: Dialect[], schema: object, named: boolean): ValidateFunction {
    try {
      return this.#compileIn(dialect as Dialect, schema, named);
    } catch (error) {
      if (others.length === 0) throw error;
      return this.#compileAs(others, schema, named);
    }
  }

  // Names would stay in the engine and be found by other servers' schemas, so a schema with names gets its own.
  #compileIn(dialect: Dialect, schema: object, named: boolean): ValidateFunction {
    const Engine = dialect === '2020-12' ? this.#library.Ajv2020 : this.#library.Ajv;
    let engine = named ? undefined : this.#engines[dialect];
    delete this.#engines[dialect];
    const compile = () => {
      const used = engine ?? new Engine(options);
      engine = undefined; // being stopped skips the line below: one that is half-way through is not used again
      try {
        return used.compile(schema);
      } finally {
        engine = used;
      }
    };
    try {
      return runBounded(compile, this.#limits.validationTimeoutMs);
    } catch (error) {
      if (!wasStopped(error)) throw error;
      throw new Error(`compiling the schema took longer than ${this.#limits.validationTimeoutMs} ms`);
    } finally {
      engine?.removeSchema(schema); // otherwise every schema ever seen stays in the engine
      if (engine && !named) this.#engines[dialect] = engine;
    }
  }

  #validator(check: ValidateFunction, isCostly: boolean, subject: string): Validator {
    const { validationTimeoutMs } = this.#limits;
    return (value) => {
      try {
        const valid = isCostly ? runBounded(() => check(value), validationTimeoutMs) : check(value);
        return valid ? null : describe(check.errors?.[0], subject);
      } catch (error) {
        if (wasStopped(error)) return `${subject} could not be checked within ${validationTimeoutMs} ms`;
        // A schema that refers to itself runs out of stack.
        return `${subject} could not be checked: ${error instanceof RangeError ? 'nested too deeply' : 'internal error'}`;
      }
    };
  }
}

// Without a declaration the protocol says 2020-12, and servers mean draft-07 as often.
function dialects(declared: JsonValue | undefined): Dialect[] {
  if (typeof declared !== 'string') return ['2020-12', 'draft-07'];
  return declared.includes('2020-12') ? ['2020-12'] : ['draft-07'];
}

const MAX_LISTED_CHARS = 200;

function describe(error: ErrorObject | undefined, subject: string): string {
  if (error === undefined) return `${subject} is not valid`;
  const { allowedValues, additionalProperty } = error.params as {
    allowedValues?: unknown;
    additionalProperty?: unknown;
  };
  const details =
    allowedValues !== undefined
      ? `: ${JSON.stringify(allowedValues).slice(0, MAX_LISTED_CHARS).toWellFormed()}`
      : typeof additionalProperty === 'string'
        ? `: ${JSON.stringify(additionalProperty).slice(0, MAX_LISTED_CHARS).toWellFormed()}`
        : '';
  return `${subject}${error.instancePath.slice(0, MAX_LISTED_CHARS)} ${error.message ?? 'is not valid'}${details}`;
}
