// (module (func (export "trap") unreachable))
const bytes = Uint8Array.from([
  0x00, 0x61, 0x73, 0x6d, 0x01, 0x00, 0x00, 0x00, 0x01, 0x04, 0x01, 0x60, 0x00, 0x00, 0x03, 0x02, 0x01, 0x00, 0x07,
  0x08, 0x01, 0x04, 0x74, 0x72, 0x61, 0x70, 0x00, 0x00, 0x0a, 0x05, 0x01, 0x03, 0x00, 0x00, 0x0b,
]);

let trap: WebAssembly.GuestFunction | undefined;

/**
 * Throws a real WebAssembly trap. A guest's `catch_all` swallows any error of ours that passes through it, but never a
 * trap: this is how a guest is made to end.
 */
export function throwUncatchable(): never {
  trap ??= new WebAssembly.Instance(new WebAssembly.Module(bytes)).exports.trap as WebAssembly.GuestFunction;
  trap();
  throw new Error('unreachable was reached');
}

/** The same for what the guest did wrong, in words for its author and without the frame of our own. */
export function trapGuest(message: string): never {
  try {
    throwUncatchable();
  } catch (error) {
    const trapped = error as Error;
    trapped.message = message;
    trapped.stack = trapped.stack?.replace(/\n.*wasm:\/\/.*/, '') ?? message;
    throw trapped;
  }
}
