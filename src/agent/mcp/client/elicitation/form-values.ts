import { isJsonObject } from '../../../../base/json.ts';
import type { FormField } from './form.ts';

export type FormValue = string | number | boolean | readonly string[];

/** What was filled in, by the names of the fields. */
export type FormContent = Readonly<Record<string, FormValue>>;

/** What is wrong with a value, in words that follow the field's name; null: nothing. Never holds the value. */
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

/** The whole form, with the defaults of what was left out. `problem` names the first field that is wrong. */
export function checkForm(
  fields: readonly FormField[],
  given: unknown,
): { readonly content: FormContent } | { readonly problem: string } {
  if (!isJsonObject(given)) return { problem: 'content is missing' };
  const stranger = Object.keys(given).find((name) => !fields.some((field) => field.name === name));
  if (stranger !== undefined) return { problem: `the form has no field ${JSON.stringify(stranger)}` };
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
  // As JSON Schema counts: characters, not halves of them.
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

/** Of the calendar: there is no 31st of April. */
function isDate(text: string): boolean {
  if (!/^\d{4}-\d{2}-\d{2}$/.test(text)) return false;
  const date = new Date(`${text}T00:00:00Z`);
  return !Number.isNaN(date.getTime()) && date.toISOString().startsWith(text);
}
