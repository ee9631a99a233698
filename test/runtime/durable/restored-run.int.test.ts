import { describe, expect, it } from 'vitest';
import { openMcp, runGuest, scriptedBackend } from '../../../src/index.ts';
import { readJournal } from '../../../src/runtime/durable/read-journal.ts';
import { fixture, tiny, withTiny } from '../../library/fixtures.ts';
import { newFile, scratch } from './recorded-runs.ts';

const turns = [
  { when: { role: 'user' }, reply: { tool_calls: [{ id: 'a', name: 'tiny_echo', arguments: { message: 'hi' } }] } },
  { when: { tool_call_id: 'a' }, reply: { content: 'done' } },
];

async function codesOf(restored: boolean) {
  const file = newFile();
  await using mcp = await openMcp({ task: withTiny, stateDir: scratch, servers: [tiny()] });
  await runGuest({
    ...{ wasm: fixture('c/files.wasm'), args: ['files', 'hello'], mcp, output: () => {} },
    backend: await scriptedBackend({ turns } as never),
    journal: { file, restored },
  });
  const { records } = readJournal(file);
  return {
    sent: records.filter(({ t }) => t === 'tool.started').length,
    codes: records.flatMap((record) => (record.t === 'tool.finished' ? [record.code] : [])),
  };
}

describe('a run that comes from a backup', () => {
  it('sends no call that it may have sent after the backup [node.restore.unknown]', async () => {
    expect(await codesOf(true)).toEqual({ sent: 0, codes: ['mcp_outcome_unknown'] });
    expect(await codesOf(false)).toEqual({ sent: 1, codes: [null] });
  });
});
