import { createHash } from 'node:crypto';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';

/** Languages whose guests are not rebuilt to the same bytes everywhere. */
export type RecordedLanguage = 'rust' | 'javascript';

/**
 * What the guests of a language in fixtures/ were built from. Whether they are stale can then be told without building
 * them: not every machine that runs the tests has the compiler, and not every compiler gives the same bytes twice.
 */
export interface GuestSources {
  /** sha256 by path from the root of the project. */
  readonly sources: Readonly<Record<string, string>>;
  readonly built: Readonly<Record<string, string>>;
}

const root = fileURLToPath(new URL('..', import.meta.url));
const record = (language: RecordedLanguage) => join(root, 'fixtures', language, 'SOURCES.json');
const wit = 'wit/spear.wit';

const sourceFiles: Readonly<Record<RecordedLanguage, RegExp>> = {
  rust: /\.rs$|^Cargo\.(toml|lock)$|^rust-toolchain\.toml$/,
  javascript: /\.js$/,
};

const sha256 = (bytes: Uint8Array | string) => createHash('sha256').update(bytes).digest('hex');

/** Only declarations reach a component. */
const withoutComments = (text: string) => text.replaceAll(/^\s*\/\/.*\n/gm, '');

/** Comments do not reach a guest either, but the line numbers of its code do. */
function withBlankComments(file: string, text: string): string {
  const comment = file.endsWith('.js') ? /^[ \t]*(?:\/\/|\/\*\*|\*[ /]|\*$).*$/gm : /^[ \t]*\/\/.*$/gm;
  return text.replaceAll(comment, '');
}

async function filesIn(folder: string, wanted: RegExp): Promise<string[]> {
  const entries = await readdir(join(root, folder), { recursive: true, withFileTypes: true });
  return entries
    .filter((entry) => entry.isFile() && wanted.test(entry.name))
    .map((entry) => relative(root, join(entry.parentPath, entry.name)))
    .filter((file) => !file.startsWith('guest-examples/rust/target/'))
    .sort();
}

async function hashes(
  files: readonly string[],
  part: (file: string, bytes: Buffer) => Buffer | string = (_, bytes) => bytes,
): Promise<Record<string, string>> {
  const found = await Promise.all(
    files.map(async (file) => [file, sha256(part(file, await readFile(join(root, file))))] as const),
  );
  return Object.fromEntries(found);
}

/** As they are on disk now. */
export async function currentSources(language: RecordedLanguage): Promise<GuestSources> {
  const files = await filesIn(`guest-examples/${language}`, sourceFiles[language]);
  const world = sha256(withoutComments(await readFile(join(root, wit), 'utf8')));
  return {
    sources: {
      ...(await hashes(files, (file, bytes) => withBlankComments(file, bytes.toString('utf8')))),
      [wit]: world,
    },
    built: await hashes(await filesIn(`fixtures/${language}`, /\.wasm$/)),
  };
}

/** As they were when the guests were built. */
export async function recordedSources(language: RecordedLanguage): Promise<GuestSources> {
  return JSON.parse(await readFile(record(language), 'utf8')) as GuestSources;
}

export async function recordSources(language: RecordedLanguage): Promise<void> {
  await writeFile(record(language), `${JSON.stringify(await currentSources(language), null, 2)}\n`);
}
