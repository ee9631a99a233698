let crypto: typeof import('node:crypto') | undefined;

/** Loaded when the first guest asks: it would cost every other one some milliseconds of its start. */
export function fillRandom(bytes: NodeJS.ArrayBufferView): void {
  crypto ??= process.getBuiltinModule('node:crypto');
  crypto.randomFillSync(bytes);
}
