/** Import module of WASI preview 1, and the entry functions, of which a core module exports one. */
export const WASI_MODULE = 'wasi_snapshot_preview1';
export const ENTRIES = ['_start', 'run'] as const;

/** Problems with a known remedy; the command that shows the error words it. */
export type ModuleProblem = 'unknown_imports' | 'component_parts';

/** The module cannot run; the message is for its author. */
export class ModuleError extends Error {
  readonly problem: ModuleProblem | null;

  constructor(message: string, problem: ModuleProblem | null = null) {
    super(message);
    this.name = 'ModuleError';
    this.problem = problem;
  }
}

/** Why the host cannot call guest tools of this module. */
export const NO_FUNCTION_TABLE =
  'the module exports no function table, through which the host calls tools; link it with --export-table (asc: --exportTable)';
