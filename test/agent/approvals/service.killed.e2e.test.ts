import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import type { NodeApprovals } from '../../../src/registry-client/ports.ts';
import { createRemoteSource } from '../../../src/registry-client/remote-source.ts';
import { onStop, stopAll, temporaryDirectory } from '../../registry/running-sms.ts';
import { type SmsProcess, spawnSms } from '../../registry/sms-process.ts';
import { APPROVALS, boundCall, clientOf, type Listed, questionOf } from './asking-node.ts';

afterEach(stopAll);

const args = { path: '/data/x', content: 'a line' };

/** A registry as a process that is killed without a warning, and comes back on the same data and ports. */
async function mortalSms() {
  const data = join(temporaryDirectory(), 'registry.db');
  const flags = (grpc: string, http: string) => ['--data', data, '--grpc', grpc, '--http', http];
  let sms: SmsProcess = await spawnSms(flags('127.0.0.1:0', '127.0.0.1:0'));
  const port = (address: string) => `127.0.0.1:${address.split(':').at(-1)}`;
  const token = (name: string) => readFileSync(join(dirname(data), `${name}.token`), 'utf8').trim();
  const http = async (method: string, path: string, body?: object) => {
    const response = await fetch(`${sms.http}${APPROVALS}${path}`, {
      method,
      headers: { authorization: `Bearer ${token('admin')}`, 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    return { status: response.status, body: (await response.json()) as { approvals: readonly Listed[] } };
  };
  const source = createRemoteSource({ address: sms.grpc, token: token('node') });
  onStop(() => source.close());
  return {
    port: source.approvals('node-1'),
    async killed() {
      await sms.end('SIGKILL');
      sms = await spawnSms(flags(port(sms.grpc), port(sms.http)));
    },
    list: async () => (await http('GET', '')).body.approvals,
    async decided(decision: string) {
      const { body } = await http('GET', '?status=waiting');
      const [request] = body.approvals;
      expect((await http('POST', `/${request?.approval_id}/decision`, { decision, reason: 'seen' })).status).toBe(200);
    },
  };
}

/** Calls it, then does something before whoever called hears that it failed. */
function lost<Args extends unknown[], Result>(
  call: (...given: Args) => Promise<Result>,
  meanwhile: () => Promise<void>,
) {
  let isFirst = true;
  return async (...given: Args): Promise<Result> => {
    const result = await call(...given);
    if (!isFirst) return result;
    isFirst = false;
    await meanwhile();
    throw new Error('the answer was lost');
  };
}

const clientFor = (port: NodeApprovals) => clientOf(port, { fileWithinMs: 20_000 });

const over = ({ port }: { port: NodeApprovals }, more: Partial<NodeApprovals>): NodeApprovals => ({
  open: port.open.bind(port),
  decided: port.decided.bind(port),
  waiting: port.waiting.bind(port),
  withdrawAll: port.withdrawAll.bind(port),
  claim: port.claim.bind(port),
  withdraw: port.withdraw.bind(port),
  ...more,
});

describe('a registry that is killed', () => {
  it('when a request is stored and not acknowledged has one request [approval.sms.killed]', async () => {
    const sms = await mortalSms();
    const open = lost(sms.port.open.bind(sms.port), sms.killed);
    const { promise: filed, resolve } = Promise.withResolvers<void>();
    const client = clientFor(
      over(sms, {
        open: async (...given) => {
          const approval = await open(...given);
          resolve();
          return approval;
        },
      }),
    );
    const answering = client.ask(questionOf());
    await filed;
    expect(await sms.list()).toMatchObject([{ status: 'waiting' }]);
    await sms.decided('allow_once');
    expect((await answering).decision).toBe('allow_once');
  });

  it.each(['allow_once', 'deny'])(
    'when %s is stored and not told, tells it [approval.sms.killed]',
    async (decision) => {
      const sms = await mortalSms();
      const { promise: isKilled, resolve: go } = Promise.withResolvers<void>();
      const { promise: watched, resolve: begun } = Promise.withResolvers<void>();
      const client = clientFor(
        over(sms, {
          async *decided(signal) {
            begun();
            await isKilled;
            yield* sms.port.decided(signal);
          },
        }),
      );
      const answering = client.ask(questionOf());
      await watched;
      await sms.decided(decision);
      await sms.killed();
      go();
      const answer = await answering;
      expect(answer).toMatchObject({ decision, reason: 'seen', decidedBy: 'bootstrap-admin' });
      expect(await sms.list()).toMatchObject([{ status: decision === 'deny' ? 'denied' : 'granted' }]);
      if (decision === 'deny') expect((await clientFor(sms.port).ask(questionOf())).reason).toBe('seen');
    },
  );

  it('when a claim is stored and not answered gives it to that claim alone [approval.sms.killed]', async () => {
    const sms = await mortalSms();
    const client = clientFor(over(sms, { claim: lost(sms.port.claim.bind(sms.port), sms.killed) }));
    const answering = client.ask(questionOf());
    const other = clientFor(sms.port).ask(questionOf());
    while ((await sms.list()).length === 0);
    await sms.decided('allow_once');
    const [mine, theirs] = [await answering, await other];
    expect(await mine.grant?.redeem(boundCall, args)).toBeNull();
    expect(await theirs.grant?.redeem(boundCall, args)).toMatchObject({ message: expect.stringContaining('used') });
    expect(await sms.list()).toMatchObject([{ status: 'used' }]);
  });
});
