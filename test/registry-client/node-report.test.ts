import { expect, it } from 'vitest';
import { type NodeReport, NodeReporter } from '../../src/registry-client/node-report.ts';
import { FakeEnvironment, settled } from './fake-environment.ts';

const report: NodeReport = { nodeId: 'n', registryState: 'ready', epoch: '', snapshotRevision: 1, servers: [] };

interface Sent {
  readonly atMs: number;
  readonly signal: AbortSignal;
  answer(expiresAfterMs: number): void;
  fail(error: Error): void;
}

/** A reporter on a clock of its own, with a target that answers when the test says so. */
function start(intervalMs = 20_000) {
  const environment = new FakeEnvironment();
  const sent: Sent[] = [];
  const failures: string[] = [];
  const reporter = new NodeReporter({
    target: {
      report: (_, signal) => {
        const { promise, resolve, reject } = Promise.withResolvers<{ expiresAfterMs: number }>();
        signal.addEventListener('abort', () => reject(signal.reason));
        sent.push({
          atMs: environment.now(),
          signal,
          answer: (expiresAfterMs) => resolve({ expiresAfterMs }),
          fail: reject,
        });
        return promise;
      },
    },
    collect: () => report,
    intervalMs,
    environment,
    onFailure: (error) => failures.push(String(error)),
  });
  reporter.start();
  return { environment, sent, failures, reporter };
}

it('reports at an interval, and more often if the registry expires reports sooner', async () => {
  const { environment, sent, reporter } = start();
  await environment.advance(1_000);
  expect(sent).toHaveLength(1);
  sent[0]?.answer(60_000);
  await environment.advance(20_000);
  expect(sent).toHaveLength(2);
  sent[1]?.answer(9_000);
  await environment.advance(3_000);
  expect(sent).toHaveLength(3);
  await reporter.close();
});

it('combines changes in one report, and sends one report at a time', async () => {
  const { environment, sent, reporter } = start();
  await environment.advance(1_000);
  for (let i = 0; i < 10; i++) reporter.changed();
  await environment.advance(1_000);
  expect(sent).toHaveLength(1);
  sent[0]?.answer(60_000);
  await environment.advance(1_000);
  expect(sent).toHaveLength(2);
  await reporter.close();
});

it('retries a report that failed or timed out, with backoff', async () => {
  const { environment, sent, failures, reporter } = start();
  environment.randomValue = 1;
  await environment.advance(1_000);
  sent[0]?.fail(new Error('unreachable'));
  await environment.advance(499);
  expect(sent).toHaveLength(1);
  await environment.advance(1);
  expect(sent).toHaveLength(2);
  await environment.advance(5_000);
  expect(failures).toEqual(['Error: unreachable', 'Error: the report took longer than 5000 ms']);
  await environment.advance(999);
  expect(sent).toHaveLength(2);
  await environment.advance(1);
  expect(sent).toHaveLength(3);
  sent[2]?.answer(60_000);
  await environment.advance(19_999);
  expect(sent).toHaveLength(3);
  await environment.advance(1);
  expect(sent).toHaveLength(4);
  await reporter.close();
});

it('stops when it is closed, even during a report', async () => {
  const { environment, sent, failures, reporter } = start();
  await environment.advance(1_000);
  await reporter.close();
  expect(sent[0]?.signal.aborted).toBe(true);
  await settled();
  reporter.changed();
  expect(environment.pendingTimers).toBe(0);
  expect(failures).toEqual([]);
});
