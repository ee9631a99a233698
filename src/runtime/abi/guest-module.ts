/** What a core module imports WASI from, and the exports of which it has one: what a toolchain makes of `main`, or `run`. */
export const WASI_MODULE = 'wasi_snapshot_preview1';
export const ENTRIES = ['_start', 'run'] as const;

/** What a person can do something about; the words for it are those of whoever shows the error. */
export type ModuleProblem = 'unknown_imports' | 'component_parts';

/** A module that cannot run here, in words for the person who gave it. */
export class ModuleError extends Error {
  readonly problem: ModuleProblem | null;

  constructor(message: string, problem: ModuleProblem | null = null) {
    super(message);
    this.name = 'ModuleError';
    this.problem = problem;
  }
}

/** Why a tool that a guest registered as a callback cannot be called. */
export const NO_FUNCTION_TABLE =
  'the module exports no function table, through which the host calls tools; link it with --export-table (asc: --exportTable)';
