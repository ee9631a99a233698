import type { Report } from './report.ts';

/**
 * How many bare imports a hostcall may cost. About four times what was measured on a quiet machine: this is no race, it
 * catches the change that makes a call slow.
 */
export const ceilings: Readonly<Record<string, number>> = {
  bare: 1,
  spear_abi_version: 10,
  spear_feature: 90,
  time_now_ms: 60,
  wall_time_s: 60,
  random_i64: 40,
  log: 250,
  'cchat_create + cchat_close': 200,
  'cchat_write_msg, 64 bytes': 300,
  cchat_write_fn: 600,
  'cchat_write_tool_result, ENOENT': 200,
  'cchat_ctl SET_PARAM': 600,
  'cchat_ctl GET_METRICS': 150,
  cchat_recv: 60,
  cchat_read: 10,
  'spear_epoll_create + spear_epoll_close': 250,
  spear_epoll_ctl: 40,
  'spear_fd_ctl SET_FLAGS': 400,
  'spear_fd_ctl GET_STATUS': 1600,
  spear_fd_cancel: 20,
  user_stream_open: 10,
  rtasr_create: 10,
  'bare suspending': 1,
  'sleep_ms 0': 5,
  'spear_epoll_wait, ready': 40,
};

/** One send through the port and back, in bare imports. */
export const SEND_CEILING = 100_000;

/** `spear-run hello.wasm` in empty Nodes. */
export const START_UP_CEILING = 3;

/** What got too slow, one line each. */
export function exceeded({ hostcalls, sendRatio, startUp }: Report): string[] {
  const complaints = hostcalls.flatMap(({ name, ratio, against }) => {
    const ceiling = ceilings[name];
    if (ceiling === undefined) return [`${name} has no ceiling in bench/ceilings.ts`];
    return ratio > ceiling ? [`${name}: ${ratio.toFixed(1)} times ${against}, its ceiling is ${ceiling}`] : [];
  });
  if (sendRatio > SEND_CEILING) {
    complaints.push(`a send costs ${Math.round(sendRatio)} bare imports, its ceiling is ${SEND_CEILING}`);
  }
  const start = Math.min(startUp.ratio, startUp.fastestRatio);
  if (start > START_UP_CEILING) {
    complaints.push(`hello costs ${start.toFixed(2)} times an empty Node, its ceiling is ${START_UP_CEILING}`);
  }
  return complaints;
}
