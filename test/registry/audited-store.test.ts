import { expect, it, vi } from 'vitest';
import { auditedStore } from '../../src/registry/audit/audited-store.ts';
import type { AuditEvent } from '../../src/server/audit/event.ts';
import { noTrail } from '../../src/server/audit/sms-trail.ts';
import { Caller } from '../../src/server/identity/caller.ts';
import { createMemoryStore } from '../../src/server/store/local-store.ts';
import { sampleRecord } from '../server/records/server-samples.ts';

/** More steps than anything takes from its call to its change. */
const STEPS = 40;
const caller = Caller.process('test');

it('tells of changes in the order in which they were made, however close they are [audit.sms]', async () => {
  for (let steps = 0; steps < STEPS; steps++) {
    const told: AuditEvent[] = [];
    const store = auditedStore(createMemoryStore(), { ...noTrail, write: (event) => told.push(event) }).as(caller);
    const many = store.apply(['a', 'b', 'c'].map((id) => ({ upsert: sampleRecord(id) })));
    for (let step = 0; step < steps; step++) await null;
    await Promise.all([many, store.upsert(sampleRecord('d'))]);
    const revisions = told.map((event) => ('revision' in event ? event.revision : null));
    expect(revisions, `${steps} steps apart`).toEqual([1, 2, 3, 4]);
  }
});

it('tells of a change after those of a large one that was made before it [audit.sms]', async () => {
  const told: AuditEvent[] = [];
  const write = (event: AuditEvent) => {
    told.push(event);
    // As on a busy machine: each line takes longer than the thread may be held.
    const until = performance.now() + (told.length < 4 ? 11 : 0);
    while (performance.now() < until);
  };
  const store = auditedStore(createMemoryStore(), { ...noTrail, write }).as(caller);
  const large = store.apply(['a', 'b', 'c', 'd'].map((id) => ({ upsert: sampleRecord(id) })));
  await vi.waitUntil(() => told.length > 0, { interval: 1 });
  await Promise.all([large, store.upsert(sampleRecord('e')), store.remove('a')]);
  await store.upsert(sampleRecord('f'));
  expect(told.map((event) => ('revision' in event ? event.revision : null))).toEqual([1, 2, 3, 4, 5, 6, 7]);
});
