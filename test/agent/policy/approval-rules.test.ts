import { describe, expect, it } from 'vitest';
import {
  type ApprovalRule,
  canDeny,
  type JudgedCall,
  judge,
  noRules,
  type Verdict,
} from '../../../src/agent/policy/approval-rules.ts';
import { MAX_APPROVAL_RULES, parseApprovalRules } from '../../../src/agent/policy/approval-rules-parse.ts';
import { parseTaskPolicy } from '../../../src/agent/policy/task-policy.ts';
import type { JsonObject } from '../../../src/base/json.ts';

function rules(...given: object[]): readonly ApprovalRule[] {
  const parsed = parseApprovalRules(given);
  if (!parsed.ok) throw new Error(JSON.stringify(parsed.issues));
  return parsed.rules;
}

const call = (fields: Partial<JudgedCall> = {}): JudgedCall => ({
  server: 'fs',
  tool: 'write_file',
  arguments: {},
  annotations: null,
  ...fields,
});

const ofTask = (call: JudgedCall, ...given: object[]) => judge({ node: [], task: rules(...given) }, call).verdict;
const ofNode = (call: JudgedCall, ...given: object[]) => judge({ node: rules(...given), task: [] }, call).verdict;

describe('what a rule matches', () => {
  it.each<[string, object, Partial<JudgedCall>, boolean]>([
    ['everything, if it names nothing', {}, {}, true],
    ['its server', { servers: ['fs'] }, {}, true],
    ['a server by pattern', { servers: ['g*', 'f?'] }, {}, true],
    ['no other server', { servers: ['fs2'] }, {}, false],
    ['its tool', { tools: ['write_file'] }, {}, true],
    ['a tool by one pattern', { tools: 'write_*' }, {}, true],
    ['a tool with a slash in its name', { tools: ['write*'] }, { tool: 'write/all' }, true],
    ['no other tool', { tools: ['read_*'] }, {}, false],
    ['only both together', { servers: ['fs'], tools: ['read_*'] }, {}, false],
  ])('is %s', (_, rule, about, matches) => {
    expect(ofTask(call(about), { ...rule, verdict: 'deny' })).toBe(matches ? 'deny' : 'ask');
  });

  const args: JsonObject = {
    path: '/data/in/x',
    up: '/data/../etc/passwd',
    dry: true,
    count: 3,
    none: null,
    'a/b~c': 'odd',
    deep: { list: [{ to: 'ann@x.org' }, { to: 'bob@y.org' }] },
    paths: ['/data/a', '/data/b'],
    mixed: ['/data/a', '/etc/b'],
    empty: [],
  };
  it.each<[object, boolean]>([
    [{ path: '/path', equals: '/data/in/x' }, true],
    [{ path: '/path', equals: '/data' }, false],
    [{ path: '/dry', equals: true }, true],
    [{ path: '/dry', equals: 'true' }, false],
    [{ path: '/none', equals: null }, true],
    [{ path: '/missing', equals: null }, false],
    [{ path: '/paths', equals: ['/data/a', '/data/b'] }, true],
    [{ path: '/deep/list/0', equals: { to: 'ann@x.org' } }, true],
    [{ path: '/deep/list/1/to', equals: 'bob@y.org' }, true],
    [{ path: '/deep/list/2/to', exists: true }, false],
    [{ path: '/deep/list/00/to', exists: true }, false],
    [{ path: '/a~1b~0c', equals: 'odd' }, true],
    [{ path: '/toString', exists: true }, false],
    [{ path: '/path', one_of: ['a', '/data/in/x'] }, true],
    [{ path: '/path', one_of: ['a'] }, false],
    [{ path: '/path', prefix: '/data/' }, true],
    [{ path: '/count', prefix: '3' }, false],
    [{ path: '/path', pattern: '/data/*/?' }, true],
    [{ path: '/path', pattern: '/data' }, false],
    [{ path: '/path', inside: '/data' }, true],
    [{ path: '/path', inside: '/data/in/x' }, true],
    [{ path: '/path', inside: '/dat' }, false],
    [{ path: '/up', prefix: '/data/' }, true],
    [{ path: '/up', inside: '/data' }, false],
    [{ path: '/up', inside: '/etc' }, true],
    [{ path: '/count', at_least: 3, at_most: 3 }, true],
    [{ path: '/count', at_most: 2 }, false],
    [{ path: '/path', at_most: 2 }, false],
    [{ path: '/missing', exists: false }, true],
    [{ path: '/path', exists: false }, false],
    [{ path: '/path', exists: true, prefix: '/data' }, true],
  ])('is an argument as %j says: %s [approval.rules.arguments]', (matcher, matches) => {
    const verdict = ofTask(call({ arguments: args }), { arguments: [matcher], verdict: 'deny' });
    expect(verdict).toBe(matches ? 'deny' : 'ask');
  });

  it('needs all argument matchers [approval.rules.arguments]', () => {
    const both = [
      { path: '/path', inside: '/data' },
      { path: '/count', at_most: 2 },
    ];
    expect(ofTask(call({ arguments: args }), { arguments: both, verdict: 'allow' })).toBe('ask');
  });

  it.each<[string, Verdict, Verdict]>([
    ['/paths/*', 'allow', 'allow'],
    ['/mixed/*', 'allow', 'ask'],
    ['/mixed/*', 'deny', 'deny'],
    ['/empty/*', 'allow', 'ask'],
    ['/empty/*', 'deny', 'ask'],
    ['/path/*', 'allow', 'ask'],
  ])(
    'with %s allows only if every value fits, and denies if one does: %s [approval.rules.arguments]',
    (path, verdict, expected) => {
      const rule = { arguments: [{ path, inside: '/data' }], verdict };
      expect(ofTask(call({ arguments: args }), rule)).toBe(expected);
    },
  );

  it.each<[object, JsonObject | null, boolean]>([
    [{ readOnlyHint: true }, { readOnlyHint: true }, true],
    [{ readOnlyHint: true }, null, false],
    [{ readOnlyHint: true }, { readOnlyHint: 'true' }, false],
    [{ readOnlyHint: false }, null, true],
    [{ destructiveHint: true }, null, true],
    [{ destructiveHint: true }, { destructiveHint: false }, false],
    [{ destructiveHint: true }, { readOnlyHint: true }, false],
    [{ destructiveHint: true }, { readOnlyHint: true, destructiveHint: true }, true],
    [{ idempotentHint: false }, {}, true],
    [{ openWorldHint: true }, {}, true],
    [{ openWorldHint: false }, { openWorldHint: false }, true],
    [{ readOnlyHint: true, openWorldHint: false }, { readOnlyHint: true }, false],
  ])('takes %j of a tool with %j, the worse where it says nothing: %s', (annotations, given, matches) => {
    expect(ofTask(call({ annotations: given }), { annotations, verdict: 'deny' })).toBe(matches ? 'deny' : 'ask');
  });
});

describe('which rule decides', () => {
  it('is the first that matches', () => {
    const given = [
      { tools: ['read_*'], verdict: 'deny' },
      { tools: ['write_*'], verdict: 'allow' },
      { verdict: 'deny' },
    ];
    expect(ofTask(call(), ...given)).toBe('allow');
    expect(ofNode(call(), ...given)).toBe('allow');
  });

  it('is none: ask', () => {
    expect(judge(noRules, call())).toEqual({ verdict: 'ask', layer: null, rule: null });
    expect(ofTask(call(), { servers: ['other'], verdict: 'allow' })).toBe('ask');
  });

  const verdicts: (Verdict | null)[] = [null, 'allow', 'ask', 'deny'];
  const strictness = { allow: 0, ask: 1, deny: 2 };
  it.each(verdicts.flatMap((node) => verdicts.map((task) => [node, task] as const)))(
    'of node %s and task %s is the stricter, so a task loosens nothing [approval.rules.layers]',
    (node, task) => {
      const only = (verdict: Verdict | null) => (verdict === null ? [] : rules({ name: `${verdict}`, verdict }));
      const decided = judge({ node: only(node), task: only(task) }, call());
      if (node !== null) expect(strictness[decided.verdict]).toBeGreaterThanOrEqual(strictness[node]);
      const given = [node, task].filter((verdict) => verdict !== null);
      const strictest = given.sort((a, b) => strictness[b] - strictness[a])[0] ?? 'ask';
      expect(decided.verdict).toBe(strictest);
      const layer = given.length === 0 ? null : strictest === node ? 'node' : 'task';
      expect([decided.layer, decided.rule]).toEqual([layer, layer && strictest]);
    },
  );

  it('can be told whether any of them denies [approval.rules.never]', () => {
    expect(canDeny(noRules)).toBe(false);
    expect(canDeny({ node: rules({ verdict: 'ask' }), task: rules({ verdict: 'allow' }) })).toBe(false);
    expect(canDeny({ node: [], task: rules({ verdict: 'allow' }, { verdict: 'deny' }) })).toBe(true);
  });
});

describe('a list of rules', () => {
  it.each<[unknown, string, string]>([
    [{}, '', 'must be a list of rules'],
    [undefined, '', 'must be a list of rules'],
    [Array.from({ length: MAX_APPROVAL_RULES + 1 }, () => ({ verdict: 'ask' })), '', 'more than'],
    [['allow'], '[0]', 'must be a table'],
    [[{ verdict: 'ask' }, {}], '[1].verdict', '"allow", "deny" or "ask"'],
    [[{ verdict: 'maybe' }], '[0].verdict', '"allow", "deny" or "ask"'],
    [[{ verdict: 'ask', tool: ['x'] }], '[0].tool', 'did you mean "tools"?'],
    [[{ verdict: 'ask', colour: 'red' }], '[0].colour', 'valid keys:'],
    [[{ verdict: 'ask', tools: [] }], '[0].tools', 'must not be empty'],
    [[{ verdict: 'ask', tools: [1] }], '[0].tools', 'must be a list of strings'],
    [[{ verdict: 'ask', servers: [''] }], '[0].servers', ''],
    [[{ verdict: 'ask', name: '' }], '[0].name', 'must be a string'],
    [[{ verdict: 'ask', name: 'a\u001b[2J' }], '[0].name', 'control characters'],
    [[{ verdict: 'ask', annotations: { readonly: true } }], '[0].annotations.readonly', 'did you mean "readOnlyHint"?'],
    [[{ verdict: 'ask', annotations: { readOnlyHint: 'yes' } }], '[0].annotations.readOnlyHint', 'true or false'],
    [[{ verdict: 'ask', arguments: { '/path': 'x' } }], '[0].arguments', 'must be a list'],
    [[{ verdict: 'ask', arguments: [{ path: 'path', equals: 1 }] }], '[0].arguments[0].path', 'JSON pointer'],
    [[{ verdict: 'ask', arguments: [{ path: '/a~2', equals: 1 }] }], '[0].arguments[0].path', '~1'],
    [[{ verdict: 'ask', arguments: [{ equals: 1 }] }], '[0].arguments[0].path', 'is missing'],
    [[{ verdict: 'ask', arguments: [{ path: '/a' }] }], '[0].arguments[0]', 'has no condition'],
    [[{ verdict: 'ask', arguments: [{ path: '/a', inside: 'data' }] }], '[0].arguments[0].inside', 'absolute path'],
    [[{ verdict: 'ask', arguments: [{ path: '/a', prefix: '' }] }], '[0].arguments[0].prefix', 'must be a string'],
    [[{ verdict: 'ask', arguments: [{ path: '/a', at_most: '3' }] }], '[0].arguments[0].at_most', 'a number'],
    [[{ verdict: 'ask', arguments: [{ path: '/a', one_of: 'b' }] }], '[0].arguments[0].one_of', 'a list'],
    [
      [{ verdict: 'ask', arguments: [{ path: '/a', exists: false, equals: 1 }] }],
      '[0].arguments[0]',
      'cannot be combined with another condition',
    ],
  ])('%j is refused with the place %s', (given, path, message) => {
    const parsed = parseApprovalRules(given);
    expect(parsed.ok ? null : parsed.issues[0]).toEqual({ path, message: expect.stringContaining(message) });
  });

  it('tells everything that is wrong at once, and no value', () => {
    const parsed = parseApprovalRules([{ verdict: 'hunter2' }, { verdict: 'ask', name: 7 }]);
    expect(parsed.ok ? [] : parsed.issues.map(({ path }) => path)).toEqual(['[0].verdict', '[1].name']);
    expect(JSON.stringify(parsed)).not.toContain('hunter2');
  });

  it('names rules by their place unless they have a name', () => {
    expect(rules({ verdict: 'ask' }, { name: 'reads', verdict: 'allow' }).map(({ name }) => name)).toEqual([
      'rule 1',
      'reads',
    ]);
  });

  it.each<[object, number]>([
    [{ annotations: { readOnlyHint: true }, verdict: 'allow' }, 1],
    [{ servers: ['g*'], annotations: { readOnlyHint: true }, verdict: 'allow' }, 1],
    [{ servers: ['fs'], annotations: { readOnlyHint: true }, verdict: 'allow' }, 0],
    [{ annotations: { destructiveHint: true }, verdict: 'deny' }, 0],
    [{ verdict: 'allow' }, 0],
  ])('%j has %i warnings about believing any server', (rule, count) => {
    const parsed = parseApprovalRules([rule]);
    expect(parsed.ok && parsed.warnings.length).toBe(count);
  });
});

describe('mcp.approval_rules of a task', () => {
  const on = { 'mcp.enabled': 'true', 'mcp.default_server_ids': '["fs"]' };

  it('are read with the rest of its policy', () => {
    const parsed = parseTaskPolicy({ ...on, 'mcp.approval_rules': '[{"tools":["read_*"],"verdict":"allow"}]' });
    expect(parsed.ok && parsed.approvalRules).toMatchObject([{ tools: ['read_*'], verdict: 'allow' }]);
    const none = parseTaskPolicy(on);
    expect(none.ok && none.approvalRules).toEqual([]);
  });

  it.each([
    ['[{"verdict":"perhaps"}]', 'mcp.approval_rules[0].verdict'],
    ['allow', 'mcp.approval_rules'],
    ['', 'mcp.approval_rules'],
  ])('%s is refused at %s', (text, key) => {
    const parsed = parseTaskPolicy({ ...on, 'mcp.approval_rules': text });
    expect(parsed.ok ? [] : parsed.issues.map((issue) => issue.key)).toEqual([key]);
  });
});
