import { expect, it } from 'vitest';
import { encodedName } from '../../../src/agent/mcp/tool-names.ts';
import { stdioRecord } from './client/pool-samples.ts';
import { callOf, inject, openHost } from './mcp-host.ts';

it('the trail tells of a call’s progress, seldom and in numbers alone [pool.progress]', async () => {
  const budgets = { max_tool_timeout_ms: 60_000 };
  const host = await openHost([stdioRecord('progressing', 'progressing.mjs', { budgets })]);
  const tools = await inject(host.guest());
  const done = await callOf(tools, encodedName('progressing', 'work'), { steps: 20, everyMs: 5 });
  expect(done).toMatchObject({ content: [{ text: 'told' }] });
  const [started] = host.told('tool_call.started');
  const { event: _event, args: _args, ...about } = started ?? {};
  expect(host.told('tool_call.progress')).toEqual([{ event: 'tool_call.progress', ...about, progress: 1, total: 100 }]);
});
