import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'vitest';
import { fixture, scratch, spearRun } from '../e2e/spear-run.ts';
import { withoutProgress } from './component-progress.ts';

/**
 * The tour is one program in every language and form (guest-examples/<language>/tour.*), so it says one thing. Paths
 * are relative to the folder that the server `files` serves. The script answers only if `add` said 42.
 */
const lines = [
  'answer: There are 3 notes, and 20 + 22 = 42.',
  'direct: # Risks',
  'parallel: 214 171',
  'refused: mcp_policy_denied',
];

/** The MCP calls that it made, whatever the order of the two that run at the same time. */
const calls = [
  'list_directory ok',
  'read_text_file ok',
  'read_text_file ok',
  'read_text_file ok',
  'write_file denied denied_by_registry',
];

let runs = 0;

/** Runs a tour with the scripted model, the real file server and the trail on, and checks all that can be seen of it. */
export async function expectTour(wasm: string): Promise<void> {
  const trail = join(scratch, `tour-${++runs}.jsonl`);
  const { code, stdout, stderr } = await spearRun([
    ...[fixture(wasm), '--audit', trail, '--mcp-dir', fixture('mcp.d')],
    ...['--task-config', fixture('tasks/tour.json'), '--script', fixture('scripts/tour.json')],
  ]);
  expect({ code, stdout, stderr: withoutProgress(stderr) }).toEqual({
    code: 0,
    stdout: `${lines.join('\n')}\n`,
    stderr: '',
  });
  expect(mcpCalls(trail)).toEqual(calls);
}

function mcpCalls(trail: string): string[] {
  const events = readFileSync(trail, 'utf8')
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as Record<string, string | null>);
  return events
    .filter(({ event, source }) => event === 'tool_call.finished' && source === 'mcp')
    .map(({ tool_name, status, reason }) => [tool_name, status, reason].filter((part) => part !== null).join(' '))
    .sort();
}
