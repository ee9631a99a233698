import { afterEach } from 'vitest';
import { TestGuest, type TestGuestOptions } from './test-guest.ts';

/** Opens guests that are closed when the test ends. */
export function useGuests(): (options?: TestGuestOptions) => Promise<TestGuest> {
  const open: TestGuest[] = [];
  afterEach(async () => {
    for (const guest of open.splice(0)) await guest.close();
  });
  return async (options) => {
    const guest = await TestGuest.open(options);
    open.push(guest);
    return guest;
  };
}
