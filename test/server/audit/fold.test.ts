import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { AuditEvent, AuditFold, FoldedKind } from '../../../src/server/audit/event.ts';
import { Folding, foldedKind, foldLimits } from '../../../src/server/audit/fold.ts';
import { samples } from './audit-samples.ts';

const denied: FoldedKind = {
  of: 'tool_call.finished',
  server_id: 'fs',
  tool_name: 'write',
  status: 'denied',
  reason: 'denied_by_task',
  peer: null,
  method: null,
};

function open() {
  const told: (AuditFold & { readonly instance: string | null })[] = [];
  const folding = new Folding((_task, instance, event) => told.push({ instance, ...event }));
  /** How many of them may be written. */
  const admitted = (count: number, kind: (at: number) => FoldedKind, run = 'run-1') =>
    Array.from({ length: count }, (_, at) => folding.admits('task', run, kind(at))).filter((full) => full).length;
  return { told, folding, admitted };
}

describe('events that cost nothing', () => {
  beforeEach(() => void vi.useFakeTimers({ now: new Date('2026-01-02T03:04:05.000Z') }));
  afterEach(() => void vi.useRealTimers());

  it('are written in full up to a number of one kind, and told in one line when the window ends [audit.folded]', () => {
    const { told, admitted } = open();
    expect(admitted(1_000, () => denied)).toBe(foldLimits.fullOfKind);
    vi.advanceTimersByTime(1_000);
    expect(admitted(1, () => denied)).toBe(0);
    expect(told).toEqual([]);
    vi.advanceTimersByTime(foldLimits.windowMs);
    expect(told).toEqual([
      {
        instance: 'run-1',
        event: 'events.folded',
        ...denied,
        count: 1_001 - foldLimits.fullOfKind,
        first_ts: '2026-01-02T03:04:05.000Z',
        last_ts: '2026-01-02T03:04:06.000Z',
      },
    ]);
    expect(admitted(1, () => denied)).toBe(1);
  });

  it('of one run take nothing from another [audit.folded]', () => {
    const { admitted } = open();
    admitted(1_000, () => denied);
    expect(admitted(1, () => denied, 'run-2')).toBe(1);
  });

  it('of names without end are bounded in lines, and none is uncounted [audit.folded]', () => {
    const { told, folding, admitted } = open();
    const full = admitted(5_000, (at) => ({ ...denied, tool_name: `${at}-${'x'.repeat(400)}` }));
    folding.flush();
    expect(full).toBe(foldLimits.kinds + foldLimits.fullOfKind);
    expect(told.length).toBeLessThanOrEqual(foldLimits.kinds + 1);
    expect(told.reduce((sum, { count }) => sum + count, 0)).toBe(5_000 - full);
    expect(told.at(-1)).toMatchObject({ tool_name: null, server_id: null, reason: 'denied_by_task' });
  });

  it('leave nothing behind where there were few [audit.folded]', () => {
    const { told, folding, admitted } = open();
    admitted(3, () => denied);
    folding.flush();
    expect([told, vi.getTimerCount()]).toEqual([[], 0]);
  });
});

it('approvals, calls, changes, beginnings and ends are never folded [audit.folded]', () => {
  const folded = samples.filter((event) => foldedKind(event) !== null).map(({ event }) => event);
  expect(folded).toEqual(['session.created', 'mcp.injected', 'budget.hit', 'elicitation.answered']);
  const answered = samples.find(({ event }) => event === 'elicitation.answered') as AuditEvent;
  expect(foldedKind({ ...answered, decided_by: 'terminal' } as AuditEvent)).toBeNull();
  const failed: AuditEvent = { ...samples[10], status: 'failed', reason: 'timeout' };
  const byRule: AuditEvent = { ...samples[7], status: 'denied', decision: 'rule' };
  const bySomebody: AuditEvent = { ...samples[7], status: 'denied', decision: 'deny' };
  const byAllowingRule: AuditEvent = { ...samples[7], decision: 'rule' };
  expect([failed, byRule, bySomebody, byAllowingRule].map((event) => foldedKind(event) !== null)).toEqual([
    true,
    true,
    false,
    false,
  ]);
});
