import type { Ajv, ErrorObject, Options, ValidateFunction } from 'ajv';
import type { Ajv2020 } from 'ajv/dist/2020.js';
import type { JsonObject, JsonValue } from '../../../../base/json.ts';
import { cutText } from '../../../../base/text.ts';
import { normalise } from './normalise.ts';

export interface Validator {
  /** Why the value is invalid; null: valid. Never quotes the value. */
  readonly problem: (value: JsonValue) => string | null;
  /** The first part of the schema that is ignored because it is meaningless; null: none. */
  readonly unused: string | null;
}

/*
 * Schemas come from servers and are not trusted. References stay within the schema (no network, `$data` off). `format` is
 * not validated. checks.ts bounds the time.
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

// JSON Schema patterns need the `u` flag, but many servers send patterns that are valid only without it.
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

  /** Loads ajv, which takes tens of milliseconds. */
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
      // A duplicate or misplaced name. Most such schemas do not refer to their names.
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

  // Other servers' schemas could refer to names in a shared engine, so a schema with names gets its own.
  #compileIn(dialect: Dialect, schema: object, named: boolean): ValidateFunction {
    const Engine = dialect === '2020-12' ? this.#library.Ajv2020 : this.#library.Ajv;
    const engine = (named ? undefined : this.#engines[dialect]) ?? new Engine(options);
    try {
      return engine.compile(schema);
    } finally {
      engine.removeSchema(schema); // otherwise the engine retains every schema
      if (!named) this.#engines[dialect] = engine;
    }
  }
}

function problemOf(check: ValidateFunction, subject: string): Validator['problem'] {
  return (value) => {
    try {
      // Only true is valid: a promise would be truthy.
      return check(value) === true ? null : describe(check.errors?.[0], subject);
    } catch (error) {
      // A schema that refers to itself overflows the stack.
      return `${subject} could not be validated: ${error instanceof RangeError ? 'nested too deeply' : 'internal error'}`;
    }
  };
}

// Without $schema the protocol says 2020-12, but servers mean draft-07 as often, even if they declare the other.
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
