import { type MessagePort, workerData } from 'node:worker_threads';
import type { DedicatedSpec } from '../port/guest-spec.ts';
import type { GuestStart, HostMessage, ThreadSpec } from '../port/port.ts';
import { ThreadPort } from './hostcalls/host-link.ts';
import { BlockingWindow, openOutput } from './hostcalls/output.ts';
import { RunningGuest } from './running-guest.ts';
import { noYieldPoints } from './scheduler.ts';
import { SharedThread } from './shared-thread.ts';

// Entry of a guest thread, dedicated or shared. The host may terminate it at any moment.
const toHost = workerData as MessagePort;
toHost.once('message', ({ guest, shared }: ThreadSpec) => {
  const port = new ThreadPort(toHost);
  if (guest !== null) runDedicated(port, guest);
  else if (shared !== null) new SharedThread(port, shared);
});

const GUEST = 0;

function runDedicated(port: ThreadPort, spec: DedicatedSpec): void {
  const guest = new RunningGuest(spec, {
    port,
    guest: GUEST,
    counts: spec.hostcallCounts,
    openOutput: (post) => openOutput(spec, post),
    replayWindow: spec.unacknowledged && new BlockingWindow(spec.unacknowledged, 'journal'),
    scope: null,
    yieldPoints: noYieldPoints,
  });
  port.attach(GUEST, {
    receive(message: HostMessage): void {
      const [, call, ...start] = message;
      if (call === 0) void guest.run(start as GuestStart).then(() => port.close());
      else guest.link.receive(message);
    },
  });
}
