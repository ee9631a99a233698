import { describe, expect, it } from 'vitest';
import { fdCommand, newSession, say, send, setNonblocking, setParam, writeTool } from '../../../support/chat-calls.ts';
import type { TestGuest } from '../../../support/test-guest.ts';
import { until } from '../../../support/until.ts';
import { useGuests } from '../../../support/use-guest.ts';

const [EMFILE, EMSGSIZE, ENOMEM] = [-24, -90, -12];
const openGuest = useGuests();

describe('a limit says by its name what stood in the way', () => {
  it('max_fds, of every kind that is opened [limits.notice]', async () => {
    const text = 'the guest has limits.max_fds = 1 descriptors open: EMFILE';
    for (const open of ['cchat_create', 'spear_epoll_create'] as const) {
      const guest = await openGuest({ limits: { max_fds: 1 } });
      await guest.call('spear_epoll_create');
      expect(await guest.call(open)).toBe(EMFILE);
      expect(guest.notices).toEqual([text]);
    }
    const guest = await openGuest({ limits: { max_fds: 1 } });
    expect(await guest.call('cchat_send', await newSession(guest), 0)).toBe(EMFILE);
    expect(guest.notices).toEqual([text]);
  });

  it('max_sessions, which counts open sessions only [limits.notice]', async () => {
    const guest = await openGuest({ limits: { max_sessions: 2 } });
    const first = await guest.call('cchat_create');
    await guest.call('cchat_create');
    await guest.call('spear_epoll_create');
    expect(await guest.call('cchat_create')).toBe(EMFILE);
    expect(guest.notices).toEqual(['the guest has limits.max_sessions = 2 chat sessions open: EMFILE']);
    await guest.call('cchat_close', first);
    expect(await guest.call('cchat_create')).toBeGreaterThan(first);
  });

  it('max_message_bytes, of messages and of tools [limits.notice]', async () => {
    const guest = await openGuest({ limits: { max_message_bytes: 20 } });
    const fd = await guest.call('cchat_create');
    expect(await say(guest, fd, 'user', 'x'.repeat(20))).toBe(0);
    expect(await say(guest, fd, 'user', 'x'.repeat(21))).toBe(EMSGSIZE);
    expect(await writeTool(guest, fd, 'n'.repeat(20), 1)).toBe(EMSGSIZE);
    expect(new Set(guest.notices)).toEqual(
      new Set(['a message is larger than limits.max_message_bytes = 20: EMSGSIZE']),
    );
  });

  it('the length of a role [limits.notice]', async () => {
    const guest = await openGuest();
    const fd = await guest.call('cchat_create');
    expect(await say(guest, fd, 'r'.repeat(4096), 'x')).toBe(0);
    expect(await say(guest, fd, 'r'.repeat(4097), 'x')).toBe(EMSGSIZE);
    expect(guest.notices).toEqual(['the role of a message is longer than 4096 bytes: EMSGSIZE']);
  });

  it('max_param_bytes, of parameters and of flags [limits.notice]', async () => {
    const text = 'a parameter is larger than limits.max_param_bytes = 24: EMSGSIZE';
    const guest = await openGuest({ limits: { max_param_bytes: 24 } });
    const fd = await guest.call('cchat_create');
    expect(await setParam(guest, fd, 'k', 'x'.repeat(2))).toBe(0);
    expect(await setParam(guest, fd, 'k', 'x'.repeat(3))).toBe(EMSGSIZE);
    const flags = guest.heap.arg('{"set":["O_NONBLOCK"],"clear":[]}');
    expect(await guest.call('spear_fd_ctl', fd, fdCommand.SET_FLAGS, ...flags)).toBe(EMSGSIZE);
    expect(guest.notices).toEqual([text, text]);
  });

  it('max_session_bytes, of messages, tools and parameters together [limits.notice]', async () => {
    const limits = { max_session_bytes: 512 };
    const text = 'a chat session holds limits.max_session_bytes = 512: ENOMEM';
    const writes = [
      (fd: number) => say(guest, fd, 'user', 'x'.repeat(100)),
      (fd: number) => writeTool(guest, fd, 'n'.repeat(100), 1),
      (fd: number) => setParam(guest, fd, 'user', 'x'.repeat(100)),
    ];
    const guest = await openGuest({ limits });
    const fd = await guest.call('cchat_create');
    for (const write of writes) expect(await write(fd)).toBe(0);
    for (const write of writes) expect(await write(fd)).toBe(ENOMEM);
    expect(guest.notices).toEqual([text, text, text]);
    // another session has room of its own
    expect(await writes[0]?.(await guest.call('cchat_create'))).toBe(0);
  });
});

describe('max_chat_bytes', () => {
  it('bounds all sessions together, and a closed one gives its part back', async () => {
    const guest = await openGuest({ limits: { max_chat_bytes: 512 } });
    const first = await guest.call('cchat_create');
    const second = await guest.call('cchat_create');
    expect(await say(guest, first, 'user', 'x'.repeat(300))).toBe(0);
    expect(await say(guest, second, 'user', 'x'.repeat(300))).toBe(ENOMEM);
    expect(guest.notices).toEqual(['the chat sessions hold limits.max_chat_bytes = 512 together: ENOMEM']);
    expect(await guest.call('cchat_close', first)).toBe(0);
    expect(await say(guest, second, 'user', 'x'.repeat(300))).toBe(0);
  });
});

describe('max_session_bytes', () => {
  it('counts bytes of UTF-8, not characters [limits.session]', async () => {
    const count = async (content: string) => {
      const guest = await openGuest({ limits: { max_session_bytes: 4096 }, pages: 32 });
      const fd = await guest.call('cchat_create');
      let written = 0;
      while ((await say(guest, fd, 'user', content)) === 0) written++;
      return written;
    };
    expect(await count('語'.repeat(100))).toBe(await count('x'.repeat(300)));
  });

  it('is used up by empty messages too: nothing grows without a bound [limits.session]', async () => {
    const guest = await openGuest({ limits: { max_session_bytes: 4096 } });
    const fd = await guest.call('cchat_create');
    let written = 0;
    while ((await guest.call('cchat_write_msg', fd, 0, 0, 0, 0)) === 0) written++;
    expect(written).toBeLessThanOrEqual(4096);
  });
});

describe('what the guest has closed and the host still holds', () => {
  /** A session that is closed while its send is pending. */
  async function abandon(guest: TestGuest, bytes: number): Promise<number> {
    const fd = await guest.call('cchat_create');
    if (fd < 0) return fd;
    await setNonblocking(guest, fd);
    const written = await say(guest, fd, 'user', 'x'.repeat(bytes));
    if (written < 0) return written;
    await guest.call('cchat_send', fd, 0);
    return guest.call('cchat_close', fd);
  }

  async function untilRefused(work: () => Promise<number>): Promise<number> {
    for (let times = 1; times <= 20; times++) {
      const rc = await work();
      if (rc < 0) return rc;
    }
    return 0;
  }

  it('counts towards max_chat_bytes until the host has let go of it', async () => {
    const guest = await openGuest({ limits: { max_chat_bytes: 4096 } });
    guest.backend.hold();
    expect(await untilRefused(() => abandon(guest, 1000))).toBe(ENOMEM);
    expect(guest.state.chatBytes).toBeGreaterThan(3000);
    await until(() => guest.state.link.unanswered === 0, 'the host to let go');
    expect(guest.state.chatBytes).toBe(0);
    expect(await abandon(guest, 1000)).toBe(0);
  });

  it('counts towards max_sessions as well', async () => {
    const guest = await openGuest({ limits: { max_sessions: 3 } });
    guest.backend.hold();
    expect(await untilRefused(() => abandon(guest, 1))).toBe(EMFILE);
    await until(() => guest.state.link.unanswered === 0, 'the host to let go');
    expect(guest.state.closingSessions).toBe(0);
    expect(await abandon(guest, 1)).toBe(0);
  });

  it('does not count where the host never had it', async () => {
    const guest = await openGuest({ limits: { max_sessions: 1, max_chat_bytes: 2048 } });
    for (let times = 0; times < 5; times++) {
      expect(await guest.call('cchat_close', await newSession(guest, 'x'.repeat(1000)))).toBe(0);
    }
  });
});

it('answers count until their descriptor is closed', async () => {
  const guest = await openGuest({ limits: { max_answer_bytes: 1 } });
  const fd = await newSession(guest);
  const response = await send(guest, fd);
  expect(await guest.call('cchat_send', fd, 0)).toBe(ENOMEM);
  expect(guest.notices).toEqual(['the guest keeps limits.max_answer_bytes = 1 of answers open: ENOMEM']);
  await guest.call('cchat_close', response);
  expect(guest.state.answerBytes).toBe(0);
  await send(guest, fd);
});
