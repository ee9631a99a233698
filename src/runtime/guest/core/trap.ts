import type { GuestEnding } from '../../port/port.ts';

const SUSPENDED_IN_START =
  'a blocking hostcall was made inside the start section of the module, where the guest cannot be suspended; ' +
  'move the call into _start or run (AssemblyScript: build with --exportStart _initialize)';

/** What ended the guest, with the frames of the guest alone: ours mean nothing to its author. */
export function describeTrap(error: unknown): GuestEnding {
  if (error instanceof WebAssembly.LinkError) return { kind: 'load_failed', message: error.message };
  const stack = error instanceof Error ? (error.stack ?? '') : '';
  const frames = stack.split('\n').filter((line) => line.includes('wasm://'));
  if (error instanceof WebAssembly.SuspendError) {
    return { kind: 'load_failed', message: SUSPENDED_IN_START };
  }
  const message = error instanceof Error ? error.message : 'uncaught exception in the guest';
  return { kind: 'trap', message, stack: frames.map((line) => line.trim()).join('\n') };
}
