import { parentPort, workerData } from 'node:worker_threads';
import { WaitPoint } from '../fd/readiness.ts';
import { FdTable } from '../fd/table.ts';
import { GuestLog } from '../hostcalls/guest-log.ts';
import { HostLink } from '../hostcalls/host-link.ts';
import { openOutput } from '../hostcalls/output.ts';
import type { GuestSpec } from '../protocol/guest-spec.ts';
import { mcpParamCheck } from '../protocol/mcp-params.ts';
import type { ComponentStart } from '../protocol/port.ts';
import type { ComponentGuest } from './component/instance.ts';
import { type GuestRun, runCore } from './core/instance.ts';

// The guest thread: one instance, ended by the host at any moment. It knows no secret and no file.
const GUEST = 0;
const spec = workerData as GuestSpec;
if (!parentPort) throw new Error('the guest thread was not started as a worker');

const wait = new WaitPoint();
const link = new HostLink(parentPort, GUEST, wait);
const output = openOutput(spec, (stream, chunk) => link.tell(0, ['output', stream, chunk], [chunk.buffer]));
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

const requestStdin = (maxBytes: number, receive: (chunk: Uint8Array) => void) => {
  const call = link.call(['stdin', maxBytes], (reply) => {
    link.forget(call);
    receive(reply[0] === 'stdin' && reply[1] ? reply[1] : new Uint8Array());
  });
};

let readCounts = (): Readonly<Record<string, number>> => ({});

link.listen(async (reply) => {
  if (reply[0] === 'count') link.tell(0, ['counted', readCounts()]);
  if (reply[0] !== 'start' && reply[0] !== 'start_component') return;
  const shared = {
    args: spec.args,
    env: spec.env,
    output,
    counting: (read: typeof readCounts) => {
      readCounts = read;
    },
    state: {
      fds: new FdTable(spec.limits.max_fds),
      wait,
      link,
      limits: spec.limits,
      log,
      waitingTools: [],
      chatBytes: 0,
      closingSessions: 0,
      mcpBytes: 0,
      answerBytes: 0,
      checkMcpParam: mcpParamCheck(spec.mcpTask),
      depth: 0,
      notice,
    },
  };
  const { ending, hostcalls } =
    reply[0] === 'start'
      ? await runCore({ ...shared, module: reply[1], unknownImports: reply[2], readStdin })
      : await startComponent(shared, reply[1]);
  link.tell(0, ['ended', { ending, hostcalls, droppedLogLines: log.dropped }]);
  link.close();
});

const readStdin = (maxBytes: number) => new Promise<Uint8Array>((resolve) => requestStdin(maxBytes, resolve));

/** Loaded only for a component: a core module starts sooner without it. */
async function startComponent(
  shared: Omit<ComponentGuest, 'component' | 'stdin'>,
  component: ComponentStart,
): Promise<GuestRun> {
  const { runComponent } = await import('./component/instance.ts');
  return runComponent({ ...shared, component, stdin: { request: requestStdin, drain: () => link.drain() } });
}
