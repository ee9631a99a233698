import { describe, expect, it } from 'vitest';
import { approvalMode } from '../../../src/agent/policy/approval-rules.ts';
import type { ApprovalMode } from '../../../src/server/records/server.ts';

type PerTool = Record<string, ApprovalMode>;

describe('the approval mode of a tool', () => {
  it.each<[string, ApprovalMode, PerTool, ApprovalMode]>([
    ['the default without patterns', 'never', {}, 'never'],
    ['the default where none matches', 'policy', { 'write_*': 'always' }, 'policy'],
    ['the pattern that matches, stricter than the default', 'never', { 'delete_*': 'always' }, 'always'],
    ['the pattern that matches, laxer than the default', 'always', { delete_row: 'never' }, 'never'],
    ['the strictest, always over policy', 'never', { 'delete_*': 'policy', '*_row': 'always' }, 'always'],
    ['the strictest, policy over never', 'never', { '*': 'never', 'delete_*': 'policy' }, 'policy'],
    ['the strictest, whatever the order', 'never', { '*_row': 'always', 'delete_*': 'policy', '*': 'never' }, 'always'],
    ['one that knows a slash', 'never', { 'delete?row': 'always' }, 'always'],
    ['one that looks at the case', 'never', { 'DELETE_*': 'always' }, 'never'],
  ])('is %s', (_, otherwise, per_tool, expected) => {
    expect(approvalMode({ approval_policy: { default: otherwise, per_tool } }, 'delete_row')).toBe(expected);
  });
});
