import { abiVersion, type Call, calls, coreParams, LOG_BYTES, NAME_BYTES } from '../src/runtime/abi/calls.ts';
import { errno, errnoNames } from '../src/runtime/abi/errno.ts';
import { MAX_DEPTH } from '../src/runtime/guest/hostcalls/guest-state.ts';
import { features } from '../src/runtime/guest/hostcalls/system.ts';
import { amount, code, table } from './markdown.ts';

const families: readonly (readonly [title: string, prefixes: readonly string[]])[] = [
  ['System', ['spear_abi_version', 'spear_feature', 'time_', 'wall_', 'random_', 'sleep_', 'log']],
  ['Chat', ['cchat_']],
  ['MCP', ['mcp_']],
  ['Readiness and descriptors', ['spear_epoll_', 'spear_fd_']],
  ['User streams', ['user_stream_']],
  ['Audio', ['rtasr_', 'mic_']],
];

/** What holds for all calls. */
export function abiConventions(): string {
  return `This is version ${abiVersion.major}.${abiVersion.minor}.

A guest is a core WebAssembly module that exports its \`memory\` and imports these functions from module \`spear\`.
The host calls \`_initialize\`, if it is exported, then \`_start\` or else \`run\`; the i32 that \`run\` returns is the exit code.

- **Values** are i32 unless the signature says otherwise. Pointers and lengths are unsigned; a range outside the guest memory is EFAULT, and nothing is read or written.
- **Texts** are UTF-8 as \`(ptr, len)\`; invalid bytes are replaced. A name has at most ${amount('bytes', NAME_BYTES)}, a log line ${amount('bytes', LOG_BYTES)}; other texts are limited by [limits](configuration.md#limits).
- **Errors** are negative Linux errno numbers on every platform.
- **Out-buffers** are \`(out_ptr, out_len_ptr)\`: \`*out_len_ptr\` is a little-endian u32 that holds the capacity before the call and the length after it. On success the length is also the result. If the buffer is too small, the required size is written to \`*out_len_ptr\`, the result is -ENOSPC, and nothing is consumed: the next call returns the same bytes.
- **Descriptors** of all kinds share one table. Their numbers start at 1000 and are never reused, so a stale descriptor is always EBADF. The \`*_close\` call of any family closes descriptors of any kind, and closing twice is allowed.
- **Order of checks**: the command number, then pointers, then the descriptor.
- A **suspending** call may wait: the host suspends the guest, and the thread continues with other work. A *local* call never waits. Callbacks may be nested up to ${MAX_DEPTH} deep.
- *extension* marks calls that Spear adds to the ABI of older hosts.`;
}

/** Every call: the overview, then each family. */
export function abiCalls(): string {
  const listed = families.flatMap(([title, prefixes]) => [`### ${title}`, ...callsOf(prefixes).map(describeCall)]);
  const members = families.flatMap(([, prefixes]) => callsOf(prefixes));
  const lost = calls.filter((row) => members.filter((member) => member === row).length !== 1);
  if (lost.length > 0)
    throw new Error(
      `calls that are not in exactly one family of scripts/abi-page.ts: ${lost.map(({ name }) => name).join(', ')}`,
    );
  return [overview(), ...listed].join('\n\n');
}

function callsOf(prefixes: readonly string[]): Call[] {
  return calls.filter(({ name }) => prefixes.some((prefix) => name.startsWith(prefix)));
}

function overview(): string {
  const rows = calls.map((row: Call) => [signature(row), row.mode, supportWord(row), row.ours ? 'extension' : '']);
  return table(['call', 'mode', 'support', ''], rows);
}

function signature(row: Call): string {
  const result = row.result === 'none' ? '' : ` -> ${row.result}`;
  return code(`${row.name}(${coreParams(row).join(', ')})${result}`);
}

function supportWord({ support, errnos }: Call): string {
  if (support === 'full') return 'full';
  return support === 'partial' ? 'partial' : `none: ${Object.keys(errnos)[0]}`;
}

function describeCall(row: Call): string {
  const marks = [
    row.mode,
    ...(row.ours ? ['extension'] : []),
    ...(row.support === 'full' ? [] : [`support: ${supportWord(row)}`]),
  ];
  const commands = Object.entries(row.commands).map(
    ([number, { name, arg }]) => `- ${number} ${code(name)}: ${argument[arg]}`,
  );
  const causes = Object.entries(row.errnos).map(([name, cause]) => `- ${name}: ${cause}`);
  const parts = [
    `#### ${signature(row)}`,
    `${sentence(row.summary)} *(${marks.join(', ')})*`,
    list('Commands', commands),
    list('Errors', causes),
  ];
  return parts.filter((part) => part !== '').join('\n\n');
}

function list(title: string, lines: readonly string[]): string {
  return lines.length === 0 ? '' : `${title}:\n\n${lines.join('\n')}`;
}

const argument = { in: 'JSON of `*arg_len_ptr` bytes', out: 'an out-buffer', none: 'no argument' } as const;

function sentence(text: string): string {
  const escaped = text.replaceAll('<', '\\<').replaceAll('*', '\\*').replaceAll('_', '\\_');
  return `${escaped.charAt(0).toUpperCase()}${escaped.slice(1)}.`;
}

/** Errno names and numbers. */
export const errnoTable = (): string =>
  table(
    ['name', 'number'],
    errnoNames.map((name) => [name, String(errno[name])]),
  );

/** What `spear_feature` knows. */
export const featureList = (): string =>
  `${code('spear_feature')} returns 1 for: ${[...features].map(code).join(', ')}.`;
