import { fdCommand, newEpoll, newSession, send } from '../../../../support/chat-calls.ts';
import type { TestGuest } from '../../../../support/test-guest.ts';
import { badClose, badDescriptors, casesOf, type ErrnoCase, NEVER_OPENED } from './errno-case.ts';
import { pending } from './situations.ts';

const ADD = 1;
const MOD = 2;
const DEL = 3;

export const epollErrnos: readonly ErrnoCase[] = [
  ...casesOf('spear_epoll_create', [
    'EMFILE',
    'max_fds descriptors are open',
    async (guest) => {
      await guest.call('cchat_create');
      return guest.call('spear_epoll_create');
    },
    { limits: { max_fds: 1 } },
  ]),

  ...badDescriptors('spear_epoll_ctl', 'sessions are of the wrong kind', async (guest, fd) =>
    guest.call('spear_epoll_ctl', fd, ADD, await guest.call('cchat_create'), 1),
  ),
  ...badDescriptors('spear_epoll_ctl', 'any open descriptor will do', async (guest, fd) =>
    guest.call('spear_epoll_ctl', await newEpoll(guest), ADD, fd, 1),
  ),
  ...casesOf(
    'spear_epoll_ctl',
    [
      'EINVAL',
      'the op is unknown',
      async (guest) => guest.call('spear_epoll_ctl', await newEpoll(guest), 0, await newSession(guest), 1),
    ],
    [
      'EINVAL',
      'the op is 4',
      async (guest) => guest.call('spear_epoll_ctl', await newEpoll(guest), 4, await newSession(guest), 1),
    ],
    [
      'EINVAL',
      'epfd is fd',
      async (guest) => {
        const epfd = await newEpoll(guest);
        return guest.call('spear_epoll_ctl', epfd, ADD, epfd, 1);
      },
    ],
    [
      'EINVAL',
      'the target is an epoll set',
      async (guest) => guest.call('spear_epoll_ctl', await newEpoll(guest), ADD, await newEpoll(guest), 1),
    ],
    [
      'ENOENT',
      'MOD of an fd that is not in the set',
      async (guest) => guest.call('spear_epoll_ctl', await newEpoll(guest), MOD, await newSession(guest), 1),
    ],
    [
      'ENOENT',
      'DEL of an fd that is not in the set',
      async (guest) => guest.call('spear_epoll_ctl', await newEpoll(guest), DEL, await newSession(guest), 1),
    ],
    [
      'ENOENT',
      'DEL for the second time',
      async (guest) => {
        const fd = await newSession(guest);
        const epfd = await newEpoll(guest, [fd, 1]);
        await guest.call('spear_epoll_ctl', epfd, DEL, fd, 0);
        return guest.call('spear_epoll_ctl', epfd, DEL, fd, 0);
      },
    ],
  ),

  ...badDescriptors('spear_epoll_wait', 'sessions are of the wrong kind', (guest, fd) =>
    guest.call('spear_epoll_wait', fd, ...guest.heap.out(64).args, 0),
  ),
  ...casesOf(
    'spear_epoll_wait',
    [
      'ENOSPC',
      'the capacity is 7',
      async (guest) => guest.call('spear_epoll_wait', await newEpoll(guest), ...guest.heap.out(7).args, 0),
    ],
    [
      'ENOSPC',
      'the capacity is 0',
      async (guest) => guest.call('spear_epoll_wait', await newEpoll(guest), ...guest.heap.out(0).args, -1),
    ],
  ),
  ...badClose('spear_epoll_close'),
];

const control = (guest: TestGuest, fd: number, command: number, capacity: number) =>
  guest.call('spear_fd_ctl', fd, command, ...guest.heap.out(capacity).args);

const setFlags = (guest: TestGuest, fd: number, json: string) =>
  guest.call('spear_fd_ctl', fd, fdCommand.SET_FLAGS, ...guest.heap.arg(json));

const invalidFlags: readonly [when: string, json: string][] = [
  ['it is not JSON', '{"set":'],
  ['it is not an object', '["O_NONBLOCK"]'],
  ['a flag is unknown', '{"set":["O_APPEND"]}'],
  ['a flag to clear is unknown', '{"clear":["O_APPEND"]}'],
  ['the flags are no list', '{"set":"O_NONBLOCK"}'],
];

export const fdErrnos: readonly ErrnoCase[] = [
  ...badDescriptors('spear_fd_ctl', 'any open descriptor will do', (guest, fd) => setFlags(guest, fd, '{}')),
  ...[fdCommand.GET_FLAGS, fdCommand.GET_KIND, fdCommand.GET_STATUS, fdCommand.GET_METRICS].flatMap((command) => [
    ...badDescriptors('spear_fd_ctl', 'any open descriptor will do', (guest, fd) => control(guest, fd, command, 64)),
    ...casesOf('spear_fd_ctl', [
      'ENOSPC',
      `command ${command} does not fit`,
      async (guest) => control(guest, await send(guest, await newSession(guest)), command, 1),
    ]),
  ]),
  ...casesOf(
    'spear_fd_ctl',
    [
      'EBADF',
      'CLOSE of an fd that never existed',
      (guest) => guest.call('spear_fd_ctl', NEVER_OPENED, fdCommand.CLOSE, 0, 0),
    ],
    [
      'EBADF',
      'GET_METRICS of a session',
      async (guest) => control(guest, await newSession(guest), fdCommand.GET_METRICS, 64),
    ],
    [
      'EBADF',
      'GET_METRICS of an epoll set',
      async (guest) => control(guest, await newEpoll(guest), fdCommand.GET_METRICS, 64),
    ],
    ['EINVAL', 'the command is 0', async (guest) => control(guest, await newSession(guest), 0, 64)],
    ['EINVAL', 'the command is 7', async (guest) => control(guest, await newSession(guest), 7, 64)],
    ...invalidFlags.map(([when, json]): [ErrnoCase['errno'], string, ErrnoCase['run']] => [
      'EINVAL',
      when,
      async (guest) => setFlags(guest, await newSession(guest), json),
    ]),
    [
      'EMSGSIZE',
      'the flags are too long',
      async (guest) => setFlags(guest, await newSession(guest), '{"set":["O_NONBLOCK"],"clear":[]}'),
      { limits: { max_param_bytes: 32 } },
    ],
    [
      'EAGAIN',
      'the response is pending',
      async (guest) => control(guest, await pending(guest), fdCommand.GET_METRICS, 1024),
    ],
  ),
  ...badDescriptors('spear_fd_cancel', 'any open descriptor will do', (guest, fd) => guest.call('spear_fd_cancel', fd)),
];
