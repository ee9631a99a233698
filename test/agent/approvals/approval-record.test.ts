import { expect, it } from 'vitest';
import { sizeProblem } from '../../../src/agent/approvals/approval-record.ts';
import type { JsonValue } from '../../../src/base/json.ts';
import { approvalLimits } from '../../../src/server/records/approval.ts';
import { askedCall } from './open-queue.ts';

/** So many levels, the arguments themselves among them. */
function nested(levels: number): JsonValue {
  let value: JsonValue = 1;
  for (let level = 1; level < levels; level++) value = [value];
  return value;
}

it.each([
  ['the limit of nesting', { deep: nested(approvalLimits.argumentDepth) }, null],
  ['one level more', { deep: nested(approvalLimits.argumentDepth + 1) }, 'nested more than 100 levels deep'],
  ['more levels than a stack has', { deep: nested(100_000) }, 'cannot be shown to an approver'],
  ['many short lines', { list: Array(200_000).fill(1) }, null],
  [
    'lines that are mostly indentation',
    { list: Array(2_000).fill(nested(40)) },
    'more than 2000000 characters as an approver would see them and cannot be shown',
  ],
  ['more bytes than are stored', { text: 'x'.repeat(approvalLimits.argumentBytes) }, 'may have at most 524288'],
])('a request with %s [approval.seen]', (_, args, expected) => {
  const problem = sizeProblem(askedCall({ arguments: args as never }));
  if (expected === null) expect(problem).toBeNull();
  else expect(problem).toContain(expected);
});
