/*
 * What the preemption pass adds to a module and the guest thread provides. Guests cannot import from this module name.
 */

export const PREEMPTION_MODULE = 'spear:turns';
/** Called at a yield point if a yield was requested; the memory with that request; the guest's own memory. */
export const preemptionImports = { tick: 'tick', turns: 'turns', memory: 'memory' } as const;
/** Export that replaces the start section. */
export const START_EXPORT = 'spear:start';

/** Sizes in pages of 64 KiB. */
export interface MemoryPages {
  readonly initial: number;
  readonly maximum: number;
}

/** What the thread must provide to an instrumented module. */
export interface Turns {
  /** Memory to create for the module; null: it defines none. */
  readonly memory: MemoryPages | null;
  /** Whether {@link START_EXPORT} must be called first. */
  readonly hasStart: boolean;
}
