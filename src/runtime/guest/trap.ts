import type { GuestEnding } from '../port/port.ts';

// (module (func (export "trap") unreachable))
const bytes = Uint8Array.from([
  0x00, 0x61, 0x73, 0x6d, 0x01, 0x00, 0x00, 0x00, 0x01, 0x04, 0x01, 0x60, 0x00, 0x00, 0x03, 0x02, 0x01, 0x00, 0x07,
  0x08, 0x01, 0x04, 0x74, 0x72, 0x61, 0x70, 0x00, 0x00, 0x0a, 0x05, 0x01, 0x03, 0x00, 0x00, 0x0b,
]);

let trap: WebAssembly.GuestFunction | undefined;

/**
 * Throws a real WebAssembly trap, which is how a guest is ended. A guest's `catch_all` can swallow any JavaScript error
 * that passes through it, but never a trap.
 */
export function throwTrap(): never {
  trap ??= new WebAssembly.Instance(new WebAssembly.Module(bytes)).exports.trap as WebAssembly.GuestFunction;
  trap();
  throw new Error('unreachable was reached');
}

/** Traps with a message for the guest's author, without the stack frame of this module. */
export function trapGuest(message: string): never {
  try {
    throwTrap();
  } catch (error) {
    const trapped = error as Error;
    trapped.message = message;
    trapped.stack = trapped.stack?.replace(/\n.*wasm:\/\/.*/, '') ?? message;
    throw trapped;
  }
}

const SUSPENDED_IN_START =
  'a blocking hostcall was made inside the start section of the module, where the guest cannot be suspended; ' +
  'move the call into _start or run (AssemblyScript: build with --exportStart _initialize)';

/** How the guest ended, with its own stack frames only: those of the host mean nothing to its author. */
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
