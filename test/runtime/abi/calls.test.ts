import { describe, expect, it } from 'vitest';
import { abiVersion, type Call, calls, coreParams } from '../../../src/runtime/abi/calls.ts';
import { errno, errnoNames, Failure, fail } from '../../../src/runtime/abi/errno.ts';
import { hostcalls } from '../../../src/runtime/guest/hostcalls/all.ts';

const rows = calls as readonly Call[];

/** The calls and their core signatures as the contract has them, typed a second time on purpose. */
const contract: Readonly<Record<string, number>> = {
  spear_abi_version: 0,
  spear_feature: 2,
  time_now_ms: 0,
  wall_time_s: 0,
  random_i64: 0,
  sleep_ms: 1,
  log: 3,
  cchat_create: 0,
  cchat_write_msg: 5,
  cchat_write_fn: 4,
  cchat_write_tool_result: 5,
  cchat_ctl: 4,
  cchat_send: 2,
  cchat_recv: 3,
  cchat_read: 3,
  cchat_close: 1,
  mcp_open: 2,
  mcp_list_tools: 3,
  mcp_call_tool: 7,
  mcp_submit: 5,
  mcp_result: 3,
  mcp_close: 1,
  mcp_registry_list: 2,
  mcp_registry_get: 4,
  mcp_list_resources: 3,
  mcp_read_resource: 5,
  mcp_list_prompts: 3,
  mcp_get_prompt: 7,
  spear_epoll_create: 0,
  spear_epoll_ctl: 4,
  spear_epoll_wait: 4,
  spear_epoll_close: 1,
  spear_fd_ctl: 4,
  spear_fd_cancel: 1,
  user_stream_open: 2,
  user_stream_read: 3,
  user_stream_write: 3,
  user_stream_close: 1,
  user_stream_ctl_open: 0,
  user_stream_ctl_read: 3,
  rtasr_create: 0,
  rtasr_ctl: 4,
  rtasr_write: 3,
  rtasr_read: 3,
  rtasr_close: 1,
  mic_create: 0,
  mic_ctl: 4,
  mic_write: 3,
  mic_read: 3,
  mic_close: 1,
};

describe('the table of calls', () => {
  it('has every call of the ABI with its parameters, and no other [abi.table]', () => {
    expect(Object.fromEntries(rows.map((row) => [row.name, coreParams(row).length]))).toEqual(contract);
    expect(rows).toHaveLength(Object.keys(contract).length);
  });

  it('has i64 results for time and randomness, none for sleep_ms, i32 for the rest [abi.table]', () => {
    const results = (result: Call['result']) => rows.filter((row) => row.result === result).map(({ name }) => name);
    expect(results('i64')).toEqual(['time_now_ms', 'wall_time_s', 'random_i64']);
    expect(results('none')).toEqual(['sleep_ms']);
  });

  it('is what the host implements, call by call [abi.table]', () => {
    expect(Object.keys(hostcalls).sort()).toEqual(rows.map(({ name }) => name).sort());
    for (const handler of Object.values(hostcalls)) expect(handler).toBeTypeOf('function');
  });

  it('says of every errno why, and of every call what it does [abi.table]', () => {
    for (const { summary, errnos } of rows) {
      expect(summary).not.toBe('');
      for (const [name, cause] of Object.entries(errnos)) {
        expect(errnoNames).toContain(name);
        expect(cause).not.toBe('');
      }
    }
  });

  it('gives a call without an implementation one errno [abi.table]', () => {
    for (const { support, errnos } of rows.filter((row) => row.support === 'absent')) {
      expect([support, Object.keys(errnos)]).toEqual(['absent', ['ENOSYS']]);
    }
  });

  it('names the pointers of a call as the ABI page does [abi.table]', () => {
    const names = (name: string) => coreParams(rows.find((row) => row.name === name) as Call);
    expect(names('mcp_call_tool')).toEqual([
      'fd',
      'name_ptr',
      'name_len',
      'args_ptr',
      'args_len',
      'out_ptr',
      'out_len_ptr',
    ]);
    expect(names('cchat_ctl')).toEqual(['fd', 'cmd', 'arg_ptr', 'arg_len_ptr']);
    expect(names('spear_epoll_wait')).toEqual(['epfd', 'out_ptr', 'out_len_ptr', 'timeout_ms']);
  });

  it('has a version of 16 and 16 bits [abi.table]', () => {
    for (const part of [abiVersion.major, abiVersion.minor]) {
      expect(part).toBeGreaterThanOrEqual(0);
      expect(part).toBeLessThan(65_536);
    }
  });
});

describe('errnos', () => {
  it('have the numbers of Linux on every platform [abi.errno-numbers]', () => {
    expect(errno).toEqual({
      EPERM: 1,
      ENOENT: 2,
      EINTR: 4,
      EIO: 5,
      EBADF: 9,
      EAGAIN: 11,
      ENOMEM: 12,
      EACCES: 13,
      EFAULT: 14,
      EBUSY: 16,
      EEXIST: 17,
      EINVAL: 22,
      EMFILE: 24,
      ENOSPC: 28,
      EPIPE: 32,
      ENOSYS: 38,
      EMSGSIZE: 90,
      ECONNRESET: 104,
      ENOTCONN: 107,
      ETIMEDOUT: 110,
      ECANCELED: 125,
    });
  });

  it('are returned negative [abi.errno-numbers]', () => {
    for (const name of errnoNames) {
      expect(fail[name]).toBeInstanceOf(Failure);
      expect(fail[name]).toMatchObject({ name, returned: -errno[name] });
    }
  });
});
