import { describe, expect, it } from 'vitest';
import {
  closed,
  listedApproval,
  newRequest,
  shownApproval,
  sizeProblem,
} from '../../../src/agent/approvals/approval-record.ts';
import type { JsonObject } from '../../../src/base/json.ts';
import { approvalLimits } from '../../../src/server/records/approval.ts';
import { askedCall } from './open-queue.ts';

const secret = 'ghp_0123456789abcdefghijABCDEFGHIJ0123456789';

const request = (args: JsonObject, definition: JsonObject = { name: 'write_file', description: 'Writes.' }) =>
  newRequest(askedCall({ arguments: args, definition }), {
    ...{ round: 1, epoch: 'e', requestedBy: null, rule: null, changes: [] },
    ...{ now: 0, waitMs: 100, grantMs: 1 },
  });

describe('a closed request', () => {
  it('keeps short arguments, masks credentials and cuts long texts', () => {
    const { arguments: kept, status } = closed(request({ path: '/data/x', secret, long: 'x'.repeat(10_000) }), 'used');
    expect([kept.path, status]).toEqual(['/data/x', 'used']);
    expect(JSON.stringify(kept)).not.toContain(secret);
    expect(JSON.stringify(kept).length).toBeLessThan(1_000);
  });

  it('keeps little of many arguments', () => {
    const many = Object.fromEntries(Array.from({ length: 5_000 }, (_, at) => [`key${at}`, at]));
    expect(JSON.stringify(closed(request(many), 'used').arguments).length).toBeLessThan(16 * 1024);
  });

  it('keeps a definition that has room, and of a large one the name and the start of the description', () => {
    const small = { name: 'write_file', description: 'Writes.', inputSchema: {} };
    expect(closed(request({}, small), 'used').definition).toEqual(small);
    const large = { name: 'write_file', description: 'x'.repeat(100_000), inputSchema: {} };
    const kept = closed(request({}, large), 'used').definition;
    expect(Object.keys(kept)).toEqual(['name', 'description']);
    expect(String(kept.description).length).toBeLessThanOrEqual(1_001);
  });

  it('keeps the hash of the arguments: it says what was decided about', () => {
    const open = request({ secret });
    expect(closed(open, 'denied').arguments_sha256).toBe(open.arguments_sha256);
  });
});

describe('a request as it is shown', () => {
  it('has no salt, epoch or redemption, and its arguments shortened where it is open', () => {
    const open = { ...request({ secret, path: 'x' }), claim: 'c' };
    const listed = listedApproval(open, 70);
    expect(listed).toMatchObject({ arguments_shortened: true, left_ms: 70, changed: false, decided_by: [] });
    for (const field of ['salt', 'claim', 'epoch', 'definition', 'changes']) expect(field in listed).toBe(false);
    expect(JSON.stringify(listed)).not.toContain(secret);
  });

  it('has no time left where it is closed, and nothing more to see', () => {
    const listed = listedApproval(closed(request({ secret }), 'denied'), 70);
    expect(listed).toMatchObject({ arguments_shortened: false, left_ms: 0 });
  });

  it('has the definition and its changes for an approver, and why the caller may not decide', () => {
    const changes = [{ path: 'description', before: 'a', after: 'b' }];
    const shown = shownApproval({ ...request({}), changes }, 1, 'it is yours');
    expect(shown).toMatchObject({ changed: true, changes, definition: { name: 'write_file' }, why_not: 'it is yours' });
  });
});

describe('a request that is too large', () => {
  it.each([
    ['arguments', { arguments: { x: 'x'.repeat(approvalLimits.argumentBytes) } }, 'the arguments have'],
    [
      'definition',
      { definition: { x: 'x'.repeat(approvalLimits.definitionBytes) } },
      'the tool definition has more than',
    ],
    ['run', { run: 'x'.repeat(approvalLimits.textChars + 1) }, 'run has more than'],
    ['policy', { policy: 'x'.repeat(approvalLimits.textChars + 1) }, 'policy has more than'],
  ])('by its %s is refused', (_, more, problem) => {
    expect(sizeProblem(askedCall(more))).toContain(problem);
  });

  it('is not one whose parts are as large as they may be', () => {
    const most = 'x'.repeat(approvalLimits.textChars);
    const args = { x: 'x'.repeat(approvalLimits.argumentBytes - '{"x":""}'.length) };
    expect(sizeProblem(askedCall({ run: most, ordinal: most, arguments: args }))).toBeNull();
  });

  it('counts bytes, not characters', () => {
    expect(sizeProblem(askedCall({ arguments: { x: 'é'.repeat(approvalLimits.argumentBytes / 2) } }))).not.toBeNull();
  });
});
