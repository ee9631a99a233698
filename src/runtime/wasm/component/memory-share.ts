import { ModuleError } from '../../abi/guest-module.ts';
import type { Limits } from '../../port/limits.ts';
import { type Bounds, PAGE_BYTES } from '../bound-memory.ts';
import type { CompiledComponent } from './component-stages.ts';

/**
 * What the memories and tables of a component may grow to, so that all of them together stay inside the task's limits:
 * each has what it starts with, and what is left is divided evenly. A component of one core module has it all.
 */
export function shareLimits(
  { memories, tables }: Pick<CompiledComponent, 'memories' | 'tables'>,
  limits: Limits,
): Bounds {
  const pages = room(
    memories,
    Math.floor(limits.memory_bytes / PAGE_BYTES),
    (sum) => `starts with ${sum * PAGE_BYTES} bytes of memory, limits.memory_bytes is ${limits.memory_bytes}`,
  );
  const elements = room(
    tables,
    limits.table_elements,
    (sum) => `has tables of ${sum} entries, limits.table_elements is ${limits.table_elements}`,
  );
  return { maxPages: (min) => min + pages, maxElements: (min) => min + elements };
}

/** What each of some things may grow by. */
function room(starts: readonly number[], limit: number, complaint: (sum: number) => string): number {
  const sum = starts.reduce((total, min) => total + min, 0);
  if (sum > limit) throw new ModuleError(`the component ${complaint(sum)}`);
  return starts.length === 0 ? 0 : Math.floor((limit - sum) / starts.length);
}
