import { isJsonObject, type JsonObject, type JsonValue } from '../../../../base/json.ts';
import type { FormField, FormOption } from './form.ts';
import { fieldProblem } from './form-values.ts';
import { UnusableQuestion } from './unusable-question.ts';

/** Nobody fills in more, and a prompt shows all of it. */
export const formLimits = { fields: 32, options: 100, nameChars: 100, textChars: 500 } as const;

/**
 * The fields of a form, from its flat schema. What a value must be beyond what is known here is the server's to check.
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
  const isUsable = given !== undefined && given !== null && fieldProblem(field, given) === null;
  return Object.freeze({ ...field, default: isUsable ? given : null } as FormField);
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

/** Null: the schema lists none. */
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
