import { appendFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll } from 'vitest';
import { openMcp, runGuest, scriptedBackend } from '../../../src/index.ts';
import { sealBlock } from '../../../src/runtime/durable/blocks.ts';
import type { JournalHeader } from '../../../src/runtime/durable/journal.ts';
import { readJournal } from '../../../src/runtime/durable/read-journal.ts';
import { fixture, tiny, withTiny } from '../../library/fixtures.ts';

export const scratch = mkdtempSync(join(tmpdir(), 'spear-timeline-'));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));

let files = 0;
export const newFile = (name = 'run.journal') => join(scratch, `${++files}-${name}`);

export const SECRET = 'sk-live-0123456789abcdef';
const call = (id: string, tool: string, args: object) => ({ id, name: `tiny_${tool}`, arguments: { ...args } });

/** A model that calls tools of a server: one is allowed by a user, one is denied, and one does not exist. */
export const toolTurns = [
  {
    when: { role: 'user' },
    reply: {
      content: 'Let me look.',
      tool_calls: [call('a', 'echo', { message: 'hi', api_key: SECRET }), call('b', 'pid', {})],
      usage: { prompt_tokens: 120, completion_tokens: 30, total_tokens: 150 },
    },
  },
  {
    when: { tool_call_id: 'b' },
    reply: { tool_calls: [call('c', 'fail', {}), { id: 'd', name: 'no_such_tool', arguments: {} }] },
  },
  { when: { tool_call_id: 'd' }, reply: { content: 'It said <b>hi</b>.' } },
];

/** Records it with a real server, in the same process; what it printed. */
export async function recordTools(file: string, turns: readonly object[] = toolTurns): Promise<string> {
  const printed: Uint8Array[] = [];
  await using mcp = await openMcp({
    task: withTiny,
    stateDir: scratch,
    servers: [tiny({ approval: { perTool: { echo: 'always', pid: 'always' } } })],
  });
  const result = await runGuest({
    wasm: fixture('c/files.wasm'),
    args: ['files', 'What is there?'],
    mcp,
    backend: await scriptedBackend({ turns } as never),
    approve: ({ tool }) => (tool === 'echo' ? 'allow_once' : { decision: 'deny', reason: 'not today' }),
    decidedBy: 'alice',
    output: (_, bytes) => void printed.push(bytes),
    journal: { file },
  });
  if (result.exitCode !== 0) throw new Error(`the run ended with ${result.exitCode}: ${result.message}`);
  return Buffer.concat(printed).toString();
}

/** A journal with these records after the header of another, sealed as it should be. */
export function journalWith(header: object, records: readonly object[], torn = ''): string {
  const file = newFile('made.journal');
  const lines = [header, ...records].map((record) => JSON.stringify(record));
  writeFileSync(file, sealBlock(lines, '0'.repeat(64)).text);
  if (torn !== '') appendFileSync(file, torn);
  return file;
}

/** Without the hash of the block that it is in. */
export function headerOf(file: string): JournalHeader {
  const { '#': _, ...header } = readJournal(file).header as JournalHeader & { readonly '#': string };
  return header;
}
