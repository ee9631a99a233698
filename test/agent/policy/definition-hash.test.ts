import { describe, expect, it } from 'vitest';
import { policyHash } from '../../../src/agent/policy/definition-hash.ts';
import { sampleRecord } from '../../server/records/server-samples.ts';
import { sessionWith, taskWith } from './policy-samples.ts';

const record = sampleRecord('fs', { allowed_tools: ['a', 'b'] });
const task = taskWith({ toolAllowlist: ['a'], toolDenylist: ['c', 'd'] });
const session = sessionWith({ toolAllowlist: ['a', 'e'] });
const hash = policyHash(record, task, session, null);

describe('the policy hash', () => {
  it.each([
    ['the order and repetition of patterns', sampleRecord('fs', { allowed_tools: ['b', 'a', 'b'] }), task, session],
    [
      'what the store writes',
      sampleRecord('fs', { allowed_tools: ['a', 'b'], mod_revision: 9, updated_at_ms: 1 }),
      task,
      session,
    ],
    ['budgets', sampleRecord('fs', { allowed_tools: ['a', 'b'], budgets: { max_concurrency: 1 } }), task, session],
    ['the choice of servers', record, { ...task, defaultServerIds: ['x'] }, { ...session, serverIds: ['y'] }],
  ])('does not depend on %s', (_what, otherRecord, otherTask, otherSession) => {
    expect(policyHash(otherRecord, otherTask, otherSession, null)).toBe(hash);
  });

  it.each([
    ['the server', sampleRecord('git', { allowed_tools: ['a', 'b'] }), task, session],
    ['its command', sampleRecord('fs', { allowed_tools: ['a', 'b'], stdio: { command: 'other' } }), task, session],
    ['its allowed tools', sampleRecord('fs', { allowed_tools: ['a'] }), task, session],
    ['the allowlist of the task', record, { ...task, toolAllowlist: [] }, session],
    ['that the task has one', record, { ...task, toolAllowlist: null }, session],
    ['the denylist of the task', record, { ...task, toolDenylist: ['c'] }, session],
    ['the allowlist of the session', record, task, { ...session, toolAllowlist: null }],
    ['the denylist of the session', record, task, { ...session, toolDenylist: ['z'] }],
  ])('depends on %s', (_what, otherRecord, otherTask, otherSession) => {
    expect(policyHash(otherRecord, otherTask, otherSession, null)).not.toBe(hash);
  });

  it('takes no session for one that does not narrow', () => {
    expect(policyHash(record, task, null, null)).toBe(policyHash(record, task, sessionWith(), null));
    expect(hash).toMatch(/^[0-9a-f]{64}$/);
  });
});
