import type { FormField, FormOption } from '../../pool/elicitation/form.ts';
import { type FormValue, fieldProblem } from '../../pool/elicitation/form-values.ts';

export type FormEntry = { readonly value: FormValue | null } | { readonly problem: string };

/** Value of a typed line; null: field omitted. An empty line means the default, if there is one. */
export function readEntry(field: FormField, typed: string): FormEntry {
  const text = field.kind === 'text' ? typed : typed.trim();
  if (text === '') {
    if (field.default === null && field.required) return { problem: 'is required' };
    return { value: field.default };
  }
  const value = typedValue(field, text);
  if (value === null) return { problem: kindProblems[field.kind] };
  const problem = fieldProblem(field, value);
  return problem === null ? { value } : { problem };
}

const kindProblems: Readonly<Record<FormField['kind'], string>> = {
  text: 'must be text',
  number: 'must be a number',
  boolean: 'must be y or n',
  choice: 'must be one of the numbers above',
  choices: 'must be numbers from above, separated by commas',
};

/** Null: not a value of this kind. */
function typedValue(field: FormField, text: string): FormValue | null {
  switch (field.kind) {
    case 'text':
      return text;
    case 'number':
      return /^[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?$/i.test(text) ? Number(text) : null;
    case 'boolean':
      if (/^(?:y|yes|true)$/i.test(text)) return true;
      return /^(?:n|no|false)$/i.test(text) ? false : null;
    case 'choice':
      return chosen(field.options, text);
    case 'choices': {
      const values = text.split(',').map((part) => chosen(field.options, part.trim()));
      return values.every((value) => value !== null) ? values : null;
    }
  }
}

/** By number or by value. */
function chosen(options: readonly FormOption[], text: string): string | null {
  const byNumber = /^\d+$/.test(text) ? options[Number(text) - 1] : undefined;
  return (byNumber ?? options.find(({ value }) => value === text))?.value ?? null;
}

/** Description of the accepted values. */
export function fieldKind(field: FormField): string {
  switch (field.kind) {
    case 'text':
      return joined(
        field.format === null ? 'text' : `text (${field.format})`,
        range(field.minLength, field.maxLength, 'characters'),
      );
    case 'number':
      return joined(field.integer ? 'whole number' : 'number', range(field.minimum, field.maximum, ''));
    case 'boolean':
      return 'yes or no';
    case 'choice':
      return `one of ${field.options.length}`;
    case 'choices':
      return joined(`some of ${field.options.length}`, range(field.minItems, field.maxItems, ''));
  }
}

const joined = (...parts: readonly string[]) => parts.filter((part) => part !== '').join(', ');

function range(least: number | null, most: number | null, what: string): string {
  if (least === null && most === null) return '';
  const bounds = least === null ? `at most ${most}` : most === null ? `at least ${least}` : `${least} to ${most}`;
  return what === '' ? bounds : `${bounds} ${what}`;
}
