import { domainToUnicode } from 'node:url';
import type { ElicitationRequest } from '../../agent/mcp/client/elicitation/decider.ts';
import type { FormField, FormOption } from '../../agent/mcp/client/elicitation/form.ts';
import { type FormContent, type FormValue, fieldProblem } from '../../agent/mcp/client/elicitation/form-values.ts';
import { visible } from '../../base/visible-text.ts';
import { fieldLines, inGutter, type LineOptions } from './prompt-lines.ts';

/* Text of an elicitation prompt. Untrusted lines are escaped and stand behind the gutter. */

/** More would scroll the name of the server off the screen. */
const MAX_MESSAGE_LINES = 40;
const BOLD = '\u001b[1m';
const NOT_BOLD = '\u001b[22m';

/** Server, tool, message and requested fields. */
export function describeQuestion(request: ElicitationRequest, options: LineOptions): string[] {
  const field = (name: string, text: string) => fieldLines(name, text, options);
  return [
    ...(request.task === null ? [] : field('task', request.task)),
    ...field('server', request.server),
    ...field('tool', request.tool),
    '  message of the server:',
    ...messageLines(request.message, options),
    ...(request.mode === 'form' ? describeForm(request.fields, options) : describeAddress(request.url, options)),
  ];
}

function messageLines(message: string, options: LineOptions): string[] {
  const lines = inGutter(message.split(/\r\n|\n/).map(visible), options);
  if (lines.length <= MAX_MESSAGE_LINES) return lines;
  return [...lines.slice(0, MAX_MESSAGE_LINES), `  … ${lines.length - MAX_MESSAGE_LINES} more lines`];
}

function describeForm(fields: readonly FormField[], options: LineOptions): string[] {
  return [
    `  it asks for ${fields.length === 1 ? 'one field' : `${fields.length} fields`}:`,
    ...fields.flatMap((field) => inGutter([fieldLine(field)], options)),
    '  the server receives what you type: do not enter a password, key or card number',
  ];
}

const fieldLine = (field: FormField) =>
  `${visible(field.name)}${field.required ? ' (required)' : ''}: ${visible(fieldKind(field))}`;

/** One field, before it is filled in. */
export function describeField(field: FormField, place: string, options: LineOptions): string[] {
  const words = [field.title, field.description].filter((text) => text !== null).map(visible);
  const choices = field.kind === 'choice' || field.kind === 'choices' ? field.options : [];
  const listed = choices.map(({ value, title }, index) => {
    return `${index + 1}  ${visible(title === null ? value : `${title} (${value})`)}`;
  });
  const withDefault = field.default === null ? '' : `, Enter for ${visible(JSON.stringify(field.default))}`;
  const left = field.default === null && !field.required ? ', Enter to skip' : '';
  return [`  field ${place}`, ...inGutter([`${fieldLine(field)}${withDefault}${left}`, ...words, ...listed], options)];
}

/** The values to be sent, as typed. */
export function describeContent(content: FormContent, options: LineOptions): string[] {
  const lines = Object.entries(content).map(([name, value]) => `${visible(name)}: ${visible(JSON.stringify(value))}`);
  return ['  to be sent to the server:', ...inGutter(lines.length === 0 ? ['nothing'] : lines, options)];
}

/** The host is what the user decides about, so it is bold. */
function describeAddress(address: string, options: LineOptions): string[] {
  const { host, hostname } = new URL(address);
  const read = domainToUnicode(hostname);
  const lookalike =
    read === hostname || read === '' ? [] : fieldLines('reads', `${read} (non-ASCII host name)`, options);
  return [
    '  it asks you to open this address yourself:',
    ...inGutter([visible(address)], options),
    ...fieldLines('host', host, options).map((line) => `${BOLD}${line}${NOT_BOLD}`),
    ...lookalike,
  ];
}

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
