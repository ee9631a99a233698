import { expect, it } from 'vitest';
import { NodeReports, ReportRefused } from '../../src/registry/node-reports.ts';
import { type NodeReport, toolListReport } from '../../src/registry-client/node-report.ts';

const report = (nodeId: string, serverIds: readonly string[] = ['fs']): NodeReport => ({
  nodeId,
  registryState: 'ready',
  epoch: 'e',
  snapshotRevision: 1,
  servers: serverIds.map((serverId) => ({ serverId, health: 'idle', lastError: null, toolCount: null, reconnects: 0 })),
});

const limits = { expiresAfterMs: 1_000, maxNodes: 2, maxProcesses: 2, maxEntries: 4, maxTools: 5 };

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

it('a node of one namespace does not replace the report of a node with the same id [sms.runs.reporter]', () => {
  const reports = new NodeReports(limits);
  reports.accept(report('m1:run-1', ['1', '2']));
  reports.accept(report('m1:run-1', []), 'team-a');
  expect(
    reports
      .nodes()
      .map(({ servers }) => servers.length)
      .sort(),
  ).toEqual([0, 2]);
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

it('counts the processes of a machine as one node, and keeps those that spoke last', () => {
  const reports = new NodeReports({ ...limits, maxNodes: 2 });
  for (const nodeId of ['m1:run-1', 'm1:run-2', 'm2:run-3']) reports.accept(report(nodeId));
  expect([reports.count, reports.processCount]).toEqual([2, 3]);
  expect(() => reports.accept(report('m3:run-4'))).toThrow(ReportRefused);
  reports.accept(report('m1:run-1'));
  reports.accept(report('m1:run-5'));
  expect(reports.nodes().map(({ nodeId }) => nodeId)).toEqual(['m1:run-1', 'm1:run-5', 'm2:run-3']);
});

const listOf = (...names: string[]) =>
  toolListReport(names.map((name) => ({ name, definitionSha256: 'a'.repeat(64) })));

function reportOfTools(nodeId: string, list: ReturnType<typeof listOf>, tells: boolean): NodeReport {
  const [server] = report(nodeId).servers;
  if (server === undefined) throw new Error('a report without servers');
  const servers = [{ ...server, toolsHash: list.hash, toolCount: list.tools.length }];
  return { ...report(nodeId), servers, toolLists: tells ? [list] : [] };
}

it('keeps a list of tools once, for as long as a report names it, and asks for the ones it lacks', () => {
  let now = 0;
  const reports = new NodeReports(limits, () => now);
  const list = listOf('read', 'write');
  expect(reports.accept(reportOfTools('a', list, false))).toEqual([list.hash]);
  expect(reports.accept(reportOfTools('a', list, true))).toEqual([]);
  // The second node need not tell what the first has told.
  expect(reports.accept(reportOfTools('b', list, false))).toEqual([]);
  const [view] = reports.ofServer('fs');
  expect(reports.toolsOf(view ?? {})).toEqual(list.tools);
  now = 900;
  reports.accept(reportOfTools('b', list, false));
  now = 1_500;
  expect(reports.nodes().map(({ nodeId }) => nodeId)).toEqual(['b']);
  expect(reports.toolsOf(view ?? {})).toEqual(list.tools);
  now = 2_000;
  expect(reports.nodes()).toEqual([]);
  expect(reports.toolsOf(view ?? {})).toBeNull();
});

it('neither keeps nor asks for a list that has no place', () => {
  const reports = new NodeReports(limits);
  const large = listOf('1', '2', '3', '4', '5', '6');
  expect(reports.accept(reportOfTools('a', large, true))).toEqual([]);
  expect(reports.toolsOf({ toolsHash: large.hash })).toBeNull();
});
