import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** The files of the second tier that use the most processor time, largest first. */
export const slowest: readonly string[] = [
  'test/torture/short.torture.test.ts',
  'test/bench/check.bench.test.ts',
  'test/bench/bench.bench.test.ts',
  'test/conformance/conformance.conformance.test.ts',
  'test/e2e/docs.docs.test.ts',
  'test/journal/killed.e2e.test.ts',
  'test/guest-examples/component-sdks.e2e.test.ts',
  'test/mcp/new-era.e2e.test.ts',
  'test/pool/new-era.e2e.test.ts',
  'test/e2e/package.package.test.ts',
  'test/sms/runs/registry-runs.cluster.test.ts',
  'test/e2e/demo-cluster.cluster.test.ts',
  'test/spearlet/parked-streams.cluster.test.ts',
  'test/sms/etcd/security.cluster.test.ts',
  'test/pool/http-servers.e2e.test.ts',
  'test/guest/core/binding-shared.e2e.test.ts',
  'test/cli/doctor/doctor.e2e.test.ts',
  'test/guest/component/binding-glue.e2e.test.ts',
  'test/audit/log.e2e.test.ts',
  'test/guest/component/binding-fast-lane.e2e.test.ts',
  'test/pool/process/start-kill-cycles.e2e.test.ts',
  'test/guest-examples/go.e2e.test.ts',
  'test/spearlet/approvals.e2e.test.ts',
  'test/pool/eras.e2e.test.ts',
  'test/guest-examples/answers.e2e.test.ts',
  'test/cli/doctor/causes.e2e.test.ts',
  'test/guest-examples/javascript-async.e2e.test.ts',
  'test/guest-examples/resources.e2e.test.ts',
  'test/e2e/registry-node.e2e.test.ts',
  'test/sms/large-import.e2e.test.ts',
  'test/guest-examples/tour.e2e.test.ts',
  'test/run/threads/guest-threads.e2e.test.ts',
  'test/e2e/approval-prompt.e2e.test.ts',
  'test/spearlet/cluster.cluster.test.ts',
  'test/cli/spear/spear.e2e.test.ts',
  'test/guest-examples/rust.e2e.test.ts',
  'test/mcp/command-line.e2e.test.ts',
  'test/guest/component/lifecycle.e2e.test.ts',
  'test/e2e/streams.e2e.test.ts',
  'test/cli/doctor/explain.e2e.test.ts',
  'test/journal/resume.e2e.test.ts',
];

/** Starts the slowest files first, so that none of them runs alone at the end while the other cores are idle. */
export class SlowestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    return sorted.sort((a, b) => rank(a) - rank(b));
  }
}

function rank({ moduleId }: TestSpecification): number {
  const index = slowest.findIndex((path) => moduleId.endsWith(`/${path}`));
  return index < 0 ? slowest.length : index;
}
