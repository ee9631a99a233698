import { describe, expect, it } from 'vitest';
import { lastAllowed, newRequest } from '../../../src/agent/approvals/approval-record.ts';
import { hashDefinition, readDefinition } from '../../../src/agent/policy/definition-hash.ts';
import type { JsonObject } from '../../../src/base/json.ts';
import type { Approval } from '../../../src/server/records/approval.ts';
import { askedCall } from './open-queue.ts';

const defined = (description: string, more: JsonObject = {}) => {
  const definition = {
    name: 'write_file',
    description,
    inputSchema: {},
    outputSchema: null,
    annotations: null,
    ...more,
  };
  return { definition, definition_sha256: hashDefinition(readDefinition(definition)) };
};

const asked = (description: string, more: JsonObject = {}) => askedCall(defined(description, more));

const allowed = (description: string, atMs: number, more: Partial<Approval> = {}): Approval => ({
  ...newRequest(asked(description), {
    ...{ round: 1, epoch: 'e', requestedBy: null, rule: null, changes: [] },
    ...{ now: 0, waitMs: 1, grantMs: 1 },
  }),
  ...{ status: 'used', decision: 'allow_once', decided_at_ms: atMs, ...more },
});

const changes = (records: readonly Approval[], call = asked('new')) =>
  lastAllowed({ epoch: 'e', revision: 1, records }, call);

describe('what changed since a tool was last allowed', () => {
  it('is nothing where it never was', () => {
    expect(changes([])).toEqual([]);
  });

  it('is nothing where its definition is the same', () => {
    expect(changes([allowed('new', 1)])).toEqual([]);
  });

  it('is the difference from the definition that was allowed last, in whatever order they are', () => {
    const expected = [{ path: 'description', before: 'second', after: 'new' }];
    expect(changes([allowed('first', 1), allowed('second', 2)])).toEqual(expected);
    expect(changes([allowed('second', 2), allowed('first', 1)])).toEqual(expected);
  });

  it.each([
    ['was denied', { decision: 'deny', status: 'denied' }],
    ['nobody decided about', { decision: null, decided_at_ms: null }],
    ['was of another namespace', { namespace: 'team-b' }],
    ['was of another server', { server_id: 'db' }],
    ['was of another tool', { tool_name: 'read_file' }],
    ['was of another kind', { kind: 'prompt' }],
  ] as const)('is not told from a request that %s', (_, more) => {
    expect(changes([allowed('old', 1, more)])).toEqual([]);
  });

  it('counts also where the grant was not used', () => {
    expect(changes([allowed('old', 1, { status: 'expired', decision: 'allow_session' })])).toHaveLength(1);
  });

  it('is known by hashes alone where the definition was cut when its request was closed', () => {
    const cut = allowed('old', 1, { definition: { name: 'write_file', description: 'ol' } });
    const call = asked('new');
    expect(changes([cut], call)).toEqual([
      { path: 'definition', before: `sha256 ${cut.definition_sha256}`, after: `sha256 ${call.definition_sha256}` },
    ]);
  });

  it('is JSON: what was not there before has no value', () => {
    const call = asked('old', { annotations: { readOnlyHint: true } });
    const found = changes([allowed('old', 1)], call);
    expect(found).toHaveLength(1);
    expect(JSON.parse(JSON.stringify(found))).toEqual(found);
  });
});
