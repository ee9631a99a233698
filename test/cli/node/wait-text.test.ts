import { describe, expect, it } from 'vitest';
import { WaitText } from '../../../src/cli/node/follow-run.ts';

const text = () => new WaitText('run-1', 'GET /streams');

describe('what spear run says about a run that waits', () => {
  it('names the command that decides, once for each approval request [cli.run.parked]', () => {
    const waits = text();
    const asked = { request: '3f9a', server: 'bank', tool: 'pay' };
    expect(waits.lines({ status: 'waiting', approvals: [asked] })).toEqual([
      'the run run-1 waits for an approval of bank pay: spear approvals allow 3f9a, or spear approvals deny 3f9a',
    ]);
    expect(waits.lines({ status: 'waiting', approvals: [asked] })).toEqual([]);
  });

  it.each([
    [
      { kind: 'approval', request: '3f9a 77b0' },
      'until an approver decides: spear approvals allow 3f9a, or spear approvals deny 3f9a; spear approvals allow 77b0, or spear approvals deny 77b0',
    ],
    [{ kind: 'time', atMs: 0 }, 'until 1970-01-01T00:00:00.000Z, and continues by itself'],
    [{ kind: 'stop', stop: 's1', reason: 'leak' }, 'until a stop is lifted (leak): spear stop --lift s1'],
    [{ kind: 'stream' }, 'until a client connects to its user streams: GET /streams'],
  ])('says what a parked run waits for: %j', (until, expected) => {
    const waits = text();
    expect(waits.lines({ status: 'parked', for: until })).toEqual([`the run run-1 is parked ${expected}`]);
    expect(waits.lines({ status: 'running' })).toEqual(['the run run-1 continues']);
    expect(waits.lines({ status: 'running' })).toEqual([]);
  });

  it('says why a run waits in the queue, if there is a reason [cli.run.parked]', () => {
    const waits = text();
    expect(waits.lines({ status: 'queued', reason: null })).toEqual([]);
    expect(waits.lines({ status: 'queued', reason: 'the disk is full' })).toEqual([
      'the run run-1 is queued: the disk is full',
    ]);
  });

  it('reports a reason that it does not know without one', () => {
    expect(text().lines({ status: 'parked', for: { kind: 'weather' } })).toEqual(['the run run-1 is parked']);
  });
});
