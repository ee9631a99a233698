import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { NO_BLOCK, sealBlock, sealOf } from '../../src/runtime/durable/blocks.ts';
import { requireBuild } from './built.ts';

const inProject = (path: string) => fileURLToPath(new URL(`../../${path}`, import.meta.url));
const SEAL = /,"#":"[0-9a-f]{64}"\}$/;

export interface JournalCorpus {
  /** As many runs as were asked for, each in a journal of its own. */
  readonly journals: string;
  readonly files: readonly string[];
  /** The policy that they ran under, without the tool that each run calls last. */
  readonly policy: string;
  close(): void;
}

/** The files example, recorded once with a real server, and told again as often as it is wanted under other names. */
export function makeCorpus(runs: number): JournalCorpus {
  requireBuild();
  const folder = mkdtempSync(join(tmpdir(), 'spear-bench-'));
  const recorded = record(folder);
  const blocks = blocksOf(readFileSync(recorded, 'utf8'));
  const run = (JSON.parse(blocks[0]?.[0] ?? '{}') as { run: string }).run;
  const journals = join(folder, 'journals');
  mkdirSync(journals);
  const files = Array.from({ length: runs }, (_, index) => {
    const file = join(journals, `${String(index).padStart(6, '0')}.journal`);
    writeFileSync(file, sealed(blocks, run, `run-bench-${index}`));
    return file;
  });
  const policy = writeRecord(join(folder, 'changed.d'), ['list_*']);
  return { journals, files, policy, close: () => rmSync(folder, { recursive: true, force: true }) };
}

function record(folder: string): string {
  const journal = join(folder, 'recorded.journal');
  const demo = (name: string) => inProject(`fixtures/demo/${name}`);
  const records = writeRecord(join(folder, 'mcp.d'), ['read_*', 'list_*', 'write_file']);
  const task = ['--task-config', demo('task.json'), '--mcp-dir', records, '--script', demo('model.json')];
  const args = [inProject('bin/spear-run.cjs'), inProject('fixtures/c/files.wasm'), ...task, '--journal', journal];
  const { status, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8' });
  if (status !== 0) throw new Error(`the files example could not be recorded: ${stderr}`);
  return journal;
}

function writeRecord(directory: string, allowed: readonly string[]): string {
  mkdirSync(directory);
  const server = inProject('node_modules/@modelcontextprotocol/server-filesystem/dist/index.js');
  const stdio = { command: process.execPath, args: [server, inProject('fixtures/demo/notes')] };
  const content = { server_id: 'notes', transport: 'stdio', stdio, allowed_tools: allowed };
  writeFileSync(join(directory, 'notes.json'), JSON.stringify(content));
  return directory;
}

/** The lines of each block, without its seal. */
function blocksOf(text: string): string[][] {
  const blocks: string[][] = [[]];
  for (const line of text.trimEnd().split('\n')) {
    const isLast = sealOf(line) !== null;
    blocks.at(-1)?.push(isLast ? line.replace(SEAL, '}') : line);
    if (isLast) blocks.push([]);
  }
  return blocks.filter((block) => block.length > 0);
}

function sealed(blocks: readonly string[][], run: string, name: string): string {
  let previous = NO_BLOCK;
  let text = '';
  for (const block of blocks) {
    const made = sealBlock(
      block.map((line) => line.replaceAll(run, name)),
      previous,
    );
    text += made.text;
    previous = made.hash;
  }
  return text;
}
