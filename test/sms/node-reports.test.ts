import { expect, it } from 'vitest';
import type { NodeReport } from '../../src/registry/node-report.ts';
import { NodeReports, ReportRefused } from '../../src/sms/node-reports.ts';

const report = (nodeId: string, serverIds: readonly string[] = ['fs']): NodeReport => ({
  nodeId,
  registryState: 'ready',
  epoch: 'e',
  snapshotRevision: 1,
  servers: serverIds.map((serverId) => ({ serverId, health: 'idle', lastError: null, toolCount: null, reconnects: 0 })),
});

const limits = { expiresAfterMs: 1_000, maxNodes: 2, maxEntries: 4 };

it('forgets nodes that have gone silent, and only those', () => {
  let now = 0;
  const reports = new NodeReports(limits, () => now);
  reports.accept(report('a'));
  now = 600;
  reports.accept(report('b'));
  now = 900;
  expect(reports.nodes().map(({ nodeId, ageMs }) => [nodeId, ageMs])).toEqual([
    ['a', 900],
    ['b', 300],
  ]);
  now = 1_001;
  expect(reports.nodes().map(({ nodeId }) => nodeId)).toEqual(['b']);
  reports.accept(report('a'));
  now = 1_601;
  expect(reports.nodes().map(({ nodeId }) => nodeId)).toEqual(['a']);
  expect(reports.byServer().get('fs')).toHaveLength(1);
});

it('keeps a bounded number of nodes and servers, and has room again', () => {
  let now = 0;
  const reports = new NodeReports(limits, () => now);
  reports.accept(report('a', ['1', '2']));
  reports.accept(report('b', ['1', '2']));
  expect(() => reports.accept(report('c', []))).toThrow(ReportRefused);
  expect(() => reports.accept(report('b', ['1', '2', '3']))).toThrow(ReportRefused);
  // A refused report leaves the one before it.
  expect(reports.nodes().map(({ servers }) => servers.length)).toEqual([2, 2]);
  reports.accept(report('a', ['1']));
  reports.accept(report('b', ['1', '2', '3']));
  now = 2_000;
  reports.accept(report('c', ['1', '2', '3', '4']));
  expect(reports.count).toBe(1);
});
