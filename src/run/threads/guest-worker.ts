import { MessageChannel, type MessagePort, Worker } from 'node:worker_threads';
import type { ThreadSpec } from '../../protocol/thread-spec.ts';

/** JavaScript objects of a guest thread; linear memory is bounded elsewhere. */
export const GUEST_HEAP_MB = 512;

/** Next to this file: TypeScript in a checkout, JavaScript in the package. */
const workerUrl = new URL(
  import.meta.url.endsWith('.ts') ? '../../guest/worker.ts' : './guest-worker.cjs',
  import.meta.url,
);

/** Starts a thread for guests. It gets an empty environment: the host's may hold keys. */
export function startWorker(
  spec: Omit<ThreadSpec, 'port'>,
  name: string,
  heapMb = GUEST_HEAP_MB,
  youngMb: number | null = null,
): { readonly worker: Worker; readonly port: MessagePort; readonly exited: Promise<void> } {
  const { port1, port2 } = new MessageChannel();
  const worker = new Worker(workerUrl, {
    workerData: { ...spec, port: port2 } satisfies ThreadSpec,
    transferList: [port2],
    env: {},
    execArgv: [],
    resourceLimits: {
      maxOldGenerationSizeMb: heapMb,
      ...(youngMb === null ? {} : { maxYoungGenerationSizeMb: youngMb }),
    },
    name,
  });
  return { worker, port: port1, exited: new Promise((resolve) => worker.once('exit', () => resolve())) };
}

/** What the end of a thread by an error means for its guests. */
export function threadFailure(error: NodeJS.ErrnoException, heapMb = GUEST_HEAP_MB) {
  if (error.code === 'ERR_WORKER_OUT_OF_MEMORY') {
    return { reason: 'memory', message: `the guest's objects took more than ${heapMb} MiB` } as const;
  }
  return { reason: 'internal', message: `the guest thread failed: ${error.message}` } as const;
}
