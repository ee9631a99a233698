import { describe, expect, it } from 'vitest';
import { ruleFor, whyNot } from '../../../src/sms/approvals/rules.ts';
import { approverRule } from './open-queue.ts';

const call = { namespace: 'team-a', server_id: 'fs', tool_name: 'write_file' };

describe('the rule of a call', () => {
  it.each([
    [{}, true],
    [{ namespaces: ['team-*'] }, true],
    [{ namespaces: ['team-b', 'team-a'] }, true],
    [{ namespaces: ['team-b'] }, false],
    [{ namespaces: [] }, false],
    [{ servers: ['fs'] }, true],
    [{ servers: ['f'] }, false],
    [{ tools: ['write_*', 'delete_*'] }, true],
    [{ tools: ['read_*'] }, false],
    [{ namespaces: ['team-a'], servers: ['fs'], tools: ['read_*'] }, false],
  ])('with %j matches: %s', (more, matches) => {
    expect(ruleFor([approverRule(more)], call) !== null).toBe(matches);
  });

  it('is the first that matches, and none where none does', () => {
    const rules = [
      approverRule({ name: 'other', servers: ['db'] }),
      approverRule({ name: 'first' }),
      approverRule({ name: 'second' }),
    ];
    expect(ruleFor(rules, call)?.name).toBe('first');
    expect(ruleFor([], call)).toBeNull();
  });
});

describe('who may decide', () => {
  const vote = { by: 'ann', decision: 'allow_once', reason: null, at_ms: 1 } as const;
  const rule = approverRule({ name: 'ops', approvers: ['ops-*', 'ann'] });

  it.each([
    ['everybody where no rule matches', null, 'bob', [], null],
    ['everybody where the rule names nobody', approverRule(), 'bob', [], null],
    ['those whom the rule names', rule, 'ann', [], null],
    ['those whom a pattern of the rule names', rule, 'ops-7', [], null],
    ['not others', rule, 'bob', [], '"bob" is not an approver of the rule "ops"'],
    [
      'not the caller that asked, also where the rule names it',
      approverRule({ approvers: ['node-1'] }),
      'node-1',
      [],
      'requested this approval',
    ],
    ['not those who did', rule, 'ann', [vote], '"ann" has already voted'],
    ['others after them', rule, 'ops-1', [vote], null],
    ['anybody where callers have no names', rule, null, [vote], null],
  ])('%s', (_, given, name, votes, expected) => {
    const why = whyNot(given, { requested_by: 'node-1', votes }, name);
    if (expected === null) expect(why).toBeNull();
    else expect(why).toContain(expected);
  });
});
