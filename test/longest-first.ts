import { BaseSequencer, type TestSpecification } from 'vitest/node';

/**
 * Files that take about ten seconds or more, the longest first. They start before all others, so that
 * none is left to run alone at the end, beside cores with nothing to do.
 */
export const longest: readonly string[] = [
  'test/bench/check.test.ts',
  'test/torture/short.test.ts',
  'test/conformance/conformance.test.ts',
  'test/bench/bench.test.ts',
  'test/e2e/docs.test.ts',
  'test/mcp/new-era.test.ts',
  'test/pool/new-era.test.ts',
  'test/pool/process/start-kill-cycles.test.ts',
  'test/cli/doctor/causes.test.ts',
  'test/guest/component/binding-glue.test.ts',
  'test/queue/nats-queue.test.ts',
  'test/queue/nats-ownership.test.ts',
  'test/guest-examples/resources.test.ts',
  'test/guest/core/binding-shared.test.ts',
  'test/guest/component/binding-fast-lane.test.ts',
  'test/e2e/demo-cluster.test.ts',
  'test/e2e/package.test.ts',
  'test/cli/doctor/doctor.test.ts',
  'test/guest-examples/component-sdks.test.ts',
  'test/spearlet/registry-node.test.ts',
  'test/journal/killed.test.ts',
  'test/e2e/approval-prompt.test.ts',
  'test/pool/eras.test.ts',
  'test/load/component/limits.test.ts',
  'test/guest/component/lifecycle.test.ts',
  'test/e2e/waits.test.ts',
  'test/pool/http-servers.test.ts',
  'test/spearlet/cluster.test.ts',
  'test/e2e/registry-node.test.ts',
  'test/spearlet/approvals.test.ts',
  'test/console/changes.test.ts',
  'test/guest-examples/tour.test.ts',
  'test/run/run-deadline.test.ts',
  'test/audit/log.test.ts',
  'test/guest-examples/javascript-async.test.ts',
  'test/mcp/command-line.test.ts',
  'test/guest-examples/stream.test.ts',
  'test/cli/doctor/explain.test.ts',
  'test/guest-examples/rust.test.ts',
  'test/console/pages.test.ts',
  'test/run/run-leaks.test.ts',
  'test/journal/resume.test.ts',
  'test/cli/sms/spear-sms.test.ts',
  'test/mcp/toolbox.test.ts',
  'test/cli/spear/spear.test.ts',
  'test/e2e/backends.test.ts',
  'test/mcp/processes.test.ts',
  'test/guest-examples/answers.test.ts',
  'test/run/threads/guest-threads.test.ts',
  'test/sms/etcd/lost-members.test.ts',
  'test/e2e/start-up.test.ts',
  'test/console/runs.test.ts',
  'test/mcp/injection.test.ts',
  'test/support/engines/engines.test.ts',
  'test/console/approvals.test.ts',
  'test/pool/stdio-servers.test.ts',
  'test/e2e/exit-codes.test.ts',
  'test/mcp/audit.test.ts',
  'test/console/large.test.ts',
  'test/e2e/streams.test.ts',
  'test/sms/etcd/several-registries.test.ts',
  'test/e2e/isolation.test.ts',
  'test/load/component/prepare-component.test.ts',
  'test/console/login.test.ts',
  'test/hostcalls/errnos.test.ts',
  'test/e2e/canary.test.ts',
  'test/library/docs.test.ts',
  'test/pool/process/host-death.test.ts',
  'test/cli/run/audit-run.test.ts',
  'test/telemetry/spear-run.test.ts',
  'test/pool/progress.test.ts',
  'test/pool/offers.test.ts',
  'test/e2e/canary-sms.test.ts',
  'test/pool/schema/schemas.test.ts',
  'test/sms/large-import.test.ts',
  'test/console/hostile.test.ts',
  'test/journal/hostile.test.ts',
  'test/mcp/elicitation/elicitation.test.ts',
  'test/run/threads/both-threads.test.ts',
  'test/guest-examples/go.test.ts',
  'test/sms/tasks/tasks.test.ts',
  'test/e2e/approvals-sms.test.ts',
];

export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    return sorted.sort((a, b) => rank(a) - rank(b));
  }
}

function rank({ moduleId }: TestSpecification): number {
  const place = longest.findIndex((path) => moduleId.endsWith(`/${path}`));
  return place < 0 ? longest.length : place;
}
