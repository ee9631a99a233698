import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { isDeepStrictEqual } from 'node:util';
import { openMcp, runGuest, scriptedBackend } from '../../../src/index.ts';
import { type JournalKey, journalKey, NO_BLOCK, sealBlock } from '../../../src/runtime/durable/blocks.ts';
import { JournalError } from '../../../src/runtime/durable/journal-error.ts';
import { type ReadJournal, readJournal } from '../../../src/runtime/durable/read-journal.ts';
import type { Random } from '../random.ts';
import { type Effort, Failures, type Finding } from '../topic.ts';

const fixture = (path: string) => fileURLToPath(new URL(`../../../fixtures/${path}`, import.meta.url));
const KEY_TEXT = 'the key of these journals';
const TOOL_CALLS = 3;

interface Recorded {
  readonly file: string;
  readonly key: string | null;
  readonly bytes: Buffer;
  readonly read: ReadJournal;
}

interface Change {
  readonly what: string;
  readonly bytes: Buffer;
  /** Without a key, whoever computes the hashes again is not found: the docs say so. */
  readonly isResealed: boolean;
}

/**
 * Journals that were changed, then read and resumed. What is accepted is the beginning of what was recorded, nothing
 * else; what is refused calls no tool.
 */
export async function tampering(effort: Effort): Promise<Finding> {
  const folder = mkdtempSync(join(tmpdir(), 'spear-torture-tampering-'));
  const failures = new Failures();
  const counts = { refused: 0, cut: 0, resumed: 0, undetected: 0 };
  try {
    const bench = await Bench.open(folder);
    const journals: Recorded[] = [];
    for (const key of [null, KEY_TEXT]) {
      for (const label of ['first', 'second']) journals.push(await bench.record(label, key));
    }
    const { random } = effort;
    const all = effort.of(400, 20_000);
    let probes = 0;
    for (; probes < all && !effort.isOver(); probes++) {
      const recorded = journals[probes % journals.length] as Recorded;
      const others = journals.filter((other) => other !== recorded);
      const change = changed(recorded, others, random);
      if (change.bytes.equals(recorded.bytes)) continue;
      const file = join(folder, 'changed.journal');
      writeFileSync(file, change.bytes);
      const wrong = judge(file, recorded, change, counts);
      if (wrong !== null) failures.add(`${change.what}, ${recorded.key === null ? 'plain' : 'encrypted'}: ${wrong}`);
      if (probes % effort.of(40, 200) === 0) {
        const why = await bench.resume(file, recorded, change);
        counts.resumed++;
        if (why !== null) failures.add(`${change.what}, resumed: ${why}`);
      }
      effort.progress(probes, all);
    }
    await bench.close();
    const { refused, cut, resumed, undetected } = counts;
    return {
      what: 'journals, plain and encrypted, that were changed, read and resumed',
      count: probes,
      lost: failures.count,
      crashed: 0,
      measured: `${refused} refused, ${cut} taken as cut off, ${undetected} plain ones with new hashes taken, ${resumed} resumed`,
      failures: failures.list(),
    };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Null: as the docs say. */
function judge(file: string, recorded: Recorded, change: Change, counts: Record<string, number>): string | null {
  let read: ReadJournal;
  try {
    read = readJournal(file, keyOf(recorded.key));
  } catch (error) {
    if (!(error instanceof JournalError)) return `failed with ${String(error)}`;
    counts.refused = (counts.refused ?? 0) + 1;
    return null;
  }
  // It was replaced by one that can be read without the key: resume and node refuse it.
  if (recorded.key !== null && read.cipher === null) {
    counts.refused = (counts.refused ?? 0) + 1;
    return null;
  }
  const { header, records } = recorded.read;
  // A whole journal of another run: a node refuses it by its id.
  const isOther = read.header.run !== header.run && !change.isResealed;
  const isBeginning = isDeepStrictEqual(unsealed(read.records), unsealed(records.slice(0, read.records.length)));
  if (isOther || (isBeginning && isDeepStrictEqual(read.header, header))) {
    counts.cut = (counts.cut ?? 0) + 1;
    return null;
  }
  if (recorded.key === null && change.isResealed) {
    counts.undetected = (counts.undetected ?? 0) + 1;
    return null;
  }
  // Lines after the last hash count without one.
  if (recorded.key === null && read.end.unsealed !== '') return null;
  return 'it was accepted with other records';
}

/** Without hashes: a cut may turn a sealed line into an unsealed one. */
function unsealed(records: readonly object[]): object[] {
  return records.map((record) => ({ ...record, '#': undefined }));
}

const keyOf = (text: string | null): JournalKey | null => (text === null ? null : journalKey(text));

const changes: readonly ((lines: string[], random: Random, other: string[]) => string)[] = [
  (lines, random) => {
    lines.splice(random.below(lines.length), 1 + random.below(2));
    return 'lines removed';
  },
  (lines, random) => {
    const at = random.below(lines.length);
    lines.splice(at, 0, lines[random.below(lines.length)] as string);
    return 'a line repeated';
  },
  (lines, random) => {
    const [a, b] = [random.below(lines.length), random.below(lines.length)];
    [lines[a], lines[b]] = [lines[b] as string, lines[a] as string];
    return 'two lines exchanged';
  },
  (lines, random, other) => {
    lines[random.below(lines.length)] = other[random.below(other.length)] as string;
    return 'a line of another journal';
  },
  (lines, random, other) => {
    const at = 1 + random.below(lines.length - 1);
    lines.splice(at, lines.length, ...other.slice(at));
    return 'the rest of another journal';
  },
  (lines, random) => {
    const at = random.below(lines.length);
    const line = lines[at] as string;
    lines[at] = line.replace(/"result":"[^"]*"|first|second/, '"result":"forged"');
    return 'another result';
  },
  (lines, random) => {
    lines.splice(1 + random.below(lines.length), 0, '{"t":"end","ms":1,"reason":"exit","exit":0,"message":null}');
    return 'an end put in';
  },
  (lines, random) => {
    const at = random.below(lines.length);
    lines[at] = (lines[at] as string).replace(/"t":"[a-z.]+"/, random.pick(['"t":"header"', '"t":"unknown"', '"t":7']));
    return 'another kind of record';
  },
];

function changed({ bytes }: Recorded, others: readonly Recorded[], random: Random): Change {
  const how = random.below(4);
  if (how === 0) {
    const flipped = Buffer.from(bytes);
    for (let left = 1 + random.below(3); left > 0; left--) {
      const at = random.below(flipped.length);
      flipped[at] = (flipped[at] as number) ^ (1 << random.below(8));
    }
    return { what: 'bits flipped', bytes: flipped, isResealed: false };
  }
  if (how === 1 && random.chance(2)) {
    const at = random.below(bytes.length);
    return { what: `cut at ${at}`, bytes: bytes.subarray(0, at), isResealed: false };
  }
  const other = random.pick(others).bytes.toString().trimEnd().split('\n');
  if (how === 1 && random.chance(4)) {
    return { what: 'another journal', bytes: Buffer.from(`${other.join('\n')}\n`), isResealed: false };
  }
  const lines = bytes.toString().trimEnd().split('\n');
  const what = random.pick(changes)(lines, random, other);
  // Half of them by somebody who computes the hashes again.
  const isResealed = random.chance(2);
  return {
    what: isResealed ? `${what}, with new hashes` : what,
    bytes: isResealed ? resealed(lines) : joined(lines),
    isResealed,
  };
}

const joined = (lines: readonly string[]) => Buffer.from(lines.map((line) => `${line}\n`).join(''));

/** The lines in blocks as they were, each with the hash that it would have there. */
function resealed(lines: readonly string[]): Buffer {
  const seal = /,"#":"[0-9a-f]{64}"/;
  let hash = NO_BLOCK;
  let block: string[] = [];
  let text = '';
  for (const [at, line] of lines.entries()) {
    const isSealed = seal.test(line);
    block.push(line.replace(seal, ''));
    if (!isSealed && at < lines.length - 1) continue;
    const sealed = sealBlock(block, hash);
    hash = sealed.hash;
    text += sealed.text;
    block = [];
  }
  return Buffer.from(text);
}

/** Runs with a real server whose calls are counted. */
class Bench {
  readonly #folder: string;
  readonly #mcp: Awaited<ReturnType<typeof openMcp>>;
  readonly #calls: string;

  private constructor(folder: string, mcp: Awaited<ReturnType<typeof openMcp>>, calls: string) {
    this.#folder = folder;
    this.#mcp = mcp;
    this.#calls = calls;
  }

  static async open(folder: string): Promise<Bench> {
    const calls = join(folder, 'calls');
    writeFileSync(calls, '');
    const transport = {
      kind: 'stdio' as const,
      command: process.execPath,
      args: [fixture('mcp-servers/counting.mjs')],
    };
    const task = { name: 'tampering', config: { 'mcp.enabled': true, 'mcp.default_server_ids': ['count'] } };
    const mcp = await openMcp({
      task,
      stateDir: folder,
      servers: [{ name: 'count', transport, env: { TRAIL: calls } }],
    });
    return new Bench(folder, mcp, calls);
  }

  close(): Promise<void> {
    return this.#mcp.close();
  }

  /** How often the server was called with each label since the last question. */
  #called(): string[] {
    const labels = readFileSync(this.#calls, 'utf8').split('\n').filter(Boolean);
    writeFileSync(this.#calls, '');
    return labels;
  }

  async record(label: string, key: string | null): Promise<Recorded> {
    const file = join(this.#folder, `${label}-${key === null ? 'plain' : 'keyed'}.journal`);
    const result = await this.#run(label, { file, key });
    const called = this.#called();
    if (result.exitCode !== 0 || called.length !== TOOL_CALLS) throw new Error(`${file}: ${result.message} ${called}`);
    return { file, key, bytes: readFileSync(file), read: readJournal(file, keyOf(key)) };
  }

  /** Null: what had a recorded result was not called again, and what is refused calls nothing. */
  async resume(file: string, { key }: Recorded, change: Change): Promise<string | null> {
    let done: ReadonlySet<string> = new Set();
    let isRefused = false;
    try {
      const read = readJournal(file, keyOf(key));
      done = new Set(
        read.records.flatMap((record) => (record.t === 'tool.started' ? [String(JSON.stringify(record.args))] : [])),
      );
      isRefused = key !== null && read.cipher === null;
    } catch {
      isRefused = true;
    }
    const outcome = await this.#run('first', { file, key, mode: 'resume' as const }).then(
      () => 'ended',
      (error: unknown) => (error instanceof JournalError ? 'refused' : String(error)),
    );
    const called = this.#called();
    if (isRefused && (outcome !== 'refused' || called.length > 0)) return `${outcome}, called ${called.join()}`;
    const again = called.filter((label) => [...done].some((args) => args.includes(`"${label}"`)));
    if (again.length > 0 && !change.isResealed) return `called again: ${again.join()}`;
    return null;
  }

  async #run(label: string, journal: { file: string; key: string | null; mode?: 'resume' }) {
    const names = Array.from({ length: TOOL_CALLS }, (_, at) => `${label}-${at}`);
    const call = (id: string) => ({ tool_calls: [{ id, name: 'count_work', arguments: { label: id } }] });
    const turns = [
      ...names.map((id, at) => ({
        when: at === 0 ? { role: 'user' } : { tool_call_id: names[at - 1] },
        reply: call(id),
      })),
      { when: { tool_call_id: names.at(-1) }, reply: { content: `done by ${label}` } },
    ];
    return runGuest({
      wasm: fixture('c/files.wasm'),
      args: ['files', `What is there, ${label}?`],
      mcp: this.#mcp,
      backend: await scriptedBackend({ turns } as never),
      approve: () => 'allow_once',
      output: () => {},
      journal,
    });
  }
}
