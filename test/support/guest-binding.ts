/** How a guest of the tests is bound to its host: as a core module, or as a component in either lane. */
export type GuestBinding = 'core' | 'fast lane' | 'glue';

let current: GuestBinding = 'core';

/** Chooses for the whole test file, before its guests are described. */
export function useBinding(binding: GuestBinding): void {
  current = binding;
}

export const guestBinding = (): GuestBinding => current;

/** What a core module has and a component has not: pointers, buffers of its own, a function table. */
export const hasPointers = (): boolean => current === 'core';
export const hasCallbacks = (): boolean => current === 'core';
