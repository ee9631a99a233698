import { expect, it } from 'vitest';
import { newEntry, parseEntry } from '../../../src/server/queue/nats/run-entries.ts';

const run = {
  ...{ id: 'r1', namespace: 'team-a', task: 'agent', revision: 1, wasm: '0'.repeat(64), pool: 'default' },
  ...{ submittedBy: 'ann', input: Buffer.from('x'), maxAttempts: 3 },
};
const entry = newEntry(run, '0'.repeat(64), { object: 'r1/input' });
const parsed = (value: unknown) => parseEntry('r1', JSON.stringify(value), 7);

it('takes the entries that nodes write', () => {
  expect(parsed(entry)).toMatchObject({ run: { id: 'r1' }, revision: 7, created: 7 });
  const parked = { ...entry, created: 3, parkedFor: { kind: 'time', atMs: 5 }, result: { inline: '' }, claim: 'abc' };
  expect(parsed(parked)).toMatchObject({ created: 3 });
  expect(parsed({ ...entry, parkedFor: { kind: 'approval', request: 'a b' } })).not.toBeNull();
  const degraded = [{ server: 'bank', reason: 'it hangs' }];
  expect(parsed({ ...entry, run: { ...entry.run, degraded } })).not.toBeNull();
  expect(parsed({ ...entry, parkedFor: { kind: 'stream' }, objects: ['r1/input', 'r1/abc.1'] })).not.toBeNull();
});

it.each<[string, object]>([
  ['a key of another run', { run: { ...entry.run, id: 'r2' } }],
  ['an unknown status', { run: { ...entry.run, status: 'asleep' } }],
  ['a namespace that is no text', { run: { ...entry.run, namespace: { a: 1 } } }],
  ['no time of submission', { run: { ...entry.run, submitted_at_ms: null } }],
  ['an order that is no number', { created: 'first' }],
  ['a claim that is no text', { claim: 7 }],
  ['no input', { input: null }],
  ['an input that is neither text nor object', { input: {} }],
  ['the input of another run', { input: { object: 'r2/input' } }],
  ['the result of another run', { result: { object: 'r12/result' } }],
  ['a result that is a number', { result: 7 }],
  ['objects of another run to remove', { objects: ['r1/input', 'r2/input'] }],
  ['objects that are no list', { objects: 'r1/input' }],
  ['a time to wake that is no number', { parkedFor: { kind: 'time', atMs: 'soon' } }],
  ['degradations that are no list', { run: { ...entry.run, degraded: { a: 1 } } }],
  ['a degradation without a server', { run: { ...entry.run, degraded: [{ reason: 'x' }] } }],
  ['a wait without a request', { parkedFor: { kind: 'approval' } }],
])('ignores a forged entry with %s [cluster.forged-entries]', (_, forged) => {
  expect(parsed({ ...entry, ...forged })).toBeNull();
});
