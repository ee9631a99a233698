import { readdirSync, statSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { errorCode, errorText } from '../../base/errors.ts';
import { TimeSlice } from '../../base/timing.ts';
import { ConfigError } from '../../config/config-error.ts';
import { type OptionKeys, refuseUnknownKeys } from '../../config/option-keys.ts';
import { ModuleError } from '../../runtime/abi/guest-module.ts';
import { journalKey } from '../../runtime/durable/blocks.ts';
import { JournalKeyMissing } from '../../runtime/durable/journal-error.ts';
import { type ReadJournal, readJournal } from '../../runtime/durable/read-journal.ts';
import { readModule } from '../../runtime/wasm/prepare.ts';
import { testByReplay, testWithModule } from './by-module.ts';
import { ChangedPolicy, testUnderPolicy } from './by-policy.ts';
import { type Finding, type TestedRun, untested, unusable } from './outcome.ts';

export interface JournalTestOptions {
  /** Journals, or directories: all `*.journal` files in them and below. */
  readonly journals: string | readonly string[];
  /** The changed guest: its file or its bytes. @default none */
  readonly wasm?: string | Uint8Array | undefined;
  /** The changed policy: a directory of records and profiles, configs of tasks, or both. @default none */
  readonly policy?: string | readonly string[] | undefined;
  /** Key of encrypted journals; a function is called at the first encrypted journal. @default none */
  readonly key?: string | (() => Promise<string | null>) | null | undefined;
  /** Whether a tool that was offered to the model, never called, and would no longer be offered is a difference. @default false */
  readonly strict?: boolean | undefined;
  /** Guests that run at once. @default the number of processors */
  readonly jobs?: number | undefined;
  /** Ends the test; runs that were tested before are the result. @default never */
  readonly signal?: AbortSignal | undefined;
  /** Directory of compiled components. @default none */
  readonly componentCache?: string | null | undefined;
  /** Receives each run as soon as it and all runs before it were tested, in the order of their files. @default none */
  readonly onRun?: ((judged: TestedRun, total: number) => void) | undefined;
  /** Receives warnings, such as those of a changed policy. @default none */
  readonly onNotice?: ((text: string) => void) | undefined;
}

export interface TestedJournals {
  /** In the order of their files. */
  readonly runs: readonly TestedRun[];
  /** Number of journals; more than were tested if the test ended early. */
  readonly total: number;
}

const optionKeys: OptionKeys<JournalTestOptions> = {
  journals: true,
  wasm: true,
  policy: true,
  key: true,
  strict: true,
  jobs: true,
  signal: true,
  componentCache: true,
  onRun: true,
  onNotice: true,
};

const MAX_JOBS = 64;
const JOURNAL = '.journal';

type TestRun = (read: ReadJournal, key: string | null) => Promise<Finding> | Finding;

/**
 * Tests recorded runs: unchanged, with a changed guest, under a changed policy, or both. Only guests run: no model, no
 * server, no process.
 * @throws ConfigError for invalid options, an unusable policy, or no journal
 */
export async function testJournals(options: JournalTestOptions): Promise<TestedJournals> {
  refuseUnknownKeys('testJournals', options, optionKeys);
  const { jobs = availableParallelism(), signal = new AbortController().signal, onRun = () => {} } = options;
  if (!Number.isSafeInteger(jobs) || jobs < 1 || jobs > MAX_JOBS) {
    throw new ConfigError(`jobs: expected a whole number from 1 to ${MAX_JOBS}`);
  }
  const files = journalFiles(options.journals);
  const judge = await testOf(options, signal);
  const open = openWith(options.key);
  const judged: (TestedRun | undefined)[] = [];
  const runs: TestedRun[] = [];
  let next = 0;
  const slice = new TimeSlice();
  const work = async () => {
    while (next < files.length && !signal.aborted) {
      const at = next++;
      const one = await testFile(files[at] as string, open, judge);
      if (signal.aborted) return; // the result of a run that was ended early is not valid
      judged[at] = one;
      for (let run = judged[runs.length]; run !== undefined; run = judged[runs.length]) {
        runs.push(run);
        onRun(run, files.length);
      }
      if (slice.isOver) await slice.yield();
    }
  };
  await Promise.all(Array.from({ length: Math.min(jobs, files.length) }, work));
  // Runs that were tested ahead of one that was not.
  const ahead = judged.slice(runs.length).filter((run) => run !== undefined);
  for (const run of ahead) onRun(run, files.length);
  return { runs: [...runs, ...ahead], total: files.length };
}

async function testOf(options: JournalTestOptions, signal: AbortSignal): Promise<TestRun> {
  const { wasm, policy, strict = false, componentCache = null, onNotice = () => {} } = options;
  const surroundings = { signal, componentCache };
  const module = typeof wasm === 'string' ? await moduleOf(wasm) : wasm;
  if (policy === undefined) {
    return (read, key) =>
      module === undefined ? testByReplay(read, key, surroundings) : testWithModule(read, module, surroundings);
  }
  const changed = await ChangedPolicy.open(typeof policy === 'string' ? [policy] : policy, onNotice);
  return async (read) => {
    const byModule = module === undefined ? null : await testWithModule(read, module, surroundings);
    if (byModule !== null && byModule.verdict !== 'same') return byModule;
    const ofRun = changed.of(read.header);
    if (ofRun !== null) return testUnderPolicy(read, ofRun, strict);
    const task = read.header.task === null ? 'a task without a name' : `the task ${JSON.stringify(read.header.task)}`;
    return byModule ?? untested(`the run belongs to ${task}, which no given config covers`);
  };
}

async function moduleOf(file: string): Promise<Uint8Array> {
  try {
    return await readModule(file);
  } catch (error) {
    if (error instanceof ModuleError) throw new ConfigError(`${file}: ${error.message}`);
    throw error;
  }
}

type OpenJournal = (file: string) => Promise<{ readonly read: ReadJournal; readonly key: string | null }>;

/** Opens journals; asks for the key at the first encrypted one. */
function openWith(given: JournalTestOptions['key'] = null): OpenJournal {
  let asked: Promise<string | null> | null = null;
  return async (file) => {
    try {
      return { read: readJournal(file), key: null };
    } catch (error) {
      if (!(error instanceof JournalKeyMissing)) throw error;
      asked ??= typeof given === 'function' ? given() : Promise.resolve(given);
      const key = await asked;
      if (key === null) throw error;
      return { read: readJournal(file, journalKey(key)), key };
    }
  };
}

async function testFile(file: string, open: OpenJournal, judge: TestRun): Promise<TestedRun> {
  let read: ReadJournal | null = null;
  let found: Finding;
  try {
    const opened = await open(file);
    read = opened.read;
    found = await judge(read, opened.key);
  } catch (error) {
    found = unusable(whyUnusable(file, read, error));
  }
  return { file, run: read?.header.run ?? null, task: read?.header.task ?? null, ...found };
}

/** A journal is untrusted input: one that cannot be tested does not end the test of the others. */
function whyUnusable(file: string, read: ReadJournal | null, error: unknown): string {
  if (error instanceof ConfigError) return error.message;
  if (error instanceof ModuleError) return `${file}: module ${read?.header.wasm.path}: ${error.message}`;
  return `${file}: could not be tested: ${errorText(error)}`;
}

function journalFiles(given: string | readonly string[]): string[] {
  const paths = typeof given === 'string' ? [given] : given;
  if (paths.length === 0) throw new ConfigError('journals: name a journal or a directory of journals');
  return [...new Set(paths.flatMap(filesOf))];
}

function filesOf(path: string): string[] {
  try {
    if (!statSync(path).isDirectory()) return [path];
    const found = readdirSync(path, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile() && entry.name.endsWith(JOURNAL))
      .map((entry) => join(entry.parentPath, entry.name))
      .sort();
    if (found.length > 0) return found;
  } catch (error) {
    throw new ConfigError(`${path}: cannot be read (${errorCode(error)})`);
  }
  throw new ConfigError(`${path}: contains no journal: no file name ends with ${JOURNAL}`);
}
