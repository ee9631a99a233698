import { BaseSequencer, type TestSpecification } from 'vitest/node';

/**
 * Files that take about ten seconds or more, the longest first. They start before all others, so that
 * none is left to run alone at the end, beside cores with nothing to do.
 */
export const longest: readonly string[] = [
  'test/conformance/conformance.test.ts',
  'test/bench/check.test.ts',
  'test/torture/short.test.ts',
  'test/bench/bench.test.ts',
  'test/spearlet/cluster.test.ts',
  'test/queue/nats-queue.test.ts',
  'test/queue/nats-ownership.test.ts',
  'test/cli/doctor/doctor.test.ts',
  'test/guest/component/lifecycle.test.ts',
  'test/e2e/docs.test.ts',
  'test/console/changes.test.ts',
  'test/console/pages.test.ts',
  'test/console/hostile.test.ts',
  'test/spearlet/registry-node.test.ts',
  'test/audit/log.test.ts',
  'test/guest/core/binding-shared.test.ts',
  'test/guest/component/binding-fast-lane.test.ts',
  'test/run/threads/both-threads.test.ts',
  'test/run/threads/guest-threads.test.ts',
  'test/guest/component/binding-glue.test.ts',
  'test/e2e/package.test.ts',
  'test/journal/killed.test.ts',
  'test/journal/resume.test.ts',
  'test/journal/hostile.test.ts',
  'test/cli/spear/spear.test.ts',
  'test/e2e/approval-prompt.test.ts',
  'test/cli/doctor/causes.test.ts',
  'test/load/component/limits.test.ts',
  'test/pool/eras.test.ts',
  'test/guest-examples/component-sdks.test.ts',
  'test/guest-examples/go.test.ts',
  'test/guest-examples/answers.test.ts',
  'test/guest-examples/javascript-async.test.ts',
  'test/pool/process/host-death.test.ts',
  'test/e2e/canary-sms.test.ts',
  'test/e2e/registry-node.test.ts',
  'test/cli/sms/spear-sms.test.ts',
  'test/sms/tasks/tasks.test.ts',
  'test/run/run-deadline.test.ts',
  'test/run/run-leaks.test.ts',
  'test/mcp/command-line.test.ts',
  'test/guest-examples/rust.test.ts',
  'test/guest-examples/tour.test.ts',
  'test/console/approvals.test.ts',
  'test/console/large.test.ts',
  'test/console/login.test.ts',
  'test/e2e/waits.test.ts',
  'test/e2e/isolation.test.ts',
  'test/e2e/approvals-sms.test.ts',
  'test/cli/run/audit-run.test.ts',
  'test/pool/http-servers.test.ts',
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
