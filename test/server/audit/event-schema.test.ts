import { describe, expect, it } from 'vitest';
import { samples, smsSamples } from './audit-samples.ts';
import { auditEvents, auditProblem } from './audit-schema.ts';

const hash = '0'.repeat(64);
const envelope = { v: 2, chain: '0'.repeat(16), seq: 3, ts: '2026-01-02T03:04:05.678Z', task: null, instance: 'run-1' };
const line = { ...envelope, ...samples[5], prev: hash, hash };

describe('the schema', () => {
  it.each(samples.map((event) => [event.event, event] as const))('knows %s [audit.schema]', (_, event) => {
    expect(auditProblem({ ...envelope, ...event, prev: hash, hash })).toBeNull();
  });

  it.each(smsSamples.map((event) => [event.event, event] as const))(
    'knows %s of a registry [audit.schema]',
    (_, event) => {
      expect(auditProblem({ ...envelope, instance: null, ...event, prev: hash, hash })).toBeNull();
    },
  );

  it('has no other kind than the samples have [audit.schema]', () => {
    expect(new Set([...samples, ...smsSamples].map(({ event }) => event))).toEqual(new Set(auditEvents));
  });

  it.each<[string, object]>([
    ['another version', { v: 3 }],
    ['another time', { ts: 'yesterday' }],
    ['another event', { event: 'tool_call.paused' }],
    ['no tool', { tool_name: null }],
    ['a status nobody knows', { status: 'fine' }],
    ['a negative duration', { duration_ms: -1 }],
    ['a fraction of a byte', { output_bytes: 1.5 }],
    ['a revision in words', { revision: 'seven' }],
    ['a hash that is none', { hash: 'abc' }],
    ['a number that is none', { seq: '3' }],
    ['no instance', { instance: null }],
  ])('refuses %s [audit.schema]', (_, change) => {
    expect(auditProblem(line)).toBeNull();
    expect(auditProblem({ ...line, ...change })).not.toBeNull();
  });

  it('lets fields be added, and none be left out [audit.schema]', () => {
    expect(auditProblem({ ...line, extra: true })).toBeNull();
    for (const key of Object.keys(line)) {
      const { [key as keyof typeof line]: _left, ...rest } = line;
      expect([key, auditProblem(rest)]).not.toEqual([key, null]);
    }
  });

  it.each<[unknown, boolean]>([
    [{ path: { of: 'a file' } }, true],
    [null, true],
    [`sha256:${hash}`, true],
    ['{"path":"in clear"}', false],
    [['a list'], false],
    [7, false],
  ])('takes arguments as an object, a digest or nothing: %j [audit.schema]', (args, fine) => {
    expect(auditProblem({ ...envelope, ...samples[4], args, prev: hash, hash }) === null).toBe(fine);
  });
});
