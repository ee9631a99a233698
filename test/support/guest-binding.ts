/**
 * How a guest of the tests is bound to its host: as a core module, as one that shares its thread and gives way before
 * every call, or as a component in either lane.
 */
export type GuestBinding = 'core' | 'shared' | 'fast lane' | 'glue';

let current: GuestBinding = 'core';

/** Chooses for the whole test file, before its guests are described. */
export function useBinding(binding: GuestBinding): void {
  current = binding;
}

export const guestBinding = (): GuestBinding => current;

/** What a core module has and a component has not: pointers, buffers of its own, a function table. */
export const hasPointers = (): boolean => isCore(current);
export const hasCallbacks = (): boolean => isCore(current);

export const isCore = (binding: GuestBinding): boolean => binding === 'core' || binding === 'shared';
