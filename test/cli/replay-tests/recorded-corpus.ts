import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { builtCommand } from '../../support/built-command.ts';

export const fixture = (path: string) => fileURLToPath(new URL(`../../../fixtures/${path}`, import.meta.url));

const call = (label: string) => ({ id: label, name: 'count_work', arguments: { label } });
const script = {
  turns: [
    { when: { role: 'user' }, reply: { tool_calls: [call('a')] } },
    { when: { tool_call_id: 'a' }, reply: { tool_calls: [call('b'), call('c')] } },
    { when: { tool_call_id: 'c' }, reply: { tool_calls: [{ id: 'd', name: 'count_seen', arguments: {} }] } },
    { when: { tool_call_id: 'd' }, reply: { content: 'all done' } },
  ],
};

/** The policy that the runs are recorded under; `seen` is denied by the task. */
const task = { 'mcp.enabled': true, 'mcp.default_server_ids': ['count'], 'mcp.tool_denylist': ['seen'] };

/** Runs of guests with a real MCP server, recorded by the command; and what may be changed about them. */
export class RecordedCorpus {
  readonly folder = mkdtempSync(join(tmpdir(), 'spear-judge-'));
  readonly journals = join(this.folder, 'journals');
  /** A line for each call that the server was sent. */
  readonly trail = join(this.folder, 'trail');
  #made = 0;

  constructor() {
    mkdirSync(this.journals);
    const common = ['--task-config', this.task(), '--mcp-dir', this.records(), '--approve', 'deny'];
    const model = ['--script', this.#file('script.json', script)];
    this.#record('files', [fixture('c/files.wasm'), ...common, ...model]);
    const wanted = ['count', 'work', '{"label":"x"}', '2'];
    this.#record('own', [fixture('c/mcp.wasm'), ...common, '--', ...wanted]);
    this.#record('sum', [fixture('c/sum.wasm'), '--script', fixture('scripts/sum.json')]);
  }

  journal(name: string): string {
    return join(this.journals, `${name}.journal`);
  }

  /** A directory with the server's record. */
  records(more: object = {}): string {
    const directory = join(this.folder, `mcp-${++this.#made}.d`);
    mkdirSync(directory);
    const stdio = {
      command: process.execPath,
      args: [fixture('mcp-servers/counting.mjs')],
      env: { TRAIL: this.trail },
    };
    const record = { server_id: 'count', transport: 'stdio', stdio, allowed_tools: ['*'], ...more };
    writeFileSync(join(directory, 'count.json'), JSON.stringify(record));
    return directory;
  }

  /** A task config. */
  task(more: object = {}, name = 'counting'): string {
    return this.#file(`task-${++this.#made}.json`, { name, config: { ...task, ...more } });
  }

  /** A guest in which one text of the same length stands for another: as if its prompt had been changed. */
  patched(guest: string, from: string, to: string): string {
    const bytes = readFileSync(fixture(guest));
    const at = bytes.indexOf(from);
    if (at < 0 || from.length !== to.length) throw new Error(`${guest} has no ${from}`);
    bytes.write(to, at);
    const file = join(this.folder, `patched-${++this.#made}.wasm`);
    writeFileSync(file, bytes);
    return file;
  }

  #file(name: string, content: object): string {
    const file = join(this.folder, name);
    writeFileSync(file, JSON.stringify(content));
    return file;
  }

  #record(name: string, args: readonly string[]): void {
    const [wasm = '', ...rest] = args;
    const command = [builtCommand('spear-run'), wasm, '--journal', this.journal(name), ...rest];
    const { status, stderr } = spawnSync(process.execPath, command, { encoding: 'utf8', input: '' });
    if (status !== 0) throw new Error(`${name} was not recorded: ${stderr}`);
  }
}
