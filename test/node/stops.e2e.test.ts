import { execFile } from 'node:child_process';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { decide } from '../agent/approvals/asking-node.ts';
import { stopAll, temporaryDirectory } from '../registry/running-sms.ts';
import { builtCommand } from '../support/built-command.ts';
import { type PayingNode, payingNode } from './paying-node.ts';

const STOPS = '/admin/api/stops';
const START_MS = 120_000;
const reason = 'incident 12';

describe('a stop on a real node', () => {
  let site: PayingNode;

  beforeAll(async () => {
    site = await payingNode('park_after_ms = 600000');
  }, START_MS);
  afterAll(stopAll);

  async function stop(json: object = { scope: 'namespace', name: 'default' }): Promise<string> {
    const { body, text } = await site.sms.http('POST', STOPS, { json: { ...json, reason } });
    if (typeof body.stop_id !== 'string') throw new Error(text);
    return body.stop_id;
  }
  const lift = (id: string) => site.sms.http('DELETE', `${STOPS}/${id}`);

  it('parks runs and keeps new ones queued; lifted, they resume where they were [stop.runs]', async () => {
    const { sms, submit, asked, until, get, payments, requests, result } = site;
    const { id } = await submit();
    const [request = ''] = await asked(id);
    await until(id, 'waiting');
    const stopId = await stop();
    const parked = await until(id, 'parked');
    expect(parked).toMatchObject({ attempts: 0, parked_for: { kind: 'stop', stop: stopId, reason } });
    const later = await submit();
    const kept = { status: 'queued', attempts: 0, status_reason: `stopped: ${reason}` };
    expect([later, await get(later.id)]).toMatchObject([kept, kept]);
    expect(await requests(id)).toMatchObject([{ approval_id: request, status: 'waiting' }]);
    await lift(stopId);
    await until(later.id, 'waiting');
    await until(id, 'waiting');
    await decide(sms, request, 'allow_once');
    await until(id, 'succeeded');
    expect([await result(id), payments(id).length]).toEqual([expect.stringContaining('all settled'), 1]);
    await site.node.ask('POST', `/v1/namespaces/default/runs/${later.id}/cancel`);
    await until(later.id, 'cancelled');
  });

  it('does not record what it did to a call in flight: its outcome is unknown when the run resumes [stop.runs]', async () => {
    const { sms, node, submit, asked, until, payments, requests, silence } = site;
    const { id } = await submit();
    const [request = ''] = await asked(id);
    silence(true);
    await decide(sms, request, 'allow_once');
    while (payments(id).length === 0) await delay(20);
    const stopId = await stop();
    await until(id, 'parked');
    const journal = (await node.ask('GET', `/v1/namespaces/default/runs/${id}/journal`)).text;
    expect(journal).not.toContain('mcp_stopped');
    silence(false);
    await lift(stopId);
    const [again = ''] = await asked(id);
    await decide(sms, again, 'deny');
    await until(id, 'succeeded');
    expect(payments(id)).toHaveLength(1);
    expect(await requests(id)).toMatchObject([{ status: 'denied' }, { status: 'used' }]);
  });

  it('with the effect cancel also ends runs, with the reason [stop.cancel]', async () => {
    const { submit, asked, until, requests } = site;
    const { id } = await submit();
    await asked(id);
    const stopId = await stop({ scope: 'task', name: 'default/payer', effect: 'cancel' });
    const message = `stopped: ${reason}`;
    expect(await until(id, 'cancelled')).toMatchObject({ exit: { reason: 'cancelled', message } });
    const queued = await submit();
    expect(await until(queued.id, 'cancelled')).toMatchObject({ exit: { message } });
    expect(await requests(id)).toMatchObject([{ status: 'withdrawn' }]);
    await lift(stopId);
  });

  it('is set, confirmed, listed and lifted by commands; tasks are paused and nodes cordoned [stop.confirm]', async () => {
    const { sms } = site;
    const home = temporaryDirectory();
    const spear = (...args: readonly string[]) => {
      const given = [builtCommand('spear'), ...args, '--sms', sms.sms.http, '--token', sms.adminToken];
      const env = { PATH: process.env.PATH, HOME: home };
      return new Promise<{ status: number; stdout: string; stderr: string }>((resolve) => {
        execFile(process.execPath, given, { env }, (error, stdout, stderr) => {
          resolve({ status: Number(error?.code ?? 0), stdout, stderr });
        });
      });
    };
    const told = await until(async () => {
      const { body } = await sms.http('GET', '/admin/api/mcp/nodes');
      return (body.nodes as readonly { node_id: string; machine: string }[])[0];
    });
    expect((await spear('stop', '--server', 'bank')).stderr).toContain('--reason is required');
    expect((await spear('stop', '--all', '--server', 'bank', '--reason', 'x')).status).toBe(2);
    expect((await spear('stop', '--server', 'bank', '--reason', 'x', '--cancel')).status).toBe(2);
    expect((await spear('stop', '--lift', 'aaaa0001', '--reason', 'x')).status).toBe(2);
    const set = await spear('stop', '--server', 'bank', '--reason', reason);
    expect(set).toMatchObject({ status: 0, stderr: expect.stringContaining('1 node confirmed') });
    const id = set.stdout.split(' ')[0] ?? '';
    expect((await spear('stop')).stdout).toMatch(new RegExp(`${id} +stop +server bank .*1/1 +${reason}`));
    const again = await spear('stop', '--server', 'bank', '--reason', 'another');
    expect([again.stdout, again.stderr]).toEqual([set.stdout, expect.stringContaining(`with the reason: ${reason}`)]);
    expect(await spear('stop', '--lift', id)).toMatchObject({ status: 0, stdout: `${id} lifted\n` });
    expect((await spear('nodes', 'cordon', told.machine)).stdout).toContain(`pause node ${told.machine}`);
    expect((await spear('nodes', 'uncordon', told.machine)).stdout).toContain('lifted');
    expect(await spear('nodes', 'uncordon', told.machine)).toMatchObject({ status: 1 });
    expect((await spear('tasks', 'pause', 'payer')).stdout).toContain('pause task default/payer');
    expect((await spear('tasks', 'resume', 'payer')).stdout).toContain('lifted');
    expect((await spear('stop')).stderr).toContain('no active stops');
  });
});

/** Asks until there is an answer. */
async function until<T>(ask: () => Promise<T | undefined>): Promise<T> {
  for (;;) {
    const answer = await ask();
    if (answer !== undefined) return answer;
    await delay(20);
  }
}
