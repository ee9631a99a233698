import { parentPort, workerData } from 'node:worker_threads';
import { WaitPoint } from '../fd/readiness.ts';
import { FdTable } from '../fd/table.ts';
import { GuestLog } from '../hostcalls/guest-log.ts';
import { HostLink } from '../hostcalls/host-link.ts';
import { FdOutput } from '../hostcalls/output.ts';
import { runCore } from './core/instance.ts';
import { mcpParamCheck } from './mcp-params.ts';
import type { GuestSpec } from './spec.ts';

// The guest thread: one instance, ended by the host at any moment. It knows no secret and no file.
const GUEST = 0;
const spec = workerData as GuestSpec;
if (!parentPort) throw new Error('the guest thread was not started as a worker');

const wait = new WaitPoint();
const link = new HostLink(parentPort, GUEST, wait);
const output = new FdOutput(spec.output);
const said = new Set<string>();
const notice = (text: string) => {
  if (said.has(text)) return;
  said.add(text);
  link.tell(0, ['notice', text]);
};
const log = new GuestLog(output, {
  verbose: spec.verbose,
  bytesPerSecond: spec.limits.log_bytes_per_second,
  now: () => performance.now(),
  onFirstDrop: () =>
    notice(
      `the guest logs more than limits.log_bytes_per_second = ${spec.limits.log_bytes_per_second}: lines are dropped`,
    ),
});

const readStdin = (maxBytes: number) =>
  new Promise<Uint8Array>((resolve) => {
    const call = link.call(['stdin', maxBytes], (reply) => {
      link.forget(call);
      resolve(reply[0] === 'stdin' && reply[1] ? reply[1] : new Uint8Array());
    });
  });

link.listen(async (reply) => {
  if (reply[0] !== 'start') return;
  const [, module, unknownImports] = reply;
  const { ending, hostcalls } = await runCore({
    module,
    unknownImports,
    args: spec.args,
    env: spec.env,
    output,
    readStdin,
    state: {
      fds: new FdTable(spec.limits.max_fds),
      wait,
      link,
      limits: spec.limits,
      log,
      waitingTools: [],
      chatBytes: 0,
      pendingMcp: new Set(),
      checkMcpParam: mcpParamCheck(spec.mcpTask),
      depth: 0,
      notice,
    },
  });
  link.tell(0, ['ended', { ending, hostcalls, droppedLogLines: log.dropped }]);
  link.close();
});
