import { flagsOf, subcommands } from '../command-line.ts';
import type { Call, Program } from '../command-table.ts';
import { UsageError } from '../exit-codes.ts';
import { runProgramTable } from '../run/table.ts';
import { smsProgram } from '../sms/table.ts';
import { spearletProgram } from '../spearlet/table.ts';

const shells: Readonly<Record<string, (programs: readonly Program[]) => string>> = { bash, zsh, fish };

/** `spear completion SHELL`: a script that completes commands and flags of all four programs. */
export async function completionCommand({ program, args: [shell = ''] }: Call<object>): Promise<number> {
  const script = Object.hasOwn(shells, shell) ? shells[shell] : undefined;
  if (script === undefined) {
    throw new UsageError(`expected ${Object.keys(shells).join(', ')}, found ${JSON.stringify(shell)}`);
  }
  process.stdout.write(script([program, runProgramTable, smsProgram, spearletProgram]));
  return 0;
}

/** Words that may follow each path: subcommands and flags. */
export function completions(programs: readonly Program[]): Map<string, { words: string[]; flags: string[] }> {
  const found = new Map<string, { words: string[]; flags: string[] }>();
  for (const program of programs) {
    const words = program.commands.map(({ path }) => path.split(' '));
    const paths = new Set(words.flatMap((parts) => parts.map((_, index) => parts.slice(0, index + 1).join(' '))));
    for (const path of paths) {
      const here = program.commands.filter((entry) => entry.path === path);
      const flags = here.length === 0 ? flagsOf({ flags: {} }) : Object.assign({}, ...here.map(flagsOf));
      found.set(path, { words: subcommands(program, path), flags: Object.keys(flags).map((name) => `--${name}`) });
    }
  }
  return found;
}

/** Falls back to file names, so values of flags and arguments complete as files. */
function bash(programs: readonly Program[]): string {
  const cases = [...completions(programs)].map(
    ([path, { words, flags }]) => `    '${path}') words='${words.join(' ')}' flags='${flags.join(' ')}' ;;`,
  );
  return `_spear_words() {
  case "$1" in
${cases.join('\n')}
    *) return 1 ;;
  esac
}
_spear() {
  local words flags path="$1" word current="\${COMP_WORDS[COMP_CWORD]}"
  for word in "\${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    [[ $word != -* ]] && _spear_words "$path $word" && path="$path $word"
  done
  _spear_words "$path"
  [[ $current == -* ]] && words=$flags
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -o default -F _spear ${programs.map(({ name }) => name).join(' ')}
`;
}

function zsh(programs: readonly Program[]): string {
  return `autoload -U +X bashcompinit && bashcompinit\n${bash(programs)}`;
}

function fish(programs: readonly Program[]): string {
  const known = completions(programs);
  const lines = [...known].flatMap(([path, { words, flags }]) => {
    const [name = ''] = path.split(' ');
    const complete = `complete -c ${name} -n "test (__spear_path) = '${path}'"`;
    return [
      ...(words.length === 0 ? [] : [`${complete} -a '${words.join(' ')}'`]),
      ...flags.map((one) => `${complete} -l ${one.slice(2)}`),
    ];
  });
  return `function __spear_path
  set -l path
  for word in (commandline -opc)
    string match -q -- '-*' $word; and continue
    set -l next (string trim "$path $word")
    contains -- $next ${[...known.keys()].map((path) => `'${path}'`).join(' ')}; and set path $next
  end
  echo $path
end
${lines.join('\n')}
`;
}
