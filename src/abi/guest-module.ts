/** What a core module imports WASI from, and the exports of which it has one: what a toolchain makes of `main`, or `run`. */
export const WASI_MODULE = 'wasi_snapshot_preview1';
export const ENTRIES = ['_start', 'run'] as const;

/** A module that cannot run here, in words for the person who gave it. */
export class ModuleError extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'ModuleError';
  }
}
