import { expect, it } from 'vitest';
import type { ToolDescriptor, ToolList } from '../../src/agent/mcp/client/tool-list.ts';
import { ReportedTools } from '../../src/run/report-node.ts';

const tool = (name: string): ToolDescriptor => ({
  name,
  title: null,
  description: '',
  inputSchema: { type: 'object' },
  outputSchema: null,
  annotations: null,
});

const listOf = (serverId: string, names: readonly string[]): ToolList => ({
  serverId,
  version: 1,
  tools: names.map(tool),
  dropped: [],
  notice: null,
  instructions: null,
});

it('reports each list once, and again when the registry requests it', () => {
  const tools = new ReportedTools();
  const lists = [listOf('a', ['read']), listOf('b', ['read']), listOf('c', ['write'])];
  const first = tools.collect(lists);
  expect(first.reports).toHaveLength(2); // a and b say the same
  expect(first.hashes.get('a')).toBe(first.hashes.get('b'));
  // An answer that never came: it is reports again.
  expect(tools.collect(lists).reports).toHaveLength(2);
  tools.answered(first.reports, []);
  expect(tools.collect(lists).reports).toEqual([]);
  tools.answered([], [first.hashes.get('c') ?? '']);
  expect(tools.collect(lists).reports.map(({ tools: [one] }) => one?.name)).toEqual(['write']);
});

it('spreads many lists over several reports', () => {
  const tools = new ReportedTools();
  const names = Array.from({ length: 1_500 }, (_, at) => `tool-${at}`);
  const lists = [listOf('a', names), listOf('b', [...names, 'one-more']), listOf('c', ['few'])];
  const first = tools.collect(lists);
  expect([...first.hashes.keys()]).toEqual(['a', 'c']);
  expect(first.hasMore).toBe(true);
  tools.answered(first.reports, []);
  const second = tools.collect(lists);
  expect([...second.hashes.keys()]).toEqual(['a', 'b', 'c']);
  expect(second).toMatchObject({ hasMore: false, reports: [{ hash: second.hashes.get('b') }] });
});
