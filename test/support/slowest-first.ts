import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** The files of the second tier that use the most processor time, largest first. */
export const slowest: readonly string[] = [
  'test/torture/short.torture.test.ts',
  'test/bench/check.bench.test.ts',
  'test/bench/bench.bench.test.ts',
  'test/conformance/conformance.conformance.test.ts',
  'test/e2e/docs.docs.test.ts',
  'test/runtime/durable/killed.e2e.test.ts',
  'test/guest-examples/component-sdks.e2e.test.ts',
  'test/agent/mcp/new-era.e2e.test.ts',
  'test/agent/mcp/client/new-era.e2e.test.ts',
  'test/e2e/package.package.test.ts',
  'test/registry/runs/registry-runs.cluster.test.ts',
  'test/e2e/demo-cluster.cluster.test.ts',
  'test/node/parked-streams.cluster.test.ts',
  'test/server/store/etcd/security.cluster.test.ts',
  'test/agent/mcp/client/http-servers.e2e.test.ts',
  'test/runtime/guest/core/binding-shared.e2e.test.ts',
  'test/cli/doctor/doctor.e2e.test.ts',
  'test/runtime/guest/component/binding-glue.e2e.test.ts',
  'test/server/audit/log.e2e.test.ts',
  'test/runtime/guest/component/binding-fast-lane.e2e.test.ts',
  'test/agent/mcp/client/process/start-kill-cycles.e2e.test.ts',
  'test/guest-examples/go.e2e.test.ts',
  'test/node/approvals.e2e.test.ts',
  'test/agent/mcp/client/eras.e2e.test.ts',
  'test/guest-examples/answers.e2e.test.ts',
  'test/cli/doctor/causes.e2e.test.ts',
  'test/guest-examples/javascript-async.e2e.test.ts',
  'test/guest-examples/resources.e2e.test.ts',
  'test/e2e/registry-node.e2e.test.ts',
  'test/registry/large-import.e2e.test.ts',
  'test/guest-examples/tour.e2e.test.ts',
  'test/runtime/host/guest-threads.e2e.test.ts',
  'test/e2e/approval-prompt.e2e.test.ts',
  'test/node/cluster.cluster.test.ts',
  'test/cli/spear/spear.e2e.test.ts',
  'test/guest-examples/rust.e2e.test.ts',
  'test/agent/mcp/command-line.e2e.test.ts',
  'test/runtime/guest/component/lifecycle.e2e.test.ts',
  'test/e2e/streams.e2e.test.ts',
  'test/cli/doctor/explain.e2e.test.ts',
  'test/runtime/durable/resume.e2e.test.ts',
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
