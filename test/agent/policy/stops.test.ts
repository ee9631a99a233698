import { describe, expect, it } from 'vitest';
import { type ActiveStops, stopOfCall, stopOfRun, stopText } from '../../../src/agent/policy/stops.ts';
import { decideCall } from '../../../src/agent/policy/walk.ts';
import type { StopEffect, StopRecord, StopScope } from '../../../src/server/records/stop.ts';
import { stopKind } from '../../../src/server/records/stop-kind.ts';
import { stopToWire, wireToStopInput } from '../../../src/server/records/wire.ts';
import { sampleRecord } from '../../server/records/server-samples.ts';
import { taskWith } from './policy-samples.ts';

const NODE = 'worker-3:node-1';

function stop(scope: StopScope, name: string, effect: StopEffect = 'stop', stop_id = 'aaaa0001'): StopRecord {
  const reason = `${effect} ${name}`;
  return {
    ...{ stop_id, scope, name, effect, reason, created_by: 'alice', authority: '*' },
    ...{ created_at_ms: 1, updated_at_ms: 1, mod_revision: 1 },
  };
}

const active = (...stops: StopRecord[]): ActiveStops => new Map(stops.map((one) => [one.stop_id, one]));

describe('a stop and a call', () => {
  it.each<[StopScope, string, StopEffect, boolean]>([
    ['all', '', 'stop', true],
    ['all', '', 'cancel', true],
    ['namespace', 'team-a', 'stop', true],
    ['namespace', 'team-b', 'stop', false],
    ['task', 'team-a/report', 'stop', true],
    ['task', 'team-a/other', 'stop', false],
    ['task', 'team-b/report', 'stop', false],
    ['task', 'team-a/report', 'pause', false],
    ['server', 'fs', 'stop', true],
    ['server', 'git', 'stop', false],
    ['node', NODE, 'drain', false],
  ])('%s %s with the effect %s: refused %s', (scope, name, effect, refused) => {
    const found = stopOfCall(active(stop(scope, name, effect)), 'team-a', 'report', 'fs');
    expect(found !== null).toBe(refused);
  });

  it('is refused by policy with the reason and the id of the stop [stop.calls]', () => {
    const task = { ...taskWith({ defaultServerIds: ['fs'] }), namespace: 'team-a', name: 'report' };
    const view = { servers: new Map([['fs', sampleRecord('fs', { namespaces: null })]]), stale: false, profiles: null };
    expect(decideCall({ ...view, stops: active() }, task, null, 'fs', 'read').allowed).toBe(true);
    const stops = active(stop('task', 'team-a/report'));
    expect(decideCall({ ...view, stops }, task, null, 'fs', 'read')).toMatchObject({
      allowed: false,
      reason: 'stopped',
      layer: 'registry',
      detail: 'stopped: stop team-a/report (stop aaaa0001)',
    });
  });
});

describe('a stop and a run', () => {
  const run = { namespace: 'team-a', task: 'report' };
  it.each<[StopScope, string, StopEffect, boolean]>([
    ['all', '', 'stop', true],
    ['namespace', 'team-a', 'cancel', true],
    ['task', 'team-a/report', 'pause', true],
    ['task', 'team-a/reports', 'pause', false],
    ['server', 'fs', 'stop', false],
    ['node', NODE, 'pause', true],
    ['node', 'worker-3', 'drain', true],
    ['node', 'worker-30', 'drain', false],
    ['node', 'worker-3:node-2', 'drain', false],
  ])('%s %s with the effect %s: applies %s', (scope, name, effect, applies) => {
    expect(stopOfRun(active(stop(scope, name, effect)), run, NODE) !== null).toBe(applies);
  });

  it('takes the strongest of several', () => {
    const several = active(
      stop('task', 'team-a/report', 'pause', 'aaaa0001'),
      stop('all', '', 'cancel', 'aaaa0002'),
      stop('namespace', 'team-a', 'stop', 'aaaa0003'),
    );
    expect(stopOfRun(several, run, NODE)?.stop_id).toBe('aaaa0002');
    expect(stopText(stop('all', '', 'pause'))).toBe('paused: pause ');
  });
});

describe('the record of a stop', () => {
  const parse = (input: object) => stopKind.parse(input, { strict: true });

  it('survives the wire', () => {
    const one = stop('task', 'team-a/report', 'cancel');
    expect(parse(wireToStopInput(stopToWire(one)))).toMatchObject({ ok: true, record: one });
  });

  it('applies to everything if this version does not understand it', () => {
    const later = { ...stopToWire(stop('task', 'team-a/report')), scope: 'region', effect: 'freeze' };
    expect(parse(wireToStopInput(later))).toMatchObject({ ok: true, record: { scope: 'all', effect: 'stop' } });
  });

  it.each<[object, string]>([
    [stop('all', 'x'), 'name'],
    [stop('namespace', 'Team A'), 'name'],
    [stop('task', 'report'), 'name'],
    [stop('server', 'fs', 'cancel'), 'effect'],
    [stop('node', 'worker-3', 'stop'), 'effect'],
    [stop('all', '', 'pause'), 'effect'],
    [{ ...stop('all', ''), reason: '' }, 'reason'],
    [{ ...stop('all', ''), reason: 'two\nlines' }, 'reason'],
    [{ ...stop('all', ''), reason: 'x'.repeat(501) }, 'reason'],
  ])('%j is invalid: %s', (input, path) => {
    const parsed = parse(input);
    expect(parsed.ok ? [] : parsed.issues.map((issue) => issue.path)).toEqual([path]);
  });
});
