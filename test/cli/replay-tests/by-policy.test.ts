import { describe, expect, it } from 'vitest';
import { noRules } from '../../../src/agent/policy/approval-rules.ts';
import { parseTaskPolicy } from '../../../src/agent/policy/task-policy.ts';
import { type PolicyOfRun, testUnderPolicy } from '../../../src/cli/replay-tests/by-policy.ts';
import type { JournalRecord } from '../../../src/runtime/durable/journal.ts';
import type { ReadJournal } from '../../../src/runtime/durable/read-journal.ts';
import type { TaskPolicy } from '../../../src/runtime/port/policy-layers.ts';
import { sampleRecord } from '../../server/records/server-samples.ts';

function taskOf(config: Parameters<typeof parseTaskPolicy>[0]): TaskPolicy {
  const parsed = parseTaskPolicy({ 'mcp.enabled': true, ...config });
  if (!parsed.ok) throw new Error(JSON.stringify(parsed.issues));
  return parsed.policy;
}

const started = { t: 'tool.started', ordinal: '1.1.1', attempt: 1, server: 's', tool: 'w', revision: 1 } as const;
const call = (more: object = {}) => ({ ...started, session: 'chat-1', args: '{}', ...more }) as JournalRecord;
const shown = (params: [string, string[]][]): JournalRecord => ({
  t: 'tools',
  session: 'chat-1',
  params,
  set: 1,
  shown: [
    { name: 's_w', server: 's', tool: 'w' },
    { name: 's_v', server: 's', tool: 'v' },
  ],
  definitions: [],
  system: null,
});

function judged(records: readonly JournalRecord[], config: object, record: object = {}, strict = false) {
  const task = taskOf(config as Parameters<typeof parseTaskPolicy>[0]);
  const found = sampleRecord('s', { allowed_tools: ['*'], ...record });
  const view = { servers: new Map([['s', found]]), stale: false, profiles: null };
  const policy: PolicyOfRun = { view, task, rules: noRules };
  const header = { policy: task } as ReadJournal['header'];
  const timed = records.map((each) => ({ ...each, ms: 0 }));
  return testUnderPolicy({ header, records: timed } as unknown as ReadJournal, policy, strict);
}

const listed = { 'mcp.default_server_ids': [], 'mcp.allowed_server_ids': ['s'] };

describe('what a session chose', () => {
  it('holds under the changed policy: a server that it asked for, and a tool that it ruled out', () => {
    expect(judged([call()], listed).difference).toMatchObject({ kind: 'denied', recorded: 'the call was made' });
    expect(judged([shown([['mcp.server_ids', ['s']]]), call()], listed).verdict).toBe('same');
    const narrowed = shown([
      ['mcp.server_ids', ['s']],
      ['mcp.tool_denylist', ['w']],
    ]);
    expect(judged([narrowed, call()], listed).difference?.now).toContain('denied by the session');
  });

  it('is nothing to a guest that calls a tool itself', () => {
    expect(judged([call({ session: 'mcp-1', ordinal: '3' })], listed).verdict).toBe('same');
  });
});

describe('approvals', () => {
  const always = { approval_policy: { default: 'always', per_tool: {} } };
  const defaults = { 'mcp.default_server_ids': ['s'] };
  const event = { event: 'approval.asked', session_id: 'chat-1', server_id: 's', tool_name: 'w' };

  it('a call that somebody was asked about then may be asked about now', () => {
    expect(judged([call()], defaults, always).difference?.kind).toBe('approval');
    expect(judged([{ t: 'approval', event }, call()], defaults, always).verdict).toBe('same');
  });

  it('a call that was refused stays so where somebody would be asked', () => {
    const refused = { session: 'chat-1', server: 's', tool: 'w', args: '{}' };
    const finished = { t: 'tool.finished', ordinal: '1.1.1', result: '{}', refused } as const;
    const denied: JournalRecord = { ...finished, code: 'mcp_policy_denied' };
    expect(judged([denied], defaults, always).verdict).toBe('same');
    expect(judged([denied], defaults).difference?.kind).toBe('allowed');
    expect(judged([{ ...finished, code: 'mcp_invalid_arguments' }], defaults).verdict).toBe('same');
  });
});

it('tools that were shown and never called are told, and are a difference where that is asked for', () => {
  const records = [shown([]), call()];
  const config = { 'mcp.default_server_ids': ['s'], 'mcp.tool_allowlist': ['w'] };
  expect(judged(records, config)).toMatchObject({ verdict: 'same', noLongerShown: ['s/v'] });
  expect(judged(records, config, {}, true)).toMatchObject({ verdict: 'differs', noLongerShown: ['s/v'] });
});

it('a resource is judged by the lists of resources', () => {
  const read = call({ kind: 'resource', tool: 'file:///a' });
  const config = { 'mcp.default_server_ids': ['s'] };
  expect(judged([read], config).verdict).toBe('differs');
  expect(judged([read], config, { allowed_resources: ['file:///*'] }).verdict).toBe('same');
});
