import { version } from '../base/version.ts';
import { flagsOf, subcommands, unknownCommand, usageOf } from './command-line.ts';
import type { Call, Command, FlagSpec, Program } from './command-table.ts';

/** No line of help is longer. */
export const HELP_COLUMNS = 100;
const MAX_LABEL = 26;
const OPTIONS = 'Options';

/** Help of the command or group at a path. @throws UsageError */
export function helpText(program: Program, path: string): string {
  const exact = program.commands.filter((entry) => entry.path === path);
  const below = program.commands.filter((entry) => entry.path.startsWith(`${path} `));
  if (exact.length > 0) {
    return [
      ...exact.map((entry) => commandHelp(entry)),
      ...(below.length > 0 ? [commandList(program, path)] : []),
    ].join('\n');
  }
  if (below.length > 0) return groupHelp(program, path);
  const words = path.split(' ');
  throw unknownCommand(program, words.slice(0, -1).join(' '), words.at(-1) ?? '');
}

const FORMAT_WIDTH = 16;

/** `spear help [COMMAND...]` */
export async function helpCommand({ program, args }: Call<object>): Promise<number> {
  process.stdout.write(helpText(program, knownPath(program, args)));
  return 0;
}

/** `spear version`: formats change apart from the version of the package. */
export async function versionCommand({ program }: Call<object>): Promise<number> {
  const { formats } = await import('./formats.ts');
  const rows = Object.entries(formats).map(([name, format]) => `${name.padEnd(FORMAT_WIDTH)}${format}\n`);
  process.stdout.write(`${program.name} ${version}\n${rows.join('')}`);
  return 0;
}

/** As far as the words are commands; the next one, if any, is reported as unknown. */
function knownPath(program: Program, words: readonly string[]): string {
  let path = program.name;
  for (const word of words) {
    if (!subcommands(program, path).includes(word)) throw unknownCommand(program, path, word);
    path += ` ${word}`;
  }
  return path;
}

/** `hideSections`: headings whose flags are left out because the page shows them once. */
export function commandHelp(entry: Command, hideSections: ReadonlySet<string> = new Set()): string {
  const { path, summary, description = [], examples, exitCodes } = entry;
  const sections = Map.groupBy(Object.entries(flagsOf(entry)), ([, spec]) => spec.section ?? OPTIONS);
  const hidden = [...sections.keys()].filter((heading) => hideSections.has(heading));
  const parts = [
    wrap(`${path}: ${summary}`, ''),
    `Usage:\n  ${usageOf(entry)}`,
    ...description.map((paragraph) => wrap(paragraph, '')),
    ...[...sections]
      .filter(([heading]) => !hideSections.has(heading))
      .map(([heading, flags]) => `${heading}:\n${flagRows(flags).join('\n')}`),
    ...(hidden.length === 0 ? [] : [wrap(`Also the flags of: ${hidden.join(', ')}.`, '')]),
    ...(examples.length === 0 ? [] : [`Examples:\n${examples.map((example) => `  ${example}`).join('\n')}`]),
    `Exit codes:\n${rows(Object.entries(exitCodes)).join('\n')}`,
  ];
  return `${parts.join('\n\n')}\n`;
}

export function flagRows(flags: readonly (readonly [string, FlagSpec])[]): string[] {
  return rows(flags.map(([name, spec]) => [flagLabel(name, spec), flagHelp(spec)]));
}

function flagLabel(name: string, { short, value }: FlagSpec): string {
  return `${short === undefined ? '' : `-${short}, `}--${name}${value === undefined ? '' : ` ${value}`}`;
}

function flagHelp({ help, multiple, required, min, max, type, default: standard, fallback }: FlagSpec): string {
  const range = type === 'number' ? [`${min} to ${max}`] : [];
  const shown = fallback ?? standard;
  const notes = [
    ...range,
    ...(multiple ? ['repeatable'] : []),
    ...(required ? ['required'] : []),
    ...(shown === undefined ? [] : [`default: ${shown}`]),
  ];
  return notes.length === 0 ? help : `${help} (${notes.join('; ')})`;
}

function groupHelp(program: Program, path: string): string {
  const isProgram = path === program.name;
  const about = program.groups?.[path] ?? '';
  const first = program.commands.find((entry) => entry.path.startsWith(`${path} `));
  const examples = isProgram || first === undefined ? [] : first.examples;
  return `${[
    wrap(`${path}: ${about}`, ''),
    `Usage:\n  ${path} COMMAND [options]`,
    commandList(program, path).trimEnd(),
    ...(examples.length === 0 ? [] : [`Examples:\n${examples.map((example) => `  ${example}`).join('\n')}`]),
    `Options:\n${flagRows(Object.entries(flagsOf({ flags: {} }))).join('\n')}`,
    `"${path} COMMAND --help" shows the options, an example and the exit codes of a command.`,
  ].join('\n\n')}\n`;
}

function commandList(program: Program, path: string): string {
  const below = program.commands.filter((entry) => entry.path.startsWith(`${path} `));
  const lines = below.map(({ path: name, args = '', summary }): [string, string] => [
    `${name} ${args}`.trim(),
    summary,
  ]);
  return `Commands:\n${rows(lines, 36).join('\n')}\n`;
}

/** Two columns; a label that is too wide has a line of its own. */
function rows(pairs: readonly (readonly [string, string])[], maxLabel = MAX_LABEL): string[] {
  const width = Math.max(...pairs.map(([label]) => label.length).filter((length) => length <= maxLabel), 4) + 2;
  return pairs.map(([label, help]) => {
    const indent = ' '.repeat(width + 2);
    const wrapped = wrap(help, indent);
    return label.length + 2 > width ? `  ${label}\n${wrapped}` : `  ${label.padEnd(width)}${wrapped.trimStart()}`;
  });
}

function wrap(text: string, indent: string): string {
  const lines = [''];
  for (const word of text.split(' ')) {
    const line = lines.at(-1) ?? '';
    const longer = line === '' ? word : `${line} ${word}`;
    if (line !== '' && indent.length + longer.length > HELP_COLUMNS) lines.push(word);
    else lines[lines.length - 1] = longer;
  }
  return lines.map((line) => indent + line).join('\n');
}
