import { expect, it } from 'vitest';
import type { ToolInvocation } from '../../../src/agent/mcp/tool-events.ts';
import { reportDeniedApprovals } from '../../../src/cli/run/approvals.ts';

const denied = (more: Partial<ToolInvocation> = {}): ToolInvocation => ({
  ...{ source: 'mcp', kind: 'tool', run: 'run-1', session: 'chat-1', server: 'notes', tool: 'write', callId: 'c1' },
  ...{ outcome: 'mcp_approval_denied', durationMs: 1, bytes: 2, denial: 'approval_required' },
  ...more,
});

it('reports a tool whose call lacked an approval once, with the way to allow it [approval.denied]', () => {
  const said: string[] = [];
  const events = reportDeniedApprovals('no terminal', (text) => said.push(text));
  for (const more of [{}, {}, { tool: 'move' }]) events.emit(denied(more));
  expect(said).toHaveLength(2);
  expect(said[0]).toContain('approval denied: notes write needs an approval, and no user can be asked (no terminal)');
  expect(said[0]).toContain('--approve sms');
});

it('reports no other failures, and a bounded number of tools', () => {
  const said: string[] = [];
  const events = reportDeniedApprovals('no terminal', (text) => said.push(text));
  const { denial: _, ...done } = denied({ outcome: 'ok' });
  events.emit(done);
  events.emit(denied({ denial: 'denied_by_rule' }));
  expect(said).toEqual([]);
  for (let index = 0; index < 100; index++) events.emit(denied({ tool: `tool-${index}` }));
  expect(said).toHaveLength(50);
});
