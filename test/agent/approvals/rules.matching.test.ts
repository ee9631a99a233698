import { describe, expect, it } from 'vitest';
import { reservingRule, ruleFor, whyNot } from '../../../src/agent/approvals/rules.ts';
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
    ['not the submitter of the run [approval.self]', null, 'sam', [], '"sam" submitted the run of this call'],
    [
      'not the submitter, also where the rule names it',
      approverRule({ approvers: ['sam'] }),
      'sam',
      [],
      '"sam" submitted the run',
    ],
    ['the submitter where the rule allows it [approval.self]', approverRule({ allowSelf: true }), 'sam', [], null],
    [
      'not another token of the submitter [approval.person]',
      null,
      'sam/2',
      [],
      'a token of the same person as "sam/2"',
    ],
    [
      'not another token of who did [approval.person]',
      null,
      'ann/2',
      [vote],
      '"ann", a token of the same person as "ann/2", has already voted',
    ],
    ['not those who did', rule, 'ann', [vote], '"ann" has already voted'],
    ['others after them', rule, 'ops-1', [vote], null],
    ['anybody where callers have no names', rule, null, [vote], null],
  ])('%s', (_, given, name, votes, expected) => {
    const why = whyNot(
      given,
      { requested_by: 'node-1', submitted_by: 'sam', votes },
      name,
      (given) => given.split('/')[0] ?? given,
    );
    if (expected === null) expect(why).toBeNull();
    else expect(why).toContain(expected);
  });
});

describe('a rule that reserves the names of its approvers [approval.reserved]', () => {
  it.each([
    ['reaches beyond the namespace', { approvers: ['ops-*'] }, 'ops-1', true],
    ['is about another namespace', { namespaces: ['team-b'], approvers: ['ops-*'] }, 'ops-1', true],
    ['reaches beyond by a pattern', { namespaces: ['team-*'], approvers: ['ops-1'] }, 'ops-1', true],
    ['needs two votes', { namespaces: ['team-a'], approvers: ['ops-1'], needed: 2 }, 'ops-1', true],
    ['is about the namespace alone and needs one', { namespaces: ['team-a'], approvers: ['ops-1'] }, 'ops-1', false],
    ['names others', { approvers: ['ops-1'], needed: 2 }, 'ann', false],
    ['names every user', { approvers: ['*'], needed: 2 }, 'ann', false],
    ['names every user and one more', { approvers: ['*', 'eve'], needed: 2 }, 'eve', true],
    ['names no approver', { approvers: null, needed: 2 }, 'ann', false],
  ])('%s: %o, %s: %s', (_, more, name, isReserved) => {
    expect(reservingRule([approverRule(more)], 'team-a', name) !== null).toBe(isReserved);
  });
});
