import type { CallName } from '../../../../../src/runtime/abi/calls.ts';
import type { ErrnoName } from '../../../../../src/runtime/abi/errno.ts';
import type { TestGuest, TestGuestOptions } from '../../../../support/test-guest.ts';

/** One way to make a call fail. */
export interface ErrnoCase {
  readonly call: CallName;
  readonly errno: ErrnoName;
  readonly when: string;
  readonly options?: TestGuestOptions;
  /** The result of the call that fails. */
  readonly run: (guest: TestGuest) => Promise<number>;
}

export const NEVER_OPENED = 4242;

/** Of one call: its cases by errno. */
export function casesOf(
  call: CallName,
  ...cases: [errno: ErrnoName, when: string, run: ErrnoCase['run'], options?: TestGuestOptions][]
): ErrnoCase[] {
  return cases.map(([errno, when, run, options]) => ({ call, errno, when, run, ...(options && { options }) }));
}

/** The three kinds of a wrong descriptor: never opened, closed, and open but of a kind that the call does not take. */
export function badDescriptors(
  call: CallName,
  kinds: 'any open descriptor will do' | 'epolls are of the wrong kind' | 'sessions are of the wrong kind',
  run: (guest: TestGuest, fd: number) => Promise<number>,
): ErrnoCase[] {
  const cases = casesOf(
    call,
    ['EBADF', 'the fd was never opened', (guest) => run(guest, NEVER_OPENED)],
    ['EBADF', 'the fd is negative', (guest) => run(guest, -1)],
    [
      'EBADF',
      'the fd was closed',
      async (guest) => {
        const fd = await guest.call('cchat_create');
        await guest.call('cchat_close', fd);
        return run(guest, fd);
      },
    ],
  );
  if (kinds === 'epolls are of the wrong kind') {
    cases.push(
      ...casesOf(call, [
        'EBADF',
        'the fd is an Epoll',
        async (guest) => run(guest, await guest.call('spear_epoll_create')),
      ]),
    );
  }
  if (kinds === 'sessions are of the wrong kind') {
    cases.push(
      ...casesOf(call, [
        'EBADF',
        'the fd is a ChatSession',
        async (guest) => run(guest, await guest.call('cchat_create')),
      ]),
    );
  }
  return cases;
}

/** A `*_close` fails only for a number that was never handed out. */
export const badClose = (call: CallName): ErrnoCase[] =>
  casesOf(
    call,
    ['EBADF', 'the fd was never opened', (guest) => guest.call(call, NEVER_OPENED)],
    ['EBADF', 'the fd is the next one', async (guest) => guest.call(call, (await guest.call('cchat_create')) + 1)],
    ['EBADF', 'the fd is below the first one', (guest) => guest.call(call, 999)],
  );

export const noSys = (call: CallName, parameters: number): ErrnoCase[] =>
  casesOf(call, ['ENOSYS', 'always', (guest) => guest.call(call, ...Array<number>(parameters).fill(-1))]);
