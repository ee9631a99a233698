import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { RunRecord } from '../../src/server/records/run.ts';
import { onStop, startTestSms, stopAll, type TestSms, temporaryDirectory } from '../registry/running-sms.ts';
import { applyTask, hello, putBlob } from '../registry/tasks/task-calls.ts';
import { usual } from '../server/identity/oidc/oidc-config.ts';
import { type RealIssuer, startRealIssuer } from '../server/identity/oidc/real-issuer.ts';
import { NodeLives, writeNodeFolder } from '../torture/node/node-life.ts';

// A real issuer, a registry that knows it, and a node that knows it by the registry.

const AUDIENCE = 'https://spear.test/api';
const START_MS = 60_000;
const runsOf = (namespace: string) => `/v1/namespaces/${namespace}/tasks/hello/runs`;
let real: RealIssuer;
let sms: TestSms;
let node: NodeLives;

beforeAll(async () => {
  real = await startRealIssuer();
  onStop(() => real.end());
  sms = await startTestSms({ oidc: usual(real.issuer, `audiences = ["${AUDIENCE}"]`) });
  await putBlob(sms, hello);
  for (const namespace of ['default', 'team-a']) await applyTask(sms, { namespace, name: 'hello' });
  const folder = temporaryDirectory();
  writeNodeFolder(folder);
  node = new NodeLives(folder, [], ['--sms', sms.sms.grpc, '--sms-token', sms.nodeToken]);
  onStop(() => node.kill());
  await node.start();
}, START_MS);
afterAll(stopAll);

/** A program's access token. */
async function accessToken(resource = AUDIENCE): Promise<string> {
  const answer = await fetch(`${real.issuer}/token`, {
    method: 'POST',
    headers: { authorization: `Basic ${btoa('machine:canary-oidc-secret-0123456789')}` },
    body: new URLSearchParams({ grant_type: 'client_credentials', resource, scope: 'runs' }),
  });
  return ((await answer.json()) as { access_token: string }).access_token;
}

it(
  'lets in whom the issuer of its registry knows, with their roles, in their namespace [node.people.oidc]',
  async () => {
    const token = await accessToken();
    const ask = (method: string, path: string, shown = token) =>
      node.ask(method, path, {
        token: shown,
        headers: { prefer: 'wait=60' },
        ...(method === 'POST' ? { body: '' } : {}),
      });
    let answer = await ask('POST', runsOf('team-a'));
    // The task comes from the registry in its own time.
    for (; answer.status === 404; answer = await ask('POST', runsOf('team-a'))) await delay(20);
    expect([answer.status, answer.text]).toEqual([200, 'hello from C\n']);
    const { runs } = JSON.parse((await ask('GET', '/v1/namespaces/team-a/runs')).text) as { runs: RunRecord[] };
    expect(runs[0]).toMatchObject({ submitted_by: 'oidc:machine' });
    expect((await ask('POST', runsOf('default'))).status).toBe(403);
    expect((await ask('GET', `/v1/namespaces/team-a/runs/${runs[0]?.id}/journal`)).status).toBe(403);
    const forged = `${token.slice(0, -6)}AAAAAA`;
    expect((await ask('POST', runsOf('team-a'), forged)).status).toBe(401);
    expect(sms.logged.join() + node.log).not.toContain(token.slice(-40));

    // Keys that the registry has are good for a while.
    await real.end();
    expect((await ask('GET', '/v1/namespaces/team-a/runs')).status).toBe(200);
    await sms.sms.close();
    while ((await ask('GET', '/v1/namespaces/team-a/runs')).status === 200) await delay(100);
    const away = await ask('GET', '/v1/namespaces/team-a/runs');
    expect([away.status, away.text]).toEqual([503, expect.stringContaining('registry-unavailable')]);
  },
  START_MS,
);
