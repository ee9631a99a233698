import { domainToUnicode } from 'node:url';
import { visible } from '../../base/visible-text.ts';
import type { ElicitationRequest } from '../../mcp/elicitation/decider.ts';
import type { FormField } from '../../pool/elicitation/form.ts';
import type { FormContent } from '../../pool/elicitation/form-values.ts';
import { fieldKind } from './form-entry.ts';
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
