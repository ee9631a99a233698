import { type ParseArgsOptionsConfig, parseArgs } from 'node:util';
import { nearestKey } from '../base/validation.ts';
import { type Call, type Command, type FlagSpec, type FlagSpecs, type Program, wordsOf } from './command-table.ts';
import { UsageError } from './exit-codes.ts';

const everywhere = {
  help: { type: 'boolean', help: 'print this help', short: 'h' },
  version: { type: 'boolean', help: 'print the version', short: 'V' },
} as const satisfies FlagSpecs;

/** Flags that a command accepts, those of every command included. */
export const flagsOf = ({ flags }: Pick<Command, 'flags'>): FlagSpecs => ({ ...flags, ...everywhere });

export type Request =
  | { readonly kind: 'run'; readonly call: Call<never> }
  | { readonly kind: 'help'; readonly path: string }
  | { readonly kind: 'version' };

/** Wrong command line of a known command, which sets the exit code. */
export class CommandUsageError extends UsageError {
  readonly exitCode: number;

  constructor(message: string, { usageExitCode = 2 }: Pick<Command, 'usageExitCode'>) {
    super(message);
    this.exitCode = usageExitCode;
  }
}

/** @throws UsageError with a message for the user */
export function readCommandLine(program: Program, argv: readonly string[]): Request {
  const { found, path, rest } = findCommand(program, argv);
  if (found === undefined) return groupRequest(program, path, rest);
  const parsed = parse(program, found, rest);
  if (parsed.values.help) return { kind: 'help', path: found.path };
  if (parsed.values.version) return { kind: 'version' };
  checkArguments(program, found, parsed.args);
  const { args, passedOn } = parsed;
  const flags = flagValues(found, parsed.values);
  return { kind: 'run', call: { program, command: found, flags: flags as never, args, rest: passedOn } };
}

/** Follows the words of the command line down the table; flags may stand between them. */
function findCommand(program: Program, argv: readonly string[]) {
  let candidates = program.commands;
  const used = new Set<number>();
  let path = program.name;
  let next = program.commands.length > 1 ? wordAt(candidates, argv, 0) : undefined;
  while (next !== undefined) {
    const { value, index } = next;
    const below = candidates.filter((entry) => wordsOf(entry)[used.size] === value);
    if (below.length === 0) break;
    candidates = below;
    used.add(index);
    path += ` ${value}`;
    next = wordAt(candidates, argv, used.size);
  }
  const exact = candidates.filter((entry) => wordsOf(entry).length === used.size);
  const found = exact.find(({ accepts }) => next !== undefined && accepts?.(next.value)) ?? exact.at(-1);
  return { found, path, rest: argv.filter((_, index) => !used.has(index)) };
}

/** The word at this position, without flags and their values. */
function wordAt(candidates: readonly Command[], argv: readonly string[], position: number) {
  const flags = Object.assign({}, ...candidates.map(flagsOf).reverse()) as FlagSpecs;
  const { tokens } = parseArgs({ args: [...argv], options: optionsOf(flags), strict: false, tokens: true });
  const end = tokens.find(({ kind }) => kind === 'option-terminator')?.index ?? argv.length;
  return tokens.filter((token) => token.kind === 'positional' && token.index < end)[position] as
    | { readonly value: string; readonly index: number }
    | undefined;
}

function optionsOf(flags: FlagSpecs): ParseArgsOptionsConfig {
  const options = Object.entries(flags).map(([name, { type, short, multiple = false }]) => [
    name,
    { type: type === 'boolean' ? type : 'string', multiple, ...(short === undefined ? {} : { short }) },
  ]);
  return Object.fromEntries(options) as ParseArgsOptionsConfig;
}

type Values = Readonly<Record<string, string | boolean | readonly (string | boolean)[] | undefined>>;

function parse(program: Program, found: Command, argv: readonly string[]) {
  const separator = found.rest === undefined ? -1 : argv.indexOf('--');
  const own = separator < 0 ? [...argv] : argv.slice(0, separator);
  const passedOn = separator < 0 ? [] : argv.slice(separator + 1);
  try {
    const options = optionsOf(flagsOf(found));
    const { values, positionals } = parseArgs({ args: own, options, allowPositionals: true });
    return { values: values as Values, args: positionals, passedOn };
  } catch (error) {
    throw new CommandUsageError(flagProblem(error as Error & { readonly code?: unknown }, program, found), found);
  }
}

/** What a mistyped option looks like; a token that was pasted as an option does not. */
const OPTION_NAME = /^--?[a-z][a-z-]{0,40}$/;

/** Never repeats a value: it may be a token. */
function flagProblem({ code, message }: Error & { readonly code?: unknown }, program: Program, found: Command): string {
  const given = /'(?:-\w, )?(-[^' =<]+)/.exec(message)?.[1] ?? '';
  if (code === 'ERR_PARSE_ARGS_UNKNOWN_OPTION') {
    const name = given.replace(/^-+/, '');
    const near = nearestKey(name, Object.keys(flagsOf(found)));
    const other = program.commands.find(({ flags }) => Object.hasOwn(flags, name));
    const elsewhere = other === undefined ? '' : `; it is an option of "${other.path}"`;
    const advice = near === undefined ? `"${found.path} --help" lists them` : `did you mean --${near}?`;
    const shown = OPTION_NAME.test(given) ? given : '(not shown: it may be a secret)';
    return `unknown option ${shown} for "${found.path}"${elsewhere}; ${advice}`;
  }
  if (message.includes('is ambiguous')) {
    return `${given}: the value begins with a dash; write ${given}=VALUE`;
  }
  if (message.includes('argument missing')) return `${given}: missing value`;
  return message.includes('not take an argument') ? `${given}: takes no value` : (message.split('\n', 1)[0] ?? message);
}

function checkArguments(program: Program, found: Command, given: readonly string[]): void {
  const { args = '' } = found;
  const names = args === '' ? [] : args.split(' ');
  const missing = names.filter((name) => !name.startsWith('['))[given.length];
  if (missing !== undefined) {
    throw new CommandUsageError(`missing ${missing.replace('...', '')}; usage: ${usageOf(found)}`, found);
  }
  const extra = args.includes('...') ? undefined : given[names.length];
  if (extra === undefined) return;
  const below = program.commands.filter(({ path }) => path.startsWith(`${found.path} `));
  if (below.length > 0 && names.length === 0) throw unknownCommand(program, found.path, extra);
  const hint = found.rest === undefined ? '' : '; arguments of the guest go after --';
  throw new CommandUsageError(`unexpected argument ${JSON.stringify(extra)}${hint}; usage: ${usageOf(found)}`, found);
}

export function usageOf({ path, args = '', flags, rest }: Command): string {
  const required = Object.entries(flags).filter(([, spec]) => spec.required);
  const words = [path, args, ...required.map(([name, { value }]) => `--${name} ${value}`), '[options]'];
  if (rest !== undefined) words.push(`[-- ${rest}...]`);
  return words.filter((word) => word !== '').join(' ');
}

function flagValues(found: Command, values: Values): Record<string, unknown> {
  const entries = Object.entries(found.flags).map(([name, spec]) => {
    const camel = name.replaceAll(/-(\w)/g, (_, letter: string) => letter.toUpperCase());
    return [camel, flagValue(found, name, spec, values[name])];
  });
  return Object.fromEntries(entries) as Record<string, unknown>;
}

function flagValue(found: Command, name: string, spec: FlagSpec, given: Values[string]): unknown {
  const { type, value: placeholder, choices, min = 0, max = Number.MAX_SAFE_INTEGER } = spec;
  const refuse = (expected: string, value: unknown = given) => {
    throw new CommandUsageError(`--${name}: expected ${expected}, found ${JSON.stringify(value)}`, found);
  };
  if (given === undefined) {
    if (spec.required) throw new CommandUsageError(`missing --${name} ${placeholder}; usage: ${usageOf(found)}`, found);
    return type === 'boolean' ? false : (spec.default ?? (spec.multiple ? [] : undefined));
  }
  if (type === 'number') {
    const amount = /^\d+$/.test(String(given)) ? Number(given) : Number.NaN;
    return amount >= min && amount <= max ? amount : refuse(`a whole number from ${min} to ${max}`);
  }
  const strange = choices && [given].flat().find((one) => !choices.includes(String(one)));
  if (strange !== undefined) refuse(listed(choices ?? []), strange);
  return given;
}

const listed = (choices: readonly string[]) => `${choices.slice(0, -1).join(', ')} or ${choices.at(-1)}`;

/** A path that has only subcommands. */
function groupRequest(program: Program, path: string, argv: readonly string[]): Request {
  const { tokens } = parseArgs({ args: [...argv], options: optionsOf(everywhere), strict: false, tokens: true });
  const given = (name: string) => tokens.some((token) => token.kind === 'option' && token.name === name);
  const word = tokens.find((token) => token.kind === 'positional');
  if (word?.kind === 'positional') throw unknownCommand(program, path, word.value);
  if (given('help')) return { kind: 'help', path };
  if (given('version')) return { kind: 'version' };
  const hint = path === program.name ? '' : `: ${subcommands(program, path).join(', ')}`;
  throw new UsageError(`missing command after "${path}"${hint}; "${path} --help" lists them`);
}

/** The words that may follow a path. */
export function subcommands({ commands }: Program, path: string): string[] {
  const below = commands.filter((entry) => entry.path.startsWith(`${path} `));
  return [...new Set(below.map((entry) => entry.path.slice(path.length + 1).split(' ', 1)[0] ?? ''))];
}

export function unknownCommand(program: Program, path: string, word: string): UsageError {
  const known = subcommands(program, path);
  const near = nearestKey(word, known);
  const advice = near === undefined ? `commands: ${known.join(', ')}` : `did you mean "${path} ${near}"?`;
  return new UsageError(`unknown command "${path} ${word}"; ${advice}`);
}
