/**
 * Forms of MCP elicitation: parses the flat schema of a form and validates the values of a user.
 *
 * The schema and all of its text come from a server and are not trusted: size and number of fields are bounded, and a form
 * with anything that a prompt cannot show is rejected as a whole ({@link UnusableQuestion}). Error messages never quote a
 * value, because it may be a secret.
 */
import { isJsonObject, type JsonObject, type JsonValue } from '../../../../base/json.ts';

/** A question that cannot be shown. The message continues a sentence that begins with the server's name. */
export class UnusableQuestion extends Error {
  constructor(why: string) {
    super(why);
    this.name = 'UnusableQuestion';
  }
}

/** One value of a choice. */
export interface FormOption {
  readonly value: string;
  /** Text of the server. */
  readonly title: string | null;
}

interface FieldText {
  readonly name: string;
  /** Text of the server. */
  readonly title: string | null;
  readonly description: string | null;
  readonly required: boolean;
}

/** One field of a form. Absent bounds and defaults are null. */
export type FormField = FieldText &
  (
    | {
        readonly kind: 'text';
        readonly minLength: number | null;
        readonly maxLength: number | null;
        /** `email`, `uri`, `date`, `date-time`, or an unknown format, which is not checked. */
        readonly format: string | null;
        readonly default: string | null;
      }
    | {
        readonly kind: 'number';
        readonly integer: boolean;
        readonly minimum: number | null;
        readonly maximum: number | null;
        readonly default: number | null;
      }
    | { readonly kind: 'boolean'; readonly default: boolean | null }
    | { readonly kind: 'choice'; readonly options: readonly FormOption[]; readonly default: string | null }
    | {
        readonly kind: 'choices';
        readonly options: readonly FormOption[];
        readonly minItems: number | null;
        readonly maxItems: number | null;
        readonly default: readonly string[] | null;
      }
  );

export type FormValue = string | number | boolean | readonly string[];

/** The values of a form by field name. */
export type FormContent = Readonly<Record<string, FormValue>>;

/** Why a value is invalid, as the continuation of a sentence that begins with the field's name; null: valid. Never quotes the value. */
export function fieldProblem(field: FormField, value: unknown): string | null {
  switch (field.kind) {
    case 'text':
      return typeof value === 'string' ? textProblem(field, value) : 'must be a string';
    case 'number':
      return typeof value === 'number' ? numberProblem(field, value) : 'must be a number';
    case 'boolean':
      return typeof value === 'boolean' ? null : 'must be yes or no';
    case 'choice':
      return field.options.some((option) => option.value === value) ? null : 'must be one of the choices';
    case 'choices':
      return choicesProblem(field, value);
  }
}

/** Validates a form and fills in defaults. `problem` names the first invalid field. */
export function checkForm(
  fields: readonly FormField[],
  given: unknown,
): { readonly content: FormContent } | { readonly problem: string } {
  if (!isJsonObject(given)) return { problem: 'content is missing' };
  const unknown = Object.keys(given).find((name) => !fields.some((field) => field.name === name));
  if (unknown !== undefined) return { problem: `the form has no field ${JSON.stringify(unknown)}` };
  const content: [string, FormValue][] = [];
  for (const field of fields) {
    const value = (Object.hasOwn(given, field.name) ? given[field.name] : undefined) ?? field.default;
    if (value === null) {
      if (field.required) return { problem: `${JSON.stringify(field.name)} is required` };
      continue;
    }
    const problem = fieldProblem(field, value);
    if (problem !== null) return { problem: `${JSON.stringify(field.name)} ${problem}` };
    content.push([field.name, value as FormValue]);
  }
  return { content: Object.fromEntries(content) };
}

function textProblem(field: Extract<FormField, { kind: 'text' }>, value: string): string | null {
  const { minLength, maxLength, format } = field;
  // JSON Schema counts code points, not UTF-16 code units.
  const length = [...value].length;
  if (minLength !== null && length < minLength) return `must have at least ${minLength} characters`;
  if (maxLength !== null && length > maxLength) return `must have at most ${maxLength} characters`;
  if (format === null) return null;
  const known = formats.get(format);
  return known === undefined || known.matches(value) ? null : `must be ${known.words}`;
}

function numberProblem(field: Extract<FormField, { kind: 'number' }>, value: number): string | null {
  const { integer, minimum, maximum } = field;
  if (!Number.isFinite(value)) return 'must be a number';
  if (integer && !Number.isSafeInteger(value)) return 'must be a whole number';
  if (minimum !== null && value < minimum) return `must be at least ${minimum}`;
  if (maximum !== null && value > maximum) return `must be at most ${maximum}`;
  return null;
}

function choicesProblem(field: Extract<FormField, { kind: 'choices' }>, value: unknown): string | null {
  const { options, minItems, maxItems } = field;
  if (!Array.isArray(value)) return 'must be a list of choices';
  if (!value.every((item) => options.some((option) => option.value === item)))
    return 'must contain only the listed choices';
  if (new Set(value).size < value.length) return 'must not contain a choice twice';
  if (minItems !== null && value.length < minItems) return `must contain at least ${minItems} choices`;
  if (maxItems !== null && value.length > maxItems) return `must contain at most ${maxItems} choices`;
  return null;
}

interface TextFormat {
  readonly words: string;
  matches(text: string): boolean;
}

const dateTime = /^\d{4}-\d{2}-\d{2}[Tt]\d{2}:\d{2}:\d{2}(?:\.\d+)?(?:[Zz]|[+-]\d{2}:\d{2})$/;

const formats: ReadonlyMap<string, TextFormat> = new Map([
  ['email', { words: 'an email address', matches: (text) => /^[^\s@]+@[^\s@]+$/.test(text) }],
  [
    'uri',
    {
      words: 'a URI with a scheme, such as https://example.com',
      matches: (text) => !/\s/.test(text) && URL.canParse(text),
    },
  ],
  ['date', { words: 'a date like 2026-07-28', matches: isDate }],
  [
    'date-time',
    {
      words: 'a time like 2026-07-28T12:00:00Z',
      matches: (text) => dateTime.test(text) && isDate(text.slice(0, 10)) && !Number.isNaN(Date.parse(text)),
    },
  ],
]);

/** Whether the calendar has this date. */
function isDate(text: string): boolean {
  if (!/^\d{4}-\d{2}-\d{2}$/.test(text)) return false;
  const date = new Date(`${text}T00:00:00Z`);
  return !Number.isNaN(date.getTime()) && date.toISOString().startsWith(text);
}

/** A prompt shows the whole form. */
export const formLimits = { fields: 32, options: 100, nameChars: 100, textChars: 500 } as const;

/**
 * The fields of a form, from its flat schema. Unknown constraints are ignored; the server validates the values as well.
 * @throws UnusableQuestion
 */
export function parseForm(schema: JsonValue | undefined): readonly FormField[] {
  if (!isJsonObject(schema) || schema.type !== 'object' || !isJsonObject(schema.properties)) {
    throw new UnusableQuestion('requestedSchema is not an object schema with properties');
  }
  const entries = Object.entries(schema.properties);
  if (entries.length === 0) throw new UnusableQuestion('the form has no fields');
  if (entries.length > formLimits.fields) {
    throw new UnusableQuestion(`the form has ${entries.length} fields; the limit is ${formLimits.fields}`);
  }
  const required = new Set(Array.isArray(schema.required) ? schema.required : []);
  const fields = entries.map(([name, field]) => parseField(name, field, required.delete(name)));
  if (required.size > 0) throw new UnusableQuestion('the form requires a field that it does not define');
  return Object.freeze(fields);
}

function parseField(name: string, schema: JsonValue, required: boolean): FormField {
  if (name === '' || name.length > formLimits.nameChars) {
    throw new UnusableQuestion(`a field name has ${name.length} characters; the limit is ${formLimits.nameChars}`);
  }
  if (!isJsonObject(schema)) throw unusable(name, 'has a schema that is not an object');
  const words = { name, title: text(schema.title), description: text(schema.description), required };
  const field = { ...words, ...kindOf(name, schema) } as FormField;
  const given = schema.default as JsonValue | undefined;
  const isValid = given !== undefined && given !== null && fieldProblem(field, given) === null;
  return Object.freeze({ ...field, default: isValid ? given : null } as FormField);
}

function kindOf(name: string, schema: JsonObject) {
  switch (schema.type) {
    case 'boolean':
      return { kind: 'boolean' };
    case 'number':
    case 'integer': {
      const bounds = { minimum: number(schema.minimum), maximum: number(schema.maximum) };
      return { kind: 'number', integer: schema.type === 'integer', ...bounds };
    }
    case 'array': {
      const options = isJsonObject(schema.items) ? optionsOf(name, schema.items, schema.items.anyOf) : null;
      if (options === null) throw unusable(name, 'is an array of something other than choices');
      return { kind: 'choices', options, minItems: number(schema.minItems), maxItems: number(schema.maxItems) };
    }
    case 'string': {
      const options = optionsOf(name, schema, schema.oneOf);
      if (options !== null) return { kind: 'choice', options };
      const bounds = { minLength: number(schema.minLength), maxLength: number(schema.maxLength) };
      return { kind: 'text', ...bounds, format: text(schema.format) };
    }
    default:
      throw unusable(name, 'is not a string, number, boolean or choice');
  }
}

/** Null: the schema is not a choice. */
function optionsOf(name: string, { enum: values, enumNames }: JsonObject, titled: JsonValue | undefined) {
  if (values === undefined && titled === undefined) return null;
  const names = Array.isArray(enumNames) ? enumNames : [];
  const options = Array.isArray(titled)
    ? titled.map((option) => (isJsonObject(option) ? { value: option.const, title: text(option.title) } : null))
    : Array.isArray(values)
      ? values.map((value, index) => ({ value, title: text(names[index]) }))
      : [];
  if (options.length === 0) throw unusable(name, 'has an empty list of choices');
  if (options.length > formLimits.options) {
    throw unusable(name, `has ${options.length} choices; the limit is ${formLimits.options}`);
  }
  if (!options.every((option): option is FormOption => typeof option?.value === 'string')) {
    throw unusable(name, 'has a choice that is not a string');
  }
  return options;
}

const text = (value: JsonValue | undefined) =>
  typeof value === 'string' && value !== '' ? value.slice(0, formLimits.textChars) : null;

const number = (value: JsonValue | undefined) => (typeof value === 'number' ? value : null);

const unusable = (name: string, why: string) => new UnusableQuestion(`field ${JSON.stringify(name)} ${why}`);
