import { expect, it } from 'vitest';
import { type Call, type CallName, calls, coreParams } from '../../../../src/runtime/abi/calls.ts';
import { fdCommand, newSession, SET_PARAM } from '../../../support/chat-calls.ts';
import { hasPointers } from '../../../support/guest-binding.ts';
import { useGuests } from '../../../support/use-guest.ts';

const [EBADF, EFAULT, EINVAL, EMSGSIZE] = [-9, -14, -22, -90];
const OUTSIDE = 0xffff_0000;
const NEVER_OPENED = 4242;
const openGuest = useGuests();

it('looks at the command before the pointers and the descriptor [abi.check-order]', async () => {
  const guest = await openGuest();
  expect(await guest.call('cchat_ctl', NEVER_OPENED, 99, OUTSIDE, OUTSIDE)).toBe(EINVAL);
  expect(await guest.call('spear_fd_ctl', NEVER_OPENED, 99, OUTSIDE, OUTSIDE)).toBe(EINVAL);
  expect(await guest.call('spear_epoll_ctl', NEVER_OPENED, 99, NEVER_OPENED, 0)).toBe(EINVAL);
});

const withDescriptorAndPointer = (calls as readonly Call[]).filter(
  ({ params, support }) =>
    support !== 'absent' &&
    params.some(({ kind }) => kind === 'fd') &&
    params.some(({ kind }) => kind === 'text' || kind === 'bytes' || kind === 'out' || kind === 'arg'),
);

it.each(hasPointers() ? withDescriptorAndPointer : [])(
  'looks at the pointers of $name before its descriptor [abi.check-order]',
  async (row) => {
    const guest = await openGuest();
    const args = coreParams(row).map((name) => (name === 'cmd' ? 1 : /_ptr$/.test(name) ? OUTSIDE : NEVER_OPENED));
    expect(await guest.call(row.name as CallName, ...args)).toBe(EFAULT);
  },
);

it('looks at the descriptor before what the arguments say [abi.check-order]', async () => {
  const guest = await openGuest({ limits: { max_message_bytes: 8, max_param_bytes: 16 } });
  const long = guest.text('x'.repeat(64));
  expect(await guest.call('cchat_write_msg', NEVER_OPENED, ...guest.text('user'), ...long)).toBe(EBADF);
  expect(await guest.call('cchat_write_fn', NEVER_OPENED, 0, ...long)).toBe(EBADF);
  expect(await guest.call('cchat_ctl', NEVER_OPENED, SET_PARAM, ...guest.heap.arg('{'))).toBe(EBADF);
  expect(await guest.call('spear_fd_ctl', NEVER_OPENED, fdCommand.SET_FLAGS, ...guest.heap.arg('{'))).toBe(EBADF);
  expect(await guest.call('cchat_send', NEVER_OPENED, 8)).toBe(EBADF);
});

it('does not read what is too long [abi.check-order]', async () => {
  const guest = await openGuest({ limits: { max_message_bytes: 8, max_param_bytes: 16 } });
  const fd = await newSession(guest);
  const notJson = 'x'.repeat(64);
  expect(await guest.call('cchat_write_fn', fd, 0, ...guest.text(notJson))).toBe(EMSGSIZE);
  expect(await guest.call('cchat_ctl', fd, SET_PARAM, ...guest.heap.arg(notJson))).toBe(EMSGSIZE);
});

it('does not look at the pointers of CLOSE: it has none [abi.check-order]', async () => {
  const guest = await openGuest();
  expect(await guest.call('spear_fd_ctl', await newSession(guest), fdCommand.CLOSE, OUTSIDE, OUTSIDE)).toBe(0);
});
