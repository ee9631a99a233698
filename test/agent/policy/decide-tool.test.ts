import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { compilePatterns } from '../../../src/agent/policy/pattern.ts';
import { aboutTool, decide } from '../../../src/agent/policy/walk.ts';
import { sampleRecord } from '../../server/records/server-samples.ts';
import { anyPatterns, anySession, anyTask, anyTool, sessionWith, taskWith } from './policy-samples.ts';

type Lists = { toolAllowlist?: string[] | null; toolDenylist?: string[] };

describe('a tool', () => {
  const cases: [string, string[], Lists, Lists | null, string][] = [
    ['is allowed when every layer lets it through', ['read_*'], {}, {}, 'allowed'],
    ['needs no list of the task or the session', ['*'], { toolAllowlist: null }, null, 'allowed'],
    ['is denied where the server allows none', [], {}, {}, 'deny_all registry'],
    ['is denied where the record does not name it', ['write_*'], {}, {}, 'denied_by_registry registry'],
    ['is denied by the allowlist of the task', ['*'], { toolAllowlist: ['write_*'] }, {}, 'denied_by_task task'],
    ['is denied by an empty allowlist of the task', ['*'], { toolAllowlist: [] }, {}, 'denied_by_task task'],
    ['is vetoed by the task', ['*'], { toolAllowlist: ['*'], toolDenylist: ['*_file'] }, {}, 'denied_by_task task'],
    ['is denied by the allowlist of the session', ['*'], {}, { toolAllowlist: ['x'] }, 'denied_by_session session'],
    ['is denied by an empty allowlist of the session', ['*'], {}, { toolAllowlist: [] }, 'denied_by_session session'],
    ['is vetoed by the session', ['*'], {}, { toolDenylist: ['read_*'] }, 'denied_by_session session'],
    [
      'cannot be won back by a later layer',
      ['*'],
      { toolDenylist: ['read_file'] },
      { toolAllowlist: ['read_file'] },
      'denied_by_task task',
    ],
  ];

  it.each(cases)('%s', (_what, allowed_tools, task, session, expected) => {
    const record = sampleRecord('fs', { allowed_tools });
    const decision = decide(
      aboutTool(record, taskWith(task), session === null ? null : sessionWith(session), null, 'read_file'),
    );
    expect(decision.allowed ? 'allowed' : `${decision.reason} ${decision.layer}`).toBe(expected);
  });

  it('is named in the reason, however it is called, in one short line', () => {
    const record = sampleRecord('fs', { allowed_tools: ['a'] });
    const decision = decide(aboutTool(record, taskWith(), null, null, `x\n${'y'.repeat(10_000)}`));
    expect(decision).toMatchObject({ detail: expect.stringContaining('"x\\nyyy') });
    expect(decision.allowed ? '' : decision.detail.length).toBeLessThan(300);
  });

  it('is filtered by the lists of the task also where the default set is empty', () => {
    const task = taskWith({ defaultServerIds: [], allowedServerIds: ['fs'], toolDenylist: ['read_*'] });
    const decision = decide(aboutTool(sampleRecord('fs'), task, sessionWith({ serverIds: ['fs'] }), null, 'read_file'));
    expect(decision).toMatchObject({ allowed: false, reason: 'denied_by_task' });
  });

  it('is allowed exactly by all lists and no denylist', () => {
    fc.assert(
      fc.property(anyTool, anyPatterns, anyTask, anySession, (tool, allowed, task, session) => {
        const record = sampleRecord('fs', { allowed_tools: allowed });
        const passes = (list: readonly string[] | null) => list === null || compilePatterns(list)(tool);
        const vetoed = compilePatterns([...task.toolDenylist, ...session.toolDenylist])(tool);
        const expected = passes(allowed) && passes(task.toolAllowlist) && passes(session.toolAllowlist) && !vetoed;
        expect(decide(aboutTool(record, task, session, null, tool)).allowed).toBe(expected);
        if (expected) expect(decide(aboutTool(record, task, null, null, tool)).allowed).toBe(true);
      }),
    );
  });
});
