import { type MessagePort, workerData } from 'node:worker_threads';
import type { AloneSpec } from '../port/guest-spec.ts';
import type { GuestStart, HostMessage } from '../port/port.ts';
import type { ThreadSpec } from '../port/thread-spec.ts';
import { noTurns } from './guest-turns.ts';
import { openOutput } from './hostcalls/output.ts';
import { ThreadPort } from './hostcalls/thread-port.ts';
import { Underway } from './hostcalls/underway.ts';
import { RunningGuest } from './running-guest.ts';
import { SharedThread } from './shared-thread.ts';

// A thread that runs guests, ended by the host at any moment.
const toHost = workerData as MessagePort;
toHost.once('message', ({ guest, shared }: ThreadSpec) => {
  const port = new ThreadPort(toHost);
  if (guest !== null) runAlone(port, guest);
  else if (shared !== null) new SharedThread(port, shared);
});

function runAlone(port: ThreadPort, spec: AloneSpec): void {
  const alone = 0;
  const guest = new RunningGuest(spec, {
    port,
    guest: alone,
    counts: spec.hostcallCounts,
    openOutput: (post) => openOutput(spec, post),
    tapeUnderway: spec.underway && new Underway(spec.underway, 'tape'),
    leash: null,
    giveWay: noTurns,
  });
  port.attach(alone, {
    hear(message: HostMessage): void {
      const [, call, ...word] = message;
      if (call === 0) void guest.run(word as GuestStart).then(() => port.close());
      else guest.link.receive(message);
    },
  });
}
