import { describe, expect, it } from 'vitest';
import {
  ApprovalGrants,
  type GrantBinding,
  type GrantRefusal,
  MAX_GRANTS,
  ONCE_GRANT_MS,
  SESSION_GRANT_MS,
} from '../../../src/agent/approvals/grants.ts';

const binding: GrantBinding = {
  task: 'task',
  run: 'run-1',
  ordinal: '5.1.1',
  session: 'chat-1',
  server: 'fs',
  tool: 'write_file',
  arguments: 'aa',
  definition: 'dd',
  policy: '7:pp',
};
/** Written out: a field that the code forgets is still tried here. */
const fields = ['task', 'run', 'ordinal', 'session', 'server', 'tool', 'arguments', 'definition', 'policy'] as const;
const definition = { name: 'write_file', description: '', inputSchema: {}, outputSchema: null, annotations: null };

function grants() {
  const clock = { ms: 1_000 };
  return { store: new ApprovalGrants({ now: () => clock.ms }), clock };
}

describe('a grant for one call', () => {
  it('holds once', () => {
    const { store } = grants();
    const id = store.grantOnce(binding, definition);
    expect(store.redeem(id, { ...binding })).toBeNull();
    expect(store.redeem(id, binding)).toBe('used');
  });

  it.each(fields)('is refused when its %s is another, and gone then [approval.grant.bound]', (field) => {
    const { store } = grants();
    const id = store.grantOnce(binding, definition);
    expect(store.redeem(id, { ...binding, [field]: `${binding[field]}2` })).toBe(field);
    expect(store.redeem(id, binding)).toBe('used');
  });

  it('is refused when it is too old [approval.grant.expiry]', () => {
    const { store, clock } = grants();
    const refusals: (GrantRefusal | null)[] = [];
    for (const age of [ONCE_GRANT_MS - 1, ONCE_GRANT_MS]) {
      const id = store.grantOnce(binding, definition);
      clock.ms += age;
      refusals.push(store.redeem(id, binding));
    }
    expect(refusals).toEqual([null, 'expired']);
  });

  it('does not cover the session, and is of no use once dropped', () => {
    const { store } = grants();
    const id = store.grantOnce(binding, definition);
    expect(store.coversSession(binding)).toBe(false);
    store.drop(id);
    expect(store.redeem(id, binding)).toBe('used');
  });
});

describe('a grant for a session', () => {
  it('holds for all calls, whatever the arguments', () => {
    const { store } = grants();
    store.grantSession(binding, definition);
    expect([binding, { ...binding, arguments: 'bb' }, binding].map((now) => store.coversSession(now))).toEqual([
      true,
      true,
      true,
    ]);
  });

  it.each(fields.filter((field) => field !== 'arguments' && field !== 'ordinal'))(
    'is refused when its %s is another',
    (field) => {
      const { store } = grants();
      store.grantSession(binding, definition);
      expect(store.coversSession({ ...binding, [field]: `${binding[field]}2` })).toBe(false);
    },
  );

  it('does not come back when what changed is changed back', () => {
    const { store } = grants();
    store.grantSession(binding, definition);
    expect(store.coversSession({ ...binding, definition: 'other' })).toBe(false);
    expect(store.coversSession(binding)).toBe(false);
  });

  it('is refused when it is too old [approval.grant.expiry]', () => {
    const { store, clock } = grants();
    store.grantSession(binding, definition);
    clock.ms += SESSION_GRANT_MS - 1;
    expect(store.coversSession(binding)).toBe(true);
    clock.ms += 1;
    expect(store.coversSession(binding)).toBe(false);
  });
});

describe('all grants of a guest', () => {
  it('are bounded: the oldest goes, and is asked for again', () => {
    const { store } = grants();
    const sessions = Array.from({ length: MAX_GRANTS + 1 }, (_, i) => ({ ...binding, session: `chat-${i}` }));
    for (const each of sessions) store.grantSession(each, definition);
    expect(sessions.map((each) => store.coversSession(each)).indexOf(true)).toBe(1);
    const ids = sessions.map((each) => store.grantOnce(each, definition));
    expect(sessions.map((each, i) => store.redeem(ids[i] as number, each)).indexOf(null)).toBe(1);
  });

  it('tell which definition of a tool was last allowed in this task [approval.changed]', () => {
    const { store } = grants();
    expect(store.lastAllowed(binding)).toBeNull();
    store.grantOnce(binding, definition);
    const newer = { ...definition, description: 'newer' };
    store.grantSession({ ...binding, session: 'chat-2' }, newer);
    expect(store.lastAllowed(binding)).toBe(newer);
    expect(store.lastAllowed({ ...binding, task: 'other' })).toBeNull();
    expect(store.lastAllowed({ ...binding, server: 'other' })).toBeNull();
  });
});
