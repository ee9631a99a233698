import { MessageChannel, type MessagePort, Worker } from 'node:worker_threads';
import { systemErrorOf } from '../../base/system-error.ts';
import type { DedicatedSpec, SharedThreadSpec, ThreadSpec } from '../port/guest-spec.ts';
import type { GuestLoss } from './run-result.ts';

/** JavaScript objects of a guest thread; linear memory is bounded elsewhere. */
export const GUEST_HEAP_MB = 512;

const OWN = 'spear-guest';
const SHARED = 'spear-guests';

/** Next to this file: TypeScript in a checkout, JavaScript in the package. */
const workerUrl = new URL(
  import.meta.url.endsWith('.ts') ? '../guest/worker.ts' : './guest-worker.cjs',
  import.meta.url,
);

export interface GuestWorker {
  readonly worker: Worker;
  readonly port: MessagePort;
  /** The error that it ended by, if it does. */
  readonly failed: Promise<NodeJS.ErrnoException>;
  readonly exited: Promise<void>;
}

/** Boots, and does not know for which guests. */
let early: GuestWorker | null = null;

/** A thread takes longer to boot than all else that a short run does: who knows that one will be needed begins with it. */
export function bootEarly(): void {
  early ??= boot(OWN, GUEST_HEAP_MB, null);
}

/** A thread for one guest. */
export function ownWorker(guest: DedicatedSpec): GuestWorker {
  const booted = early ?? boot(OWN, GUEST_HEAP_MB, null);
  early = null;
  return tell(booted, { guest, shared: null });
}

/** A thread that guests share. */
export function sharedWorker(shared: SharedThreadSpec, heapMb: number, youngMb: number): GuestWorker {
  return tell(boot(SHARED, heapMb, youngMb), { guest: null, shared });
}

function tell(booted: GuestWorker, spec: ThreadSpec): GuestWorker {
  booted.port.postMessage(spec);
  return booted;
}

/** It gets an empty environment: the host's may hold keys. */
function boot(name: string, heapMb: number, youngMb: number | null): GuestWorker {
  const { port1: port, port2 } = new MessageChannel();
  const worker = new Worker(workerUrl, {
    workerData: port2,
    transferList: [port2],
    env: {},
    execArgv: [],
    resourceLimits: {
      maxOldGenerationSizeMb: heapMb,
      ...(youngMb === null ? {} : { maxYoungGenerationSizeMb: youngMb }),
    },
    name,
  });
  const failed = new Promise<NodeJS.ErrnoException>((resolve) => worker.on('error', resolve));
  const exited = new Promise<void>((resolve) => worker.once('exit', () => resolve()));
  return { worker, port, failed, exited };
}

/** What the end of a thread by an error means for its guests. */
export function threadFailure(error: NodeJS.ErrnoException, heapMb = GUEST_HEAP_MB): GuestLoss {
  if (error.code === 'ERR_WORKER_OUT_OF_MEMORY') {
    return { reason: 'memory', message: `the JavaScript heap of the guest thread exceeded ${heapMb} MiB` } as const;
  }
  const systemError = systemErrorOf(error);
  return { reason: 'internal', message: `the guest thread failed: ${error.message}`, systemError } as const;
}
