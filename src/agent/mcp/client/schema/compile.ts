import type { Ajv, ErrorObject, Options, ValidateFunction } from 'ajv';
import type { Ajv2020 } from 'ajv/dist/2020.js';
import { cutText } from '../../../../base/cut-text.ts';
import type { JsonObject, JsonValue } from '../../../../base/json.ts';
import { normalise } from './normalise.ts';

export interface Validator {
  /** What is wrong with the value, or null. Never repeats the value itself. */
  readonly problem: (value: JsonValue) => string | null;
  /** What of the schema is not looked at, because it means nothing; null: all of it is. */
  readonly unused: string | null;
}

/*
 * Schemas come from servers and are not trusted. References leave nothing but the schema itself (no network, `$data`
 * off). `format` is not checked at all, and a server may describe a tool wrongly. What bounds the time of all this is
 * where it runs: see checks.ts.
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
  readonly #library: { Ajv: typeof Ajv; Ajv2020: typeof Ajv2020 };
  readonly #engines: Partial<Record<Dialect, Ajv | Ajv2020>> = {};

  constructor(library: { Ajv: typeof Ajv; Ajv2020: typeof Ajv2020 }) {
    this.#library = library;
  }

  /** Loads ajv; it costs tens of milliseconds, so not before there is something to check. */
  static async load(): Promise<SchemaCompiler> {
    const [{ Ajv }, { Ajv2020 }] = await Promise.all([import('ajv'), import('ajv/dist/2020.js')]);
    return new SchemaCompiler({ Ajv, Ajv2020 });
  }

  /** @throws Error that says why the schema cannot be used */
  compile(schema: JsonObject, named: boolean, subject: string): Validator {
    const { $schema: declared, ...body } = schema;
    if (!named) return this.#normalised(body, declared, false, subject);
    try {
      return this.#normalised(body, declared, true, subject);
    } catch {
      // Two parts with one name, or a name in the wrong place: most such schemas have no need of their names.
      return this.#normalised(body, declared, false, subject);
    }
  }

  #normalised(schema: JsonObject, declared: JsonValue | undefined, names: boolean, subject: string): Validator {
    const normalised = normalise(schema, { names });
    const check = this.#compileAs(dialects(declared), normalised.schema, names);
    return { problem: problemOf(check, subject), unused: normalised.unused };
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
    const engine = (named ? undefined : this.#engines[dialect]) ?? new Engine(options);
    try {
      return engine.compile(schema);
    } finally {
      engine.removeSchema(schema); // otherwise every schema ever seen stays in the engine
      if (!named) this.#engines[dialect] = engine;
    }
  }
}

function problemOf(check: ValidateFunction, subject: string): Validator['problem'] {
  return (value) => {
    try {
      // Nothing but true: a promise would be as good as a yes to whoever asks less exactly.
      return check(value) === true ? null : describe(check.errors?.[0], subject);
    } catch (error) {
      // A schema that refers to itself runs out of stack.
      return `${subject} could not be validated: ${error instanceof RangeError ? 'nested too deeply' : 'internal error'}`;
    }
  };
}

// Without a declaration the protocol says 2020-12, and servers mean draft-07 as often, also where they declare the other.
function dialects(declared: JsonValue | undefined): Dialect[] {
  if (typeof declared !== 'string') return ['2020-12', 'draft-07'];
  return declared.includes('2020-12') ? ['2020-12', 'draft-07'] : ['draft-07', '2020-12'];
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
      ? `: ${cutText(JSON.stringify(allowedValues), MAX_LISTED_CHARS)}`
      : typeof additionalProperty === 'string'
        ? `: ${cutText(JSON.stringify(additionalProperty), MAX_LISTED_CHARS)}`
        : '';
  return `${subject}${cutText(error.instancePath, MAX_LISTED_CHARS)} ${error.message ?? 'is not valid'}${details}`;
}
