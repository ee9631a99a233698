// The parts of docs/commands.md that are made from the command tables.
import { commandHelp, flagRows, helpText } from '../src/cli/command-help.ts';
import { flagsOf, subcommands } from '../src/cli/command-line.ts';
import type { Command, Program } from '../src/cli/command-table.ts';
import { runProgramTable } from '../src/cli/run/table.ts';
import { smsProgram } from '../src/cli/sms/table.ts';
import { spearProgram } from '../src/cli/spear/table.ts';
import { spearletProgram } from '../src/cli/spearlet/table.ts';

const asText = (help: string): string => `\`\`\`text\n${help.trimEnd()}\n\`\`\``;

/** Commands of another program under a path of `spear`, documented there. */
const elsewhere: Readonly<Record<string, Program>> = { 'spear registry': smsProgram, 'spear node': spearletProgram };

const sentence = (summary: string): string => summary.charAt(0).toUpperCase() + summary.slice(1);

const whole = (program: Program): string => asText(helpText(program, program.name));

const withSubcommands = (program: Program): string =>
  program.commands.map((entry) => asText(commandHelp(entry))).join('\n\n');

function spearReference(): string {
  const parts = [whole(spearProgram)];
  for (const word of subcommands(spearProgram, 'spear')) {
    const path = `spear ${word}`;
    const entries = spearProgram.commands.filter((entry) => `${entry.path} `.startsWith(`${path} `));
    const other = elsewhere[path];
    parts.push(`### ${path}`, ...(other === undefined ? groupParts(path, entries) : [aliasText(entries, other)]));
  }
  return parts.join('\n\n');
}

function groupParts(path: string, entries: readonly Command[]): string[] {
  const [first] = entries;
  if (first?.path === path) return entries.map((entry) => asText(commandHelp(entry, runSections(entry))));
  const groups: Readonly<Record<string, string>> = spearProgram.groups;
  const shared = Object.entries(first === undefined ? {} : flagsOf(first)).filter(([, { section }]) => section);
  const [[, sample] = ['', undefined]] = shared;
  const heading = sample?.section ?? '';
  return [
    sentence(groups[path] ?? ''),
    ...(heading === '' ? [] : [asText(`${heading}:\n${flagRows(shared).join('\n')}`)]),
    ...entries.map((entry) => asText(commandHelp(entry, new Set([heading])))),
  ];
}

/** Flags of `spear run FILE.wasm` are those of `spear-run`. */
const runSections = ({ accepts }: Command): ReadonlySet<string> =>
  new Set(
    accepts === undefined
      ? []
      : runProgramTable.commands.flatMap(({ flags }) =>
          Object.values(flags).map(({ section = '' }: { section?: string }) => section),
        ),
  );

const aliasText = (entries: readonly Command[], { name, commands }: Program): string =>
  entries
    .map(({ path }, index) => `\`${path}\` is [\`${commands[index]?.path}\`](#${name}), with the same options.`)
    .join('\n');

export const commandParts: Readonly<Record<string, () => string>> = {
  'run-help': () => whole(runProgramTable),
  'spearlet-help': () => whole(spearletProgram),
  'sms-help': () => withSubcommands(smsProgram),
  'spear-help': spearReference,
};
