import { existsSync, readdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const fixture = (path: string) => fileURLToPath(new URL(`../../../fixtures/${path}`, import.meta.url));

/** A guest, and how `spear-run` is told to run it. */
export interface RecordedGuest {
  /** Its file under fixtures/, or what it is. */
  readonly name: string;
  readonly wasm: string;
  readonly flags: readonly string[];
  readonly guestArgs: readonly string[];
  /** A file; null: it has no input. */
  readonly input: string | null;
}

const mcp = ['--mcp-dir', fixture('mcp.d'), '--approve', 'deny'];
const withFiles = [...mcp, '--task-config', fixture('tasks/tour.json')];
const listNotes = ['files', 'list_directory', '{"path":"."}'];
const script = (path: string) => ['--script', fixture(path)];

/** By the name of the example, what is not found beside it. */
const examples: Readonly<Record<string, Partial<Omit<RecordedGuest, 'name' | 'wasm'>>>> = {
  tour: { flags: mcp },
  resources: { flags: mcp },
  mcp: { flags: withFiles, guestArgs: listNotes },
  files: { flags: [...withFiles, ...script('scripts/test/files.json')] },
  echo: { flags: ['--stream', 'stdio'], input: fixture('streams/hello.frames') },
};

/** The guests of tests, by their file: those that say nothing without it. */
const tests: typeof examples = {
  'poll-spin': { flags: script('scripts/test/poll-spin.json'), guestArgs: ['both'] },
  'mcp-call': { flags: withFiles, guestArgs: listNotes },
  'mcp-poll': { flags: withFiles, guestArgs: [...listNotes, 'epoll'] },
  nested: { flags: script('scripts/test/nested.json') },
  clerk: { flags: ['--stream', 'stdio'], input: fixture('streams/bye.frames') },
  sleep: { guestArgs: ['20'] },
  // Ended by their deadline, which must leave a busy machine the time to print what comes before.
  spin: { flags: ['--limit', 'timeout_ms=3000'] },
  'catch-all': { flags: ['--limit', 'timeout_ms=3000'] },
  'echo-stdin': { input: fixture('scripts/agent.json') },
};

const named = (folder: string, how: typeof examples): RecordedGuest[] =>
  readdirSync(fixture(folder))
    .filter((file) => file.endsWith('.wasm'))
    .map((file) => {
      const name = file.replace(/(?:\.component)?\.wasm$/, '');
      const { flags = [], guestArgs = [], input = null } = how[name] ?? {};
      const beside = (
        [
          ['--script', `scripts/${name}.json`],
          ['--task-config', `tasks/${name}.json`],
        ] as const
      ).flatMap(([flag, path]) => (flags.includes(flag) || !existsSync(fixture(path)) ? [] : [flag, fixture(path)]));
      const wasm = fixture(`${folder}/${file}`);
      return { name: `${folder}/${file}`, wasm, flags: [...flags, ...beside], guestArgs, input };
    });

/** Every guest that is built in the tree, in every form. */
export const builtGuests = (): RecordedGuest[] => [
  ...['c', 'assemblyscript', 'rust', 'javascript'].flatMap((folder) => named(folder, examples)),
  ...['c/test', 'assemblyscript/test', 'rust/test'].flatMap((folder) => named(folder, tests)),
];
