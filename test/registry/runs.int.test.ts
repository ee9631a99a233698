import { readFileSync } from 'node:fs';
import { afterEach, describe, expect, it } from 'vitest';
import { type RunReport, runReportLimits } from '../../src/registry-client/node-report.ts';
import type { RunPicture } from '../../src/server/timeline/run-picture.ts';
import { createToken } from '../server/identity/token-calls.ts';
import { startTestSms, stopAll, type TestSms } from './running-sms.ts';

afterEach(stopAll);

const run = (id: string, more: Partial<RunReport> = {}): RunReport => ({
  id,
  namespace: 'default',
  task: 'agent',
  revision: 3,
  status: 'running',
  submitted_by: 'ann',
  submitted_at_ms: 1_000,
  started_at_ms: 2_000,
  ended_at_ms: null,
  attempts: 1,
  exit: null,
  cost: null,
  status_reason: 'no free guest thread',
  degraded: [{ server: 'mute', reason: 'tools/list timed out' }],
  ...more,
});

const ended = run('r-2', {
  namespace: 'team-b',
  status: 'failed',
  submitted_at_ms: 3_000,
  ended_at_ms: 4_000,
  exit: { reason: 'exit', code: 2, message: 'no' },
  cost: { model_calls: 2, tool_calls: 5, total_tokens: 300 },
});

const picture: RunPicture = {
  run: 'r-1',
  end: 'it ended with 0',
  state: 'ok',
  totals: ['1 turn'],
  facts: [],
  ticks: ['0 ms', '1 s'],
  axis: 1_000,
  rows: [],
  left_out: 0,
};

const { signal } = new AbortController();
const report = (sms: TestSms, runs: readonly RunReport[] | null, nodeId = 'machine:n1') =>
  sms.source().reportRuns({ nodeId, runs, timelines: [] }, signal);
const listed = async (sms: TestSms, query = '', token = sms.adminToken) => {
  const { body } = await sms.http('GET', `/admin/api/runs${query}`, { token });
  return (body.runs as { id: string }[]).map(({ id }) => id);
};

describe('runs of nodes in a registry', () => {
  it('are listed newest first, to whoever may name their namespaces [sms.runs]', async () => {
    const sms = await startTestSms();
    expect(await report(sms, [ended, run('r-1')])).toEqual({ wantedTimelines: [], wantsRuns: false });
    const { body } = await sms.http('GET', '/admin/api/runs');
    expect(body).toEqual({
      runs: [
        { ...ended, node: 'machine:n1' },
        { ...run('r-1'), node: 'machine:n1' },
      ],
      total: 2,
    });
    expect(await listed(sms, '?status=failed')).toEqual(['r-2']);
    expect(await listed(sms, '?task=agent&namespace=default&limit=1')).toEqual(['r-1']);
    const token = await createToken(sms, { name: 'bob', roles: ['viewer'], namespace: 'team-b' });
    expect(await listed(sms, '', token)).toEqual(['r-2']);
    expect((await sms.http('GET', '/admin/api/runs/r-1', { token })).status).toBe(404);
    expect((await sms.http('GET', '/admin/api/runs/r-2', { token })).body).toMatchObject({ status: 'failed' });
    for (const query of ['?status=asleep', '?limit=0', '?limit=x']) {
      expect((await sms.http('GET', `/admin/api/runs${query}`)).status).toBe(400);
    }
  });

  it('of another namespace are neither reported, hidden nor replaced by a node of one namespace [sms.runs.reporter]', async () => {
    const sms = await startTestSms();
    await report(sms, [ended]);
    const nodeOfA = await createToken(sms, { name: 'node-a', roles: ['node'], namespace: 'team-a' });
    const source = sms.source(nodeOfA);
    const claims = [
      run('r-2', { namespace: 'team-b', attempts: 99, status: 'succeeded' }),
      run('r-2', { namespace: 'team-a', attempts: 99, status: 'succeeded' }),
      run('r-5', { namespace: 'team-b' }),
    ];
    // Under an id of its own, and under that of the node of team-b.
    for (const nodeId of ['machine-a:1', 'machine:n1']) {
      await source.reportRuns({ nodeId, runs: claims, timelines: [] }, signal);
      const { body } = await sms.http('GET', '/admin/api/runs?namespace=team-b');
      expect(body.runs).toEqual([{ ...ended, node: 'machine:n1' }]);
    }
    const token = await createToken(sms, { name: 'bob', roles: ['viewer'], namespace: 'team-b', read_journals: true });
    expect((await sms.http('GET', '/admin/api/runs/r-2', { token })).body).toMatchObject({ status: 'failed' });
    // It is not asked for the timeline, and its answer does not count.
    const asked = sms.http('GET', '/admin/api/runs/r-2/timeline', { token });
    await expect.poll(async () => (await report(sms, null)).wantedTimelines).toEqual(['r-2']);
    const forged = {
      nodeId: 'machine:n1',
      runs: null,
      timelines: [{ runId: 'r-2', picture: null, problem: 'forged' }],
    };
    expect((await source.reportRuns(forged, signal)).wantedTimelines).toEqual([]);
    const own = { nodeId: 'machine:n1', runs: null, timelines: [{ runId: 'r-2', picture: null, problem: 'real' }] };
    await sms.source().reportRuns(own, signal);
    expect((await asked).body.detail).toBe('real');
  });

  it('of waiting and parked status are told; a run that moved is told by the node that began it last', async () => {
    const sms = await startTestSms();
    await report(sms, [run('r-1', { status: 'parked' }), run('r-3', { status: 'waiting' })]);
    await report(sms, [run('r-1', { attempts: 2 })], 'other:n2');
    const { body } = await sms.http('GET', '/admin/api/runs');
    expect(body.runs).toEqual([
      expect.objectContaining({ id: 'r-3', status: 'waiting', node: 'machine:n1' }),
      expect.objectContaining({ id: 'r-1', status: 'running', node: 'other:n2' }),
    ]);
  });

  it('are told once, and whole again to a registry that was started anew', async () => {
    const sms = await startTestSms();
    await report(sms, [run('r-1')]);
    expect(await report(sms, null)).toMatchObject({ wantsRuns: false });
    expect(await listed(sms)).toEqual(['r-1']);
    await sms.restart();
    expect(await report(sms, null)).toMatchObject({ wantsRuns: true });
  });

  it('are forgotten with a node that says nothing more', async () => {
    const sms = await startTestSms({ limit: { node_expiry_ms: 1_000 } });
    await report(sms, [run('r-1')]);
    await expect.poll(() => listed(sms)).toEqual([]);
  });

  it('beyond what is taken, or that are none, change nothing', async () => {
    const sms = await startTestSms();
    await report(sms, [run('r-1')]);
    const many = runReportLimits.maxActive + runReportLimits.maxEnded + 1;
    await expect(
      report(
        sms,
        Array.from({ length: many }, (_, n) => run(`x-${n}`)),
      ),
    ).rejects.toThrow('more than');
    await expect(report(sms, [run('../x')])).rejects.toThrow('runs[0].id');
    await expect(report(sms, [{ ...run('r-9'), status: 'asleep' as 'running' }])).rejects.toThrow('runs[0].status');
    expect(await listed(sms)).toEqual(['r-1']);
  });
});

describe('the timeline of a run', () => {
  const give = (sms: TestSms, text: string | null, problem = '') =>
    sms
      .source()
      .reportRuns({ nodeId: 'machine:n1', runs: null, timelines: [{ runId: 'r-1', picture: text, problem }] }, signal);
  const ask = (sms: TestSms, token = sms.adminToken) => sms.http('GET', '/admin/api/runs/r-1/timeline', { token });
  const wanted = async (sms: TestSms) => (await report(sms, null)).wantedTimelines;

  it('is asked of its node, for who may read journals, and the trail says who was shown it [sms.runs.timeline]', async () => {
    const sms = await startTestSms();
    await report(sms, [run('r-1')]);
    const viewer = await createToken(sms, { name: 'ann', roles: ['viewer'] });
    expect(await ask(sms, viewer)).toMatchObject({ status: 403 });
    const answer = ask(sms);
    await expect.poll(() => wanted(sms)).toEqual(['r-1']);
    // Another node cannot answer for it.
    const other = { nodeId: 'other:n2', runs: [], timelines: [{ runId: 'r-1', picture: '{}', problem: '' }] };
    await sms.source().reportRuns(other, signal);
    await give(sms, JSON.stringify(picture));
    expect((await answer).body).toEqual(picture);
    expect(await wanted(sms)).toEqual([]);
    const trail = () => readFileSync(sms.config.audit?.file ?? '', 'utf8').split('\n');
    const shown = () => trail().filter((line) => line.includes('"sms.journal_read"') && line.includes('"r-1"'));
    await expect.poll(shown).toHaveLength(1);
  });

  it('that a node cannot give, or that is none, is said so', async () => {
    const sms = await startTestSms();
    await report(sms, [run('r-1')]);
    for (const [text, problem, said] of [
      [null, 'the run has no journal', 'the run has no journal'],
      ['{"rows":7}', '', 'sent an invalid timeline'],
      ['no json', '', 'sent an invalid timeline'],
    ] as const) {
      const answer = ask(sms);
      await expect.poll(() => wanted(sms)).toEqual(['r-1']);
      await give(sms, text, problem);
      const { status, text: body } = await answer;
      expect(status).toBe(503);
      expect(body).toContain(said);
    }
  });
});
