import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { RunRecord } from '../../src/server/records/run.ts';
import { decide } from '../agent/approvals/asking-node.ts';
import { stopAll } from '../registry/running-sms.ts';
import { builtCommand } from '../support/built-command.ts';
import { type PayingNode, payingNode } from './paying-node.ts';

const RUNS = '/v1/namespaces/default/runs';
const START_MS = 120_000;

describe('a run on a node whose call needs an approval', () => {
  let site: PayingNode;

  beforeAll(async () => {
    site = await payingNode('park_after_ms = 600000');
  }, START_MS);
  afterAll(stopAll);

  it('waits for users of the registry, reports the wait, and continues with their decision [node.approvals]', async () => {
    const { sms, node, submit, asked, until, result, payments, requests } = site;
    const { id } = await submit();
    const [request = ''] = await asked(id);
    expect((await requests(id))[0]).toMatchObject({ task: 'default/payer', node_id: 'n1', namespace: 'default' });
    expect(await until(id, 'waiting')).toMatchObject({ node: 'n1' });
    expect(payments(id)).toEqual([]);
    await decide(sms, request, 'allow_once');
    await until(id, 'succeeded');
    expect(await result(id)).toContain('all settled');
    expect(payments(id)).toMatchObject([{ invoice: 'one' }]);
    const events = (await node.ask('GET', `${RUNS}/${id}/events`)).text;
    expect(events).toContain('"status":"waiting","approvals":[{"request":');
    expect(events).toContain('"tool":"pay"');
    expect(await requests(id)).toMatchObject([{ status: 'used' }]);
  });

  it('is not approved by its submitter, also after a retry by another user [approval.self]', async () => {
    const { sms, node, until, asked, requests } = site;
    const user = async (name: string) => {
      const json = { name, roles: ['submitter', 'approver'], namespace: 'default' };
      return String((await sms.http('POST', '/admin/api/tokens', { json })).body.token);
    };
    const [sam, bob] = [await user('sam'), await user('bob')];
    const submitted = await node.ask('POST', '/v1/namespaces/default/tasks/payer/runs', { body: '', token: sam });
    const { id } = JSON.parse(submitted.text) as RunRecord;
    const [request = ''] = await asked(id);
    expect(await requests(id)).toMatchObject([{ submitted_by: 'sam', requested_by: 'bootstrap-node' }]);
    expect((await decide(sms, request, 'allow_once', { token: sam })).status).toBe(403);
    await decide(sms, request, 'deny', { token: bob });
    await until(id, 'succeeded');
    const again = JSON.parse((await node.ask('POST', `${RUNS}/${id}/retry`, { token: bob })).text) as RunRecord;
    expect(again).toMatchObject({ submitted_by: 'bob', first_submitted_by: 'sam' });
    const [second = ''] = await asked(again.id);
    expect(await requests(again.id)).toMatchObject([{ submitted_by: 'sam' }]);
    expect((await decide(sms, second, 'allow_once', { token: sam })).status).toBe(403);
    expect((await decide(sms, second, 'allow_once', { token: bob })).status).toBe(200);
    await until(again.id, 'succeeded');
  });

  it('takes its request back when it is cancelled [node.approvals]', async () => {
    const { node, submit, asked, until, requests } = site;
    const { id } = await submit();
    await asked(id);
    await until(id, 'waiting');
    await node.ask('POST', `${RUNS}/${id}/cancel`);
    await until(id, 'cancelled');
    expect(await requests(id)).toMatchObject([{ status: 'withdrawn' }]);
  });
});

describe('a run on a node that waits long', () => {
  let site: PayingNode;

  beforeAll(async () => {
    site = await payingNode('park_after_ms = 150\nslots = 16');
  }, START_MS);
  afterAll(stopAll);

  it(
    'is parked without a slot and at no attempt; its node killed meanwhile, it pays once [node.park] [node.park.killed]',
    async () => {
      const { sms, node, submit, asked, until, get, result, payments, requests } = site;
      const { id } = await submit();
      const other = await submit('own-thread');
      const [request = ''] = await asked(id);
      const parked = await until(id, 'parked');
      expect(parked).toMatchObject({ attempts: 0, node: null, parked_for: { kind: 'approval', request } });
      await until(other.id, 'parked');
      expect((await node.ask('GET', '/metrics')).text).toMatch(/spearlet_slots\{state="used"\} 0/);
      const journal = (await node.ask('GET', `${RUNS}/${id}/journal`)).text;
      expect(journal).toContain('"reason":"parked"');
      await node.kill();
      await decide(sms, request, 'allow_once');
      await node.start();
      expect(await until(id, 'succeeded')).toMatchObject({ attempts: 1 });
      expect(await result(id)).toContain('all settled');
      expect(payments(id)).toHaveLength(1);
      expect(await requests(id)).toMatchObject([{ status: 'used' }]);
      expect((await get(other.id)).status).toBe('parked');
      await decide(sms, (await asked(other.id))[0] ?? '', 'deny', { reason: 'not this month' });
      await until(other.id, 'succeeded');
      expect(payments(other.id)).toEqual([]);
      expect(await requests(other.id)).toMatchObject([{ status: 'denied' }]);
    },
    START_MS,
  );

  it('makes spear run say what it waits for and which command helps [cli.run.parked]', async () => {
    const { sms, node } = site;
    const args = [builtCommand('spear'), 'run', 'payer', '--node', node.url];
    const env = { ...process.env, SPEAR_NODE_TOKEN: node.token() };
    const command = spawn(process.execPath, args, { stdio: ['ignore', 'ignore', 'pipe'], env });
    const exited = once(command, 'exit');
    for await (const line of createInterface(command.stderr)) {
      const id = /is parked until an approver decides: spear approvals allow (\S+),/.exec(line)?.[1];
      if (id !== undefined) await decide(sms, id, 'allow_once');
    }
    expect((await exited)[0]).toBe(0);
  });

  it('is cancelled while it is parked, and takes its request back [node.park]', async () => {
    const { sms, node, submit, asked, until, requests, payments } = site;
    const { id } = await submit();
    await until(id, 'parked');
    const [request = ''] = await asked(id);
    const answer = await node.ask('POST', `${RUNS}/${id}/cancel`);
    expect(JSON.parse(answer.text)).toMatchObject({ status: 'cancelled', exit: { reason: 'cancelled' } });
    expect(await requests(id)).toMatchObject([{ status: 'withdrawn' }]);
    expect((await decide(sms, request, 'allow_once')).status).toBe(409);
    expect(payments(id)).toEqual([]);
  });

  it('may wait for several approvals, and continues after each [node.park]', async () => {
    const { sms, submit, until, payments } = site;
    const { id } = await submit('three');
    for (let left = 3; left > 0; left--) {
      let ids: readonly string[] = [];
      // The run is parked again after each decision.
      while (ids.length !== left) {
        const { parked_for: parked } = await until(id, 'parked');
        ids = parked?.kind === 'approval' ? parked.request.split(' ') : [];
      }
      await decide(sms, ids.at(-1) ?? '', left === 2 ? 'deny' : 'allow_once');
    }
    await until(id, 'succeeded');
    expect(payments(id)).toHaveLength(2);
  });

  it('continues when an unreachable registry responds again [node.park]', async () => {
    const { sms, submit, asked, until, get } = site;
    const { id } = await submit();
    await until(id, 'parked');
    const [request = ''] = await asked(id);
    await sms.restart();
    expect((await get(id)).status).toBe('parked');
    await decide(sms, request, 'allow_once');
    await until(id, 'succeeded');
  });

  it(
    'is asked once whether a call may be made again that a kill left without an answer [node.park.unknown]',
    async () => {
      const { sms, node, submit, asked, until, payments, requests, silence } = site;
      const { id } = await submit();
      await until(id, 'parked');
      const [request = ''] = await asked(id);
      silence(true);
      await decide(sms, request, 'allow_once');
      while (payments(id).length === 0) await delay(20);
      await node.kill();
      silence(false);
      await node.start();
      await until(id, 'parked');
      const [again = ''] = await asked(id);
      await decide(sms, again, 'allow_once');
      await until(id, 'succeeded');
      expect(await requests(id)).toMatchObject([{ approval_id: again, status: 'used' }, { status: 'used' }]);
      // The bank knows it by run and place.
      expect(payments(id)).toHaveLength(1);
    },
    START_MS,
  );

  it('or sleeps is parked until its time has come [node.park.sleep]', async () => {
    const { submit, until, result } = site;
    const { id } = await submit('sleeper');
    const { parked_for: parked } = await until(id, 'parked');
    expect(parked?.kind).toBe('time');
    expect(await until(id, 'succeeded')).toMatchObject({ attempts: 1 });
    expect(Date.now()).toBeGreaterThan(parked?.kind === 'time' ? parked.atMs : Number.NaN);
    expect(await result(id)).toBe('before the sleep\nusleep ok\nsleep_ms ok\n');
  });
});
