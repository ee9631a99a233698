import { describe, expect, it } from 'vitest';
import { aboutCall, aboutServer, decide, explain } from '../../../src/agent/policy/walk.ts';
import type { NameLists } from '../../../src/runtime/port/policy-layers.ts';
import { sampleRecord } from '../../server/records/server-samples.ts';
import { sessionWith, taskWith } from './policy-samples.ts';

const lists = (allow: readonly string[] | null, deny: readonly string[] = []): NameLists => ({ allow, deny });

function decided(
  kind: 'resource' | 'prompt',
  name: string,
  record: Record<string, unknown>,
  task: NameLists = lists(null),
  session: NameLists = lists(null),
): string {
  const servers = new Map([['a', sampleRecord('a', record)]]);
  const field = kind === 'resource' ? 'resourceLists' : 'promptLists';
  const policy = taskWith({ defaultServerIds: ['a'], [field]: task });
  const view = { servers, stale: false, profiles: null };
  const question = aboutCall(view, policy, sessionWith({ [field]: session }, policy), 'a', name, null, kind);
  const decision = decide(question);
  const first = explain(question).find(({ verdict }) => verdict === 'denies');
  expect(first?.reason ?? null).toBe(decision.allowed ? null : decision.reason);
  return decision.allowed ? 'allowed' : `${decision.reason} ${first?.rule}`;
}

describe.each([
  ['resource', 'x://a/b', 'x://a/*', 'x://c/*', 'allowed_resources', 'mcp.resource'],
  ['prompt', 'ask_me', 'ask_*', 'tell_*', 'allowed_prompts', 'mcp.prompt'],
] as const)('a %s', (kind, name, fits, other, field, key) => {
  it('needs the record, the task and the session, and any denylist stands against it [mcp.offers.policy]', () => {
    const record = { [field]: [fits] };
    expect(decided(kind, name, record)).toBe('allowed');
    expect(decided(kind, name, record, lists([fits]), lists([fits, other]))).toBe('allowed');
    expect(decided(kind, name, { [field]: [] })).toBe(`deny_all ${field}`);
    expect(decided(kind, name, {})).toBe(`deny_all ${field}`);
    expect(decided(kind, name, { [field]: [other] })).toBe(`denied_by_registry ${field}`);
    expect(decided(kind, name, record, lists([other]))).toBe(`denied_by_task ${key}_allowlist`);
    expect(decided(kind, name, record, lists([]))).toBe(`denied_by_task ${key}_allowlist`);
    expect(decided(kind, name, record, lists([fits], [name]))).toBe(`denied_by_task ${key}_denylist`);
    expect(decided(kind, name, record, lists(null), lists([other]))).toBe(`denied_by_session ${key}_allowlist`);
    expect(decided(kind, name, record, lists(null), lists(null, ['*']))).toBe(`denied_by_session ${key}_denylist`);
  });

  it('is not let through by what allows tools, nor the other kind [mcp.offers.policy]', () => {
    expect(decided(kind, name, { allowed_tools: ['*'] })).toBe(`deny_all ${field}`);
    const others = kind === 'resource' ? { allowed_prompts: ['*'] } : { allowed_resources: ['*'] };
    expect(decided(kind, name, others)).toBe(`deny_all ${field}`);
  });
});

it('a server may be used whose record allows anything, and not one that allows nothing [mcp.offers.policy]', () => {
  const usable = (record: Record<string, unknown>) => {
    const servers = new Map([['a', sampleRecord('a', record)]]);
    const view = { servers, stale: false, profiles: null };
    return decide(aboutServer(view, taskWith({ defaultServerIds: ['a'] }), null, 'a')).allowed;
  };
  expect(usable({ allowed_tools: [] })).toBe(false);
  expect(usable({ allowed_tools: [], allowed_resources: ['x://*'] })).toBe(true);
  expect(usable({ allowed_tools: [], allowed_prompts: ['ask'] })).toBe(true);
});
