import { chmod, copyFile, mkdir, mkdtemp, readdir, readFile, rename, rm } from 'node:fs/promises';
import { availableParallelism, tmpdir } from 'node:os';
import { basename, dirname, extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { recordSources } from './guest-sources.ts';
import { type Compile, type Form, type Language, toolchains } from './wasm-toolchains.ts';

const usage = `Usage: npm run build:guests -- [options]

Builds every guest of guest-examples/ into fixtures/. If a toolchain is missing, its guests are reported and not rebuilt.

  --only LANGUAGE   c, assemblyscript, javascript, rust or wat
  --strict          a missing toolchain is an error
  --check           only compares a build with fixtures/; a difference is an error
  --help            this text`;

const root = fileURLToPath(new URL('..', import.meta.url));
const languages: Readonly<Record<string, Language>> = {
  '.c': 'c',
  '.cpp': 'c',
  '.ts': 'assemblyscript',
  '.js': 'javascript',
  '.rs': 'rust',
  '.wat': 'wat',
};
const folders = ['c', 'c/test', 'assemblyscript', 'assemblyscript/test', 'javascript', 'rust', 'rust/test'];
/** Parts that other guests include. */
const notGuests = new Set([
  'assemblyscript/spear.ts',
  'assemblyscript/spear-component.ts',
  'assemblyscript/component-memory.ts',
  'assemblyscript/expenses.ts',
  'javascript/spear.js',
  'rust/expenses.rs',
]);
/** Examples that are built in both forms. */
const alsoComponents = new Set(['hello', 'chat', 'stream', 'sum', 'agent', 'tour', 'inventory', 'resources', 'echo']);

interface Guest {
  readonly language: Language;
  readonly form: Form;
  /** Relative to guest-examples/. */
  readonly source: string;
  /** Relative to fixtures/. */
  readonly output: string;
}

type Outcome =
  | { guest: Guest; state: 'built'; bytes: number }
  | { guest: Guest; state: 'missing' | 'failed'; why: string };

async function listGuests(): Promise<Guest[]> {
  const found: Guest[] = [];
  for (const folder of folders) {
    const names = await readdir(join(root, 'guest-examples', folder));
    for (const name of names.sort()) {
      const source = `${folder}/${name}`;
      const language = languages[extname(name)];
      if (!language || notGuests.has(source)) continue;
      const stem = basename(name, extname(name));
      for (const form of formsOf(language, folder, stem)) {
        found.push({ language, form, source, output: `${folder}/${stem}${form === 'core' ? '' : '.component'}.wasm` });
      }
    }
  }
  return found;
}

function formsOf(language: Language, folder: string, stem: string): readonly Form[] {
  if (language === 'javascript') return ['component'];
  if (language === 'rust') return ['core', 'component'];
  return alsoComponents.has(stem) && folder === language ? ['core', 'component'] : ['core'];
}

async function build(guest: Guest, compile: Compile | undefined, target: string): Promise<Outcome> {
  if (!compile) return { guest, state: 'missing', why: `${toolchains[guest.language].title} is missing` };
  const output = join(target, guest.output);
  try {
    await mkdir(dirname(output), { recursive: true });
    await compile(join(root, 'guest-examples', guest.source), output, guest.form);
    await chmod(output, 0o644);
    return { guest, state: 'built', bytes: (await readFile(output)).byteLength };
  } catch (error) {
    return { guest, state: 'failed', why: error instanceof Error ? error.message : String(error) };
  }
}

async function buildAll(guests: readonly Guest[], target: string): Promise<Outcome[]> {
  const compilers = new Map<Language, Compile | undefined>();
  for (const language of new Set(guests.map((guest) => guest.language))) {
    compilers.set(language, await toolchains[language].find());
  }
  const outcomes: Outcome[] = [];
  const queue = [...guests.entries()];
  const work = async () => {
    for (let next = queue.shift(); next; next = queue.shift()) {
      const [index, guest] = next;
      outcomes[index] = await build(guest, compilers.get(guest.language), target);
    }
  };
  await Promise.all(Array.from({ length: availableParallelism() }, work));
  return outcomes;
}

function report(outcomes: readonly Outcome[]): void {
  for (const outcome of outcomes) {
    const name = `fixtures/${outcome.guest.output}`.padEnd(44);
    if (outcome.state === 'built') console.log(`${name} ${String(outcome.bytes).padStart(7)} bytes`);
    else if (outcome.state === 'missing') console.log(`${name} not built: ${outcome.why}`);
    else console.error(`${name} failed:\n${outcome.why}`);
  }
  const missing = new Set(outcomes.filter(({ state }) => state === 'missing').map(({ guest }) => guest.language));
  for (const language of missing) {
    console.error(`missing: ${toolchains[language].title}. Install it: ${toolchains[language].install}`);
  }
}

/** What differs between the modules just built and those in fixtures/, one line each. */
async function differences(outcomes: readonly Outcome[], target: string, all: readonly Guest[]): Promise<string[]> {
  const lines: string[] = [];
  for (const { guest, state } of outcomes) {
    if (state !== 'built') continue;
    const committed = await readFile(join(root, 'fixtures', guest.output)).catch(() => undefined);
    const rebuilt = await readFile(join(target, guest.output));
    if (!committed) lines.push(`fixtures/${guest.output} is missing`);
    else if (toolchains[guest.language].reproducible && !committed.equals(rebuilt)) {
      lines.push(`fixtures/${guest.output} differs: ${committed.byteLength} bytes, rebuilt ${rebuilt.byteLength}`);
    }
  }
  const expected = new Set(all.map(({ output }) => output));
  for (const folder of folders) {
    for (const name of await readdir(join(root, 'fixtures', folder)).catch(() => [])) {
      if (name.endsWith('.wasm') && !expected.has(`${folder}/${name}`)) {
        lines.push(`fixtures/${folder}/${name} has no source in guest-examples/${folder}`);
      }
    }
  }
  return lines;
}

/** Puts what was built into fixtures/, each file whole or not at all: tests may be reading them. */
async function install(outcomes: readonly Outcome[], target: string): Promise<void> {
  for (const { guest, state } of outcomes) {
    if (state !== 'built') continue;
    const place = join(root, 'fixtures', guest.output);
    await mkdir(dirname(place), { recursive: true });
    await copyFile(join(target, guest.output), `${place}.new`);
    await rename(`${place}.new`, place);
  }
  for (const language of ['rust', 'javascript'] as const) {
    const own = outcomes.filter(({ guest }) => guest.language === language);
    if (own.length > 0 && own.every(({ state }) => state === 'built')) await recordSources(language);
  }
}

async function main(): Promise<number> {
  const { values } = parseArgs({
    options: {
      only: { type: 'string' },
      strict: { type: 'boolean' },
      check: { type: 'boolean' },
      help: { type: 'boolean' },
    },
  });
  if (values.help) {
    console.log(usage);
    return 0;
  }
  if (values.only && !(values.only in toolchains)) {
    throw new Error(`--only ${values.only}: not one of ${Object.keys(toolchains).join(', ')}`);
  }
  const all = await listGuests();
  const guests = all.filter(({ language }) => !values.only || language === values.only);
  const target = await mkdtemp(join(tmpdir(), 'spear-guests-'));
  try {
    const outcomes = await buildAll(guests, target);
    report(outcomes);
    const changed = values.check ? await differences(outcomes, target, all) : [];
    for (const line of changed) console.error(line);
    if (!values.check) await install(outcomes, target);
    else if (outcomes.every(({ state }) => state === 'built') && changed.length === 0) {
      console.log('fixtures/ is up to date');
    }
    const bad = outcomes.some(({ state }) => state === 'failed' || (state === 'missing' && values.strict));
    return bad || changed.length > 0 ? 1 : 0;
  } finally {
    await rm(target, { recursive: true, force: true });
  }
}

try {
  process.exitCode = await main();
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  console.error(usage);
  process.exitCode = 1;
}
