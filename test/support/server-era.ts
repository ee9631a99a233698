import type { LegacyTrait } from '../era-parity.ts';

/** The era of MCP that the servers of the tests speak: before 2026-07-28, or that. */
export type ServerEra = 'legacy' | 'modern';

let current: ServerEra = 'legacy';

/** Chooses for the whole test file, before its tests are described. */
export function useEra(era: ServerEra): void {
  current = era;
}

export const serverEra = (): ServerEra => current;

/** What tells a fixture its era. */
export const eraEnvironment = (): Readonly<Record<string, string>> =>
  current === 'modern' ? { MCP_ERA: 'modern' } : {};

/** Whether the era has what a test is about. */
export const eraHas = (_trait: LegacyTrait): boolean => current === 'legacy';
