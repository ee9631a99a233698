import { readdirSync, statSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { errorCode, errorText } from '../../base/error-text.ts';
import { Turns } from '../../base/turns.ts';
import { ConfigError } from '../../config/config-error.ts';
import { type OptionKeys, refuseUnknownKeys } from '../../config/option-keys.ts';
import { ModuleError } from '../../runtime/abi/guest-module.ts';
import { journalKey } from '../../runtime/durable/block-cipher.ts';
import { JournalKeyMissing } from '../../runtime/durable/journal-error.ts';
import { type ReadJournal, readJournal } from '../../runtime/durable/read-journal.ts';
import { readModule } from '../../runtime/wasm/read-module.ts';
import { judgeByModule, judgeByReplay } from './by-module.ts';
import { ChangedPolicy, judgeByPolicy } from './by-policy.ts';
import { type Finding, type JudgedRun, unjudged, unusable } from './judgement.ts';

export interface JudgeOptions {
  /** Journals, or directories: all `*.journal` files in them and below. */
  readonly journals: string | readonly string[];
  /** The changed guest: its file or its bytes. @default none */
  readonly wasm?: string | Uint8Array | undefined;
  /** The changed policy: a directory of records and profiles, configs of tasks, or both. @default none */
  readonly policy?: string | readonly string[] | undefined;
  /** What encrypted journals are opened with; a function is asked when the first of them is met. @default nothing */
  readonly key?: string | (() => Promise<string | null>) | null | undefined;
  /** Whether a tool is a difference that the model was shown, never called, and would not be shown any more. @default false */
  readonly strict?: boolean | undefined;
  /** Guests that run at once. @default the number of processors */
  readonly jobs?: number | undefined;
  /** Ends it; what was judged by then is the result. @default never */
  readonly signal?: AbortSignal | undefined;
  /** Where compiled components are kept. @default nowhere */
  readonly componentCache?: string | null | undefined;
  /** Told of each run as soon as it and all before it were judged, in the order of their files. @default nobody */
  readonly onRun?: ((judged: JudgedRun, total: number) => void) | undefined;
  /** Something that somebody should know. @default nobody is told */
  readonly onNotice?: ((text: string) => void) | undefined;
}

export interface JudgedJournals {
  /** In the order of their files. */
  readonly runs: readonly JudgedRun[];
  /** How many there are; more than were judged where it was ended early. */
  readonly total: number;
}

const optionKeys: OptionKeys<JudgeOptions> = {
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

type JudgeOne = (read: ReadJournal, key: string | null) => Promise<Finding> | Finding;

/**
 * Judges recorded runs: whether each is the same again, or, where a changed guest or policy is given, would be the same
 * with that. Nothing but guests runs: no model, no server, no process.
 * @throws ConfigError for options, a policy that cannot be used, or where there is no journal
 */
export async function judgeJournals(options: JudgeOptions): Promise<JudgedJournals> {
  refuseUnknownKeys('judgeJournals', options, optionKeys);
  const { jobs = availableParallelism(), signal = new AbortController().signal, onRun = () => {} } = options;
  if (!Number.isSafeInteger(jobs) || jobs < 1 || jobs > MAX_JOBS) {
    throw new ConfigError(`jobs: expected a whole number from 1 to ${MAX_JOBS}`);
  }
  const files = journalFiles(options.journals);
  const judge = await judgeWith(options, signal);
  const open = openWith(options.key);
  const judged: (JudgedRun | undefined)[] = [];
  const runs: JudgedRun[] = [];
  let next = 0;
  const turns = new Turns();
  const work = async () => {
    while (next < files.length && !signal.aborted) {
      const at = next++;
      const one = await judgeFile(files[at] as string, open, judge);
      if (signal.aborted) return; // whatever it found, it was ended early
      judged[at] = one;
      for (let run = judged[runs.length]; run !== undefined; run = judged[runs.length]) {
        runs.push(run);
        onRun(run, files.length);
      }
      if (turns.over) await turns.next();
    }
  };
  await Promise.all(Array.from({ length: Math.min(jobs, files.length) }, work));
  // Of those that were judged ahead of one that was not.
  const ahead = judged.slice(runs.length).filter((run) => run !== undefined);
  for (const run of ahead) onRun(run, files.length);
  return { runs: [...runs, ...ahead], total: files.length };
}

async function judgeWith(options: JudgeOptions, signal: AbortSignal): Promise<JudgeOne> {
  const { wasm, policy, strict = false, componentCache = null, onNotice = () => {} } = options;
  const surroundings = { signal, componentCache };
  const module = typeof wasm === 'string' ? await moduleOf(wasm) : wasm;
  if (policy === undefined) {
    return (read, key) =>
      module === undefined ? judgeByReplay(read, key, surroundings) : judgeByModule(read, module, surroundings);
  }
  const changed = await ChangedPolicy.open(typeof policy === 'string' ? [policy] : policy, onNotice);
  return async (read) => {
    const byModule = module === undefined ? null : await judgeByModule(read, module, surroundings);
    if (byModule !== null && byModule.verdict !== 'same') return byModule;
    const ofRun = changed.of(read.header);
    if (ofRun !== null) return judgeByPolicy(read, ofRun, strict);
    const task = read.header.task === null ? 'a task without a name' : `the task ${JSON.stringify(read.header.task)}`;
    return byModule ?? unjudged(`the run belongs to ${task}, which no given config covers`);
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

/** Opens journals; only one that is encrypted asks for the key. */
function openWith(given: JudgeOptions['key'] = null): OpenJournal {
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

async function judgeFile(file: string, open: OpenJournal, judge: JudgeOne): Promise<JudgedRun> {
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

/** Whoever wrote it may have written anything; the others are to be judged all the same. */
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
