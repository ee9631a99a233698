import { MessageChannel, type MessagePort, Worker } from 'node:worker_threads';
import { systemErrorOf } from '../../base/errors.ts';
import type { DedicatedSpec } from '../port/guest-spec.ts';
import type { SharedThreadSpec, ThreadSpec } from '../port/port.ts';
import type { GuestLoss } from './run-result.ts';

/** JavaScript heap of a guest thread; linear memory is bounded by `limits.memory_bytes`. */
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
  /** Resolves with the error that ended the thread, if one does. */
  readonly failed: Promise<NodeJS.ErrnoException>;
  readonly exited: Promise<void>;
}

/** A dedicated thread that boots before its guest is known. */
let early: GuestWorker | null = null;

/** Starts booting a dedicated thread for the next guest: booting takes longer than the rest of a short run. */
export function bootEarly(): void {
  early ??= boot(OWN, GUEST_HEAP_MB, null);
}

/** A thread for one guest. */
export function ownWorker(guest: DedicatedSpec): GuestWorker {
  const booted = early ?? boot(OWN, GUEST_HEAP_MB, null);
  early = null;
  return configure(booted, { guest, shared: null });
}

/** A thread that guests share. */
export function sharedWorker(shared: SharedThreadSpec, heapMb: number, youngMb: number): GuestWorker {
  return configure(boot(SHARED, heapMb, youngMb), { guest: null, shared });
}

function configure(booted: GuestWorker, spec: ThreadSpec): GuestWorker {
  booted.port.postMessage(spec);
  return booted;
}

/** The environment is empty: that of the host may hold keys. */
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

/** The loss to report for guests of a thread that an error ended. */
export function threadFailure(error: NodeJS.ErrnoException, heapMb = GUEST_HEAP_MB): GuestLoss {
  if (error.code === 'ERR_WORKER_OUT_OF_MEMORY') {
    return { reason: 'memory', message: `the JavaScript heap of the guest thread exceeded ${heapMb} MiB` } as const;
  }
  const systemError = systemErrorOf(error);
  return { reason: 'internal', message: `the guest thread failed: ${error.message}`, systemError } as const;
}
