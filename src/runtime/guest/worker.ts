import { type MessagePort, workerData } from 'node:worker_threads';
import type { DedicatedSpec, ThreadSpec } from '../port/guest-spec.ts';
import type { GuestStart, HostMessage } from '../port/port.ts';
import { ThreadPort } from './hostcalls/host-link.ts';
import { BlockingWindow, openOutput } from './hostcalls/output.ts';
import { RunningGuest } from './running-guest.ts';
import { noYieldPoints } from './scheduler.ts';
import { SharedThread } from './shared-thread.ts';

// A thread that runs guests, ended by the host at any moment.
const toHost = workerData as MessagePort;
toHost.once('message', ({ guest, shared }: ThreadSpec) => {
  const port = new ThreadPort(toHost);
  if (guest !== null) runAlone(port, guest);
  else if (shared !== null) new SharedThread(port, shared);
});

function runAlone(port: ThreadPort, spec: DedicatedSpec): void {
  const alone = 0;
  const guest = new RunningGuest(spec, {
    port,
    guest: alone,
    counts: spec.hostcallCounts,
    openOutput: (post) => openOutput(spec, post),
    replayWindow: spec.underway && new BlockingWindow(spec.underway, 'replayLog'),
    scope: null,
    yieldPoints: noYieldPoints,
  });
  port.attach(alone, {
    hear(message: HostMessage): void {
      const [, call, ...word] = message;
      if (call === 0) void guest.run(word as GuestStart).then(() => port.close());
      else guest.link.receive(message);
    },
  });
}
