import type { MessagePort } from 'node:worker_threads';
import { calls } from '../../src/runtime/abi/calls.ts';
import type { Binding } from '../../src/runtime/guest/binding/marshal.ts';
import { bindCoreImports } from '../../src/runtime/guest/core/bind.ts';
import type { WaitPoint } from '../../src/runtime/guest/descriptors/readiness.ts';
import { HostLink, ThreadPort } from '../../src/runtime/guest/hostcalls/host-link.ts';
import type { HostcallTable } from '../../src/runtime/guest/hostcalls/table.ts';

/** All imports of module `spear`. */
export function coreImports(table: HostcallTable, binding: Binding): Record<string, unknown> {
  const bind = bindCoreImports(table, binding);
  return Object.fromEntries(calls.map(({ name }) => [name, bind(name)]));
}

/** The link of the only guest of a thread. */
export function linkTo(port: MessagePort, wait: WaitPoint): HostLink {
  const threadPort = new ThreadPort(port);
  const link = new HostLink(threadPort, 0, wait);
  threadPort.attach(0, { receive: (message) => link.receive(message) });
  return link;
}
