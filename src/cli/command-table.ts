/*
 * The vocabulary of the command tables. One table per program (run/table.ts, sms/table.ts, spearlet/table.ts,
 * spear/table.ts) is the only place that names a command, its arguments, flags, defaults, ranges, examples and exit
 * codes. Parsing (command-line.ts), help and docs/commands.md (command-help.ts) and shell completion read it.
 * Entries are data: an implementation is imported when its command runs, because start-up time matters.
 */

export interface FlagSpec {
  readonly type: 'boolean' | 'string' | 'number';
  readonly help: string;
  /** Placeholder of the value in help; every flag but a boolean has one. */
  readonly value?: string;
  readonly short?: string;
  readonly multiple?: true;
  readonly required?: true;
  readonly choices?: readonly string[];
  /** Inclusive bounds of a number. */
  readonly min?: number;
  readonly max?: number;
  /** Value of an absent flag. */
  readonly default?: string | number;
  /** Shown in help where the default is not a constant. */
  readonly fallback?: string;
  /** Heading in help. @default 'Options' */
  readonly section?: string;
}

export type FlagSpecs = Readonly<Record<string, FlagSpec>>;

type Camel<Name extends string> = Name extends `${infer Head}-${infer Tail}`
  ? `${Head}${Capitalize<Camel<Tail>>}`
  : Name;

type Scalar<Flag> = Flag extends { readonly choices: readonly (infer Choice)[] }
  ? Choice
  : Flag extends { readonly type: 'number' }
    ? number
    : string;

type FlagValue<Flag> = Flag extends { readonly type: 'boolean' }
  ? boolean
  : Flag extends { readonly multiple: true }
    ? readonly string[]
    : Flag extends { readonly required: true } | { readonly default: string | number }
      ? Scalar<Flag>
      : Scalar<Flag> | undefined;

/** What a command gets for its flags: names in camel case, `false` for an absent boolean. */
export type FlagValues<Flags> = {
  readonly [Name in keyof Flags & string as Camel<Name>]: FlagValue<Flags[Name]>;
};

/** A parsed command line. */
export interface Call<Flags> {
  readonly program: Program;
  readonly command: Command;
  readonly flags: Flags;
  readonly args: readonly string[];
  /** Arguments after `--`, where the command passes them on. */
  readonly rest: readonly string[];
}

/** Implementation of a command; resolves with the exit code. */
export type Run<Flags> = (call: Call<Flags>) => Promise<number>;

export interface CommandTexts {
  /** Program and subcommands: `spear servers ls`. */
  readonly path: string;
  readonly summary: string;
  /** Paragraphs between usage and options. */
  readonly description?: readonly string[];
  /** Positional arguments as usage shows them: `ID [TOOL...]`. */
  readonly args?: string;
  /** Name of the arguments after `--`, where the command takes some. */
  readonly rest?: string;
  readonly examples: readonly string[];
  readonly exitCodes: ExitCodes;
  /** Exit code of a wrong command line. @default 2 */
  readonly usageExitCode?: number;
  /** Selects between two commands of the same path by the first argument. */
  readonly accepts?: (argument: string) => boolean;
}

export type ExitCodes = Readonly<Record<string, string>>;

export interface Command extends CommandTexts {
  readonly flags: FlagSpecs;
  readonly load: () => Promise<Run<never>>;
}

export interface Program {
  readonly name: string;
  readonly commands: readonly Command[];
  /** Summary of paths that only have subcommands: `spear`, `spear servers`. */
  readonly groups?: Readonly<Record<string, string>>;
}

/** A table entry; checks that the implementation takes the flags of the entry. */
export function command<const Flags extends FlagSpecs>(
  entry: CommandTexts & { readonly flags: Flags; readonly load: () => Promise<Run<FlagValues<Flags>>> },
): Command {
  return entry as unknown as Command;
}

type More = Omit<FlagSpec, 'type' | 'help' | 'value'>;

export const flag = (help: string, more: Pick<More, 'short'> = {}) => ({ type: 'boolean' as const, help, ...more });

export const text = <const Rest extends More>(value: string, help: string, more: Rest = {} as Rest) => ({
  type: 'string' as const,
  value,
  help,
  ...more,
});

export const number = <const Rest extends More & { readonly min: number; readonly max: number }>(
  value: string,
  help: string,
  more: Rest,
) => ({ type: 'number' as const, value, help, ...more });

export const choice = <const Choices extends readonly string[], const Rest extends More>(
  choices: Choices,
  help: string,
  more: Rest = {} as Rest,
) => ({ type: 'string' as const, value: choices.join('|'), choices, help, ...more });

/** The same flags below a heading of their own in help. */
export function section<Flags extends FlagSpecs>(heading: string, flags: Flags): Flags {
  const entries = Object.entries(flags).map(([name, spec]) => [name, { ...spec, section: heading }]);
  return Object.fromEntries(entries) as Flags;
}

/** The command under another path: `spear registry serve` for `spear-sms`. */
export function renamed(entry: Command, path: string): Command {
  return { ...entry, path, examples: entry.examples.map((example) => example.replace(entry.path, path)) };
}

export const wordsOf = ({ path }: Pick<Command, 'path'>): string[] => path.split(' ').slice(1);
