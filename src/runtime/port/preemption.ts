/*
 * What the pass of turns adds to a module, and the thread that runs it gives: names that no guest can have for itself.
 */

/** The module of the imports. */
export const PREEMPTION_MODULE = 'spear:turns';
/** Of its imports: what is called when the guest is to give way, where that is said, and the guest's own memory. */
export const preemptionImports = { tick: 'tick', turns: 'turns', memory: 'memory' } as const;
/** The export that the start section became. */
export const START_EXPORT = 'spear:start';

/** In pages of 64 KiB. */
export interface MemoryPages {
  readonly initial: number;
  readonly maximum: number;
}

/** What must be done for a module that the pass went over. */
export interface Turns {
  /** To be made for it; null: it has none of its own. */
  readonly memory: MemoryPages | null;
  /** Whether {@link START_EXPORT} is to be called first. */
  readonly hasStart: boolean;
}
