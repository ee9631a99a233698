import type { ApprovalRequest, DefinitionChange } from '../../agent/approvals/decider.ts';
import { shortenArguments } from '../../agent/approvals/shown-arguments.ts';
import { type ToolHint, toolHints } from '../../agent/policy/approval-rules.ts';
import { cutText } from '../../base/cut-text.ts';
import type { JsonObject, JsonValue } from '../../base/json.ts';
import { visible } from '../../base/visible-text.ts';
import { fieldLines, inGutter, type LineOptions } from './prompt-lines.ts';

/*
 * Text of an approval prompt. Most of it is untrusted: the arguments come from a model, the description from a server.
 * Control and invisible characters are escaped, and every untrusted line is wrapped behind a gutter, so that no text can
 * look like a line of the prompt. Credentials are shown in part, enough to recognize them.
 */

const MAX_LINES = 30;
const MAX_DESCRIPTION_CHARS = 300;
const MAX_CHANGES = 12;
const MAX_CHANGE_CHARS = 200;
/** Bound of the full view of a prompt: a terminal is slow. */
export const MAX_FULL_LINES = 2_000;

export interface TextOptions extends LineOptions {
  /** Everything, and credentials in clear. */
  readonly full: boolean;
  /** Lines of arguments. @default 30, and 2,000 in the full view */
  readonly maxLines?: number;
}

export interface RequestText {
  readonly lines: readonly string[];
  /** Whether something was left out or masked, that `full` would show. */
  readonly shortened: boolean;
  /** Whether some of the arguments are left out or masked, also in the full view. */
  readonly hidesArguments: boolean;
}

const kindLabels = { tool: 'tool', resource: 'reads', prompt: 'prompt' } as const;

/** The request as lines for a terminal. */
export function describeRequest(request: ApprovalRequest, options: TextOptions): RequestText {
  const { definition, changes } = request;
  const args = argumentLines(request.arguments, options);
  const description = options.full ? definition.description : cutText(definition.description, MAX_DESCRIPTION_CHARS);
  const field = (name: string, text: string) => fieldLines(name, text, options);
  const lines = [
    ...(request.task === null ? [] : field('task', request.task)),
    ...field('server', request.server),
    ...field(kindLabels[request.kind], request.tool),
    ...field('why', request.cause.text),
    ...hintLines(definition.annotations),
    ...(description === '' ? [] : ['  description by the server:', ...inGutter([visible(description)], options)]),
    ...(changes.length === 0 ? [] : ['  CHANGED since the last approval:', ...inGutter(changeLines(changes), options)]),
    '  arguments:',
    ...args.lines,
  ];
  const isCut = description !== definition.description || changes.length > MAX_CHANGES;
  return {
    lines,
    shortened: !options.full && (args.hidesArguments || isCut),
    hidesArguments: args.hidesArguments,
  };
}

function hintLines(annotations: ApprovalRequest['definition']['annotations']): string[] {
  const said = toolHints.filter((hint) => typeof annotations?.[hint] === 'boolean');
  if (said.length === 0) return [];
  const text = said.map((hint: ToolHint) => `${hint} ${annotations?.[hint]}`).join(', ');
  return [`  hints   ${text} (claimed by the server)`];
}

function changeLines(changes: readonly DefinitionChange[]): string[] {
  const shown = changes
    .slice(0, MAX_CHANGES)
    .flatMap(({ path, before, after }) => [
      visible(cutText(path, MAX_CHANGE_CHARS)),
      ...(before === undefined ? [] : [`- ${oneLine(before)}`]),
      ...(after === undefined ? [] : [`+ ${oneLine(after)}`]),
    ]);
  return changes.length > MAX_CHANGES ? [...shown, `and ${changes.length - MAX_CHANGES} more changes`] : shown;
}

const oneLine = (value: JsonValue) => visible(cutText(JSON.stringify(value), MAX_CHANGE_CHARS));

function argumentLines(args: JsonObject, options: TextOptions): Pick<RequestText, 'lines' | 'hidesArguments'> {
  const { value, shortened } = options.full ? { value: args, shortened: false } : shortenArguments(args);
  const all = inGutter(JSON.stringify(value, null, 2).split('\n').map(visible), options);
  const most = options.maxLines ?? (options.full ? MAX_FULL_LINES : MAX_LINES);
  if (all.length <= most) return { lines: all, hidesArguments: shortened };
  const note = `  … ${all.length - most} more lines`;
  return { lines: [...all.slice(0, most), note], hidesArguments: true };
}
