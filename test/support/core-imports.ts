import type { MessagePort } from 'node:worker_threads';
import { calls } from '../../src/abi/calls.ts';
import type { WaitPoint } from '../../src/fd/readiness.ts';
import type { Binding } from '../../src/guest/binding/marshal.ts';
import { bindCoreImports } from '../../src/guest/core/bind.ts';
import { HostLink } from '../../src/hostcalls/host-link.ts';
import type { HostcallTable } from '../../src/hostcalls/table.ts';
import { ThreadPort } from '../../src/hostcalls/thread-port.ts';

/** All imports of module `spear`. */
export function coreImports(table: HostcallTable, binding: Binding): Record<string, unknown> {
  const bind = bindCoreImports(table, binding);
  return Object.fromEntries(calls.map(({ name }) => [name, bind(name)]));
}

/** The link of the only guest of a thread. */
export function linkTo(port: MessagePort, wait: WaitPoint): HostLink {
  const threadPort = new ThreadPort(port);
  const link = new HostLink(threadPort, 0, wait);
  threadPort.attach(0, { hear: (message) => link.receive(message) });
  return link;
}
