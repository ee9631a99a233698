// The hostcalls for a guest written in AssemblyScript. Build with the options of asconfig.json beside this file:
//
//   asc guest.ts --config asconfig.json -o guest.wasm
//
// or, for a component, with those of asconfig.component.json and the steps of docs/guests/assemblyscript.md.
//
// The entry file exports `run(): i32`; what it returns is the exit code. The first part declares the ABI itself:
// a negative result is a Linux errno, text goes in as (ptr, len) in UTF-8, bytes come out through (out_ptr,
// out_len_ptr) with the capacity in *out_len_ptr. -ENOSPC: it holds the required size, and nothing was lost. The second part, from
// `print` on, is what most guests use. Its methods end the guest with a message if a call fails unexpectedly.

import * as component from "./spear-component";

export const ABI_MAJOR: i32 = 1;
export const ABI_MINOR: i32 = 1;

export const EPERM: i32 = 1;
export const ENOENT: i32 = 2;
export const EINTR: i32 = 4;
export const EIO: i32 = 5;
export const EBADF: i32 = 9;
export const EAGAIN: i32 = 11;
export const ENOMEM: i32 = 12;
export const EACCES: i32 = 13;
export const EFAULT: i32 = 14;
export const EBUSY: i32 = 16;
export const EEXIST: i32 = 17;
export const EINVAL: i32 = 22;
export const EMFILE: i32 = 24;
export const ENOSPC: i32 = 28;
export const EPIPE: i32 = 32;
export const ENOSYS: i32 = 38;
export const EMSGSIZE: i32 = 90;
export const ECONNRESET: i32 = 104;
export const ENOTCONN: i32 = 107;
export const ETIMEDOUT: i32 = 110;
export const ECANCELED: i32 = 125;

export const LOG_TRACE: i32 = 0;
export const LOG_DEBUG: i32 = 1;
export const LOG_INFO: i32 = 2;
export const LOG_WARN: i32 = 3;
export const LOG_ERROR: i32 = 4;

// Flags of cchat_send: collect metrics; let the host run the tool loop; end with the tool calls pending; return immediately
// and let cchat_read return the response as it arrives.
export const SEND_METRICS: i32 = 1;
export const SEND_AUTO_TOOL_CALL: i32 = 2;
export const SEND_HAND_BACK: i32 = 4;
export const SEND_STREAM: i32 = 8;
export const TOOL_HANDED_BACK: i32 = -1;

export const CHAT_SET_PARAM: i32 = 1;
export const CHAT_GET_METRICS: i32 = 2;

export const FD_SET_FLAGS: i32 = 1;
export const FD_GET_FLAGS: i32 = 2;
export const FD_GET_KIND: i32 = 3;
export const FD_GET_STATUS: i32 = 4;
export const FD_GET_METRICS: i32 = 5;
export const FD_CLOSE: i32 = 6;

// Operations and events of an epoll set. ERR and HUP are always reported.
export const EPOLL_CTL_ADD: i32 = 1;
export const EPOLL_CTL_MOD: i32 = 2;
export const EPOLL_CTL_DEL: i32 = 3;
export const EPOLLIN: i32 = 1;
export const EPOLLOUT: i32 = 4;
export const EPOLLERR: i32 = 8;
export const EPOLLHUP: i32 = 16;

export const STREAM_IN: i32 = 1;
export const STREAM_OUT: i32 = 2;
export const STREAM_BOTH: i32 = 3;
export const STREAM_CONNECTED: i32 = 1;
export const STREAM_CLOSED: i32 = 2;

// The calls themselves, documented in docs/abi.md. A module imports them from "spear", a component (SPEAR_COMPONENT is
// defined) from the interfaces of wit/spear.wit.
// generated from the call table: npm run docs
@external("spear", "spear_abi_version") declare function core_spear_abi_version(): i32;
@inline export function spear_abi_version(): i32 { return isDefined(SPEAR_COMPONENT) ? component.spear_abi_version() : core_spear_abi_version(); }
@external("spear", "spear_feature") declare function core_spear_feature(name_ptr: usize, name_len: u32): i32;
@inline export function spear_feature(name_ptr: usize, name_len: u32): i32 { return isDefined(SPEAR_COMPONENT) ? component.spear_feature(name_ptr, name_len) : core_spear_feature(name_ptr, name_len); }
@external("spear", "time_now_ms") declare function core_time_now_ms(): i64;
@inline export function time_now_ms(): i64 { return isDefined(SPEAR_COMPONENT) ? component.time_now_ms() : core_time_now_ms(); }
@external("spear", "wall_time_s") declare function core_wall_time_s(): i64;
@inline export function wall_time_s(): i64 { return isDefined(SPEAR_COMPONENT) ? component.wall_time_s() : core_wall_time_s(); }
@external("spear", "random_i64") declare function core_random_i64(): i64;
@inline export function random_i64(): i64 { return isDefined(SPEAR_COMPONENT) ? component.random_i64() : core_random_i64(); }
@external("spear", "sleep_ms") declare function core_sleep_ms(ms: i32): void;
@inline export function sleep_ms(ms: i32): void { if (isDefined(SPEAR_COMPONENT)) component.sleep_ms(ms); else core_sleep_ms(ms); }
@external("spear", "log") declare function core_log(level: i32, message_ptr: usize, message_len: u32): i32;
@inline export function log(level: i32, message_ptr: usize, message_len: u32): i32 { return isDefined(SPEAR_COMPONENT) ? component.log(level, message_ptr, message_len) : core_log(level, message_ptr, message_len); }
@external("spear", "cchat_create") declare function core_cchat_create(): i32;
@inline export function cchat_create(): i32 { return isDefined(SPEAR_COMPONENT) ? component.cchat_create() : core_cchat_create(); }
@external("spear", "cchat_write_msg") declare function core_cchat_write_msg(fd: i32, role_ptr: usize, role_len: u32, content_ptr: usize, content_len: u32): i32;
@inline export function cchat_write_msg(fd: i32, role_ptr: usize, role_len: u32, content_ptr: usize, content_len: u32): i32 { return isDefined(SPEAR_COMPONENT) ? component.cchat_write_msg(fd, role_ptr, role_len, content_ptr, content_len) : core_cchat_write_msg(fd, role_ptr, role_len, content_ptr, content_len); }
@external("spear", "cchat_write_fn") declare function core_cchat_write_fn(fd: i32, fn_offset: i32, json_ptr: usize, json_len: u32): i32;
@inline export function cchat_write_fn(fd: i32, fn_offset: i32, json_ptr: usize, json_len: u32): i32 { return isDefined(SPEAR_COMPONENT) ? component.cchat_write_fn(fd, fn_offset, json_ptr, json_len) : core_cchat_write_fn(fd, fn_offset, json_ptr, json_len); }
@external("spear", "cchat_write_tool_result") declare function core_cchat_write_tool_result(fd: i32, id_ptr: usize, id_len: u32, content_ptr: usize, content_len: u32): i32;
@inline export function cchat_write_tool_result(fd: i32, id_ptr: usize, id_len: u32, content_ptr: usize, content_len: u32): i32 { return isDefined(SPEAR_COMPONENT) ? component.cchat_write_tool_result(fd, id_ptr, id_len, content_ptr, content_len) : core_cchat_write_tool_result(fd, id_ptr, id_len, content_ptr, content_len); }
@external("spear", "cchat_ctl") declare function core_cchat_ctl(fd: i32, cmd: i32, arg_ptr: usize, arg_len_ptr: usize): i32;
@inline export function cchat_ctl(fd: i32, cmd: i32, arg_ptr: usize, arg_len_ptr: usize): i32 { return isDefined(SPEAR_COMPONENT) ? component.cchat_ctl(fd, cmd, arg_ptr, arg_len_ptr) : core_cchat_ctl(fd, cmd, arg_ptr, arg_len_ptr); }
@external("spear", "cchat_send") declare function core_cchat_send(fd: i32, flags: i32): i32;
@inline export function cchat_send(fd: i32, flags: i32): i32 { return isDefined(SPEAR_COMPONENT) ? component.cchat_send(fd, flags) : core_cchat_send(fd, flags); }
@external("spear", "cchat_recv") declare function core_cchat_recv(fd: i32, out_ptr: usize, out_len_ptr: usize): i32;
@inline export function cchat_recv(fd: i32, out_ptr: usize, out_len_ptr: usize): i32 { return isDefined(SPEAR_COMPONENT) ? component.cchat_recv(fd, out_ptr, out_len_ptr) : core_cchat_recv(fd, out_ptr, out_len_ptr); }
@external("spear", "cchat_read") declare function core_cchat_read(fd: i32, out_ptr: usize, out_len_ptr: usize): i32;
@inline export function cchat_read(fd: i32, out_ptr: usize, out_len_ptr: usize): i32 { return isDefined(SPEAR_COMPONENT) ? component.cchat_read(fd, out_ptr, out_len_ptr) : core_cchat_read(fd, out_ptr, out_len_ptr); }
@external("spear", "cchat_close") declare function core_cchat_close(fd: i32): i32;
@inline export function cchat_close(fd: i32): i32 { return isDefined(SPEAR_COMPONENT) ? component.cchat_close(fd) : core_cchat_close(fd); }
@external("spear", "mcp_open") declare function core_mcp_open(server_id_ptr: usize, server_id_len: u32): i32;
@inline export function mcp_open(server_id_ptr: usize, server_id_len: u32): i32 { return isDefined(SPEAR_COMPONENT) ? component.mcp_open(server_id_ptr, server_id_len) : core_mcp_open(server_id_ptr, server_id_len); }
@external("spear", "mcp_list_tools") declare function core_mcp_list_tools(fd: i32, out_ptr: usize, out_len_ptr: usize): i32;
@inline export function mcp_list_tools(fd: i32, out_ptr: usize, out_len_ptr: usize): i32 { return isDefined(SPEAR_COMPONENT) ? component.mcp_list_tools(fd, out_ptr, out_len_ptr) : core_mcp_list_tools(fd, out_ptr, out_len_ptr); }
@external("spear", "mcp_call_tool") declare function core_mcp_call_tool(fd: i32, name_ptr: usize, name_len: u32, args_ptr: usize, args_len: u32, out_ptr: usize, out_len_ptr: usize): i32;
@inline export function mcp_call_tool(fd: i32, name_ptr: usize, name_len: u32, args_ptr: usize, args_len: u32, out_ptr: usize, out_len_ptr: usize): i32 { return isDefined(SPEAR_COMPONENT) ? component.mcp_call_tool(fd, name_ptr, name_len, args_ptr, args_len, out_ptr, out_len_ptr) : core_mcp_call_tool(fd, name_ptr, name_len, args_ptr, args_len, out_ptr, out_len_ptr); }
@external("spear", "mcp_submit") declare function core_mcp_submit(fd: i32, name_ptr: usize, name_len: u32, args_ptr: usize, args_len: u32): i32;
@inline export function mcp_submit(fd: i32, name_ptr: usize, name_len: u32, args_ptr: usize, args_len: u32): i32 { return isDefined(SPEAR_COMPONENT) ? component.mcp_submit(fd, name_ptr, name_len, args_ptr, args_len) : core_mcp_submit(fd, name_ptr, name_len, args_ptr, args_len); }
@external("spear", "mcp_result") declare function core_mcp_result(fd: i32, out_ptr: usize, out_len_ptr: usize): i32;
@inline export function mcp_result(fd: i32, out_ptr: usize, out_len_ptr: usize): i32 { return isDefined(SPEAR_COMPONENT) ? component.mcp_result(fd, out_ptr, out_len_ptr) : core_mcp_result(fd, out_ptr, out_len_ptr); }
@external("spear", "mcp_close") declare function core_mcp_close(fd: i32): i32;
@inline export function mcp_close(fd: i32): i32 { return isDefined(SPEAR_COMPONENT) ? component.mcp_close(fd) : core_mcp_close(fd); }
@external("spear", "mcp_registry_list") declare function core_mcp_registry_list(out_ptr: usize, out_len_ptr: usize): i32;
@inline export function mcp_registry_list(out_ptr: usize, out_len_ptr: usize): i32 { return isDefined(SPEAR_COMPONENT) ? component.mcp_registry_list(out_ptr, out_len_ptr) : core_mcp_registry_list(out_ptr, out_len_ptr); }
@external("spear", "mcp_registry_get") declare function core_mcp_registry_get(server_id_ptr: usize, server_id_len: u32, out_ptr: usize, out_len_ptr: usize): i32;
@inline export function mcp_registry_get(server_id_ptr: usize, server_id_len: u32, out_ptr: usize, out_len_ptr: usize): i32 { return isDefined(SPEAR_COMPONENT) ? component.mcp_registry_get(server_id_ptr, server_id_len, out_ptr, out_len_ptr) : core_mcp_registry_get(server_id_ptr, server_id_len, out_ptr, out_len_ptr); }
@external("spear", "mcp_list_resources") declare function core_mcp_list_resources(fd: i32, out_ptr: usize, out_len_ptr: usize): i32;
@inline export function mcp_list_resources(fd: i32, out_ptr: usize, out_len_ptr: usize): i32 { return isDefined(SPEAR_COMPONENT) ? component.mcp_list_resources(fd, out_ptr, out_len_ptr) : core_mcp_list_resources(fd, out_ptr, out_len_ptr); }
@external("spear", "mcp_read_resource") declare function core_mcp_read_resource(fd: i32, uri_ptr: usize, uri_len: u32, out_ptr: usize, out_len_ptr: usize): i32;
@inline export function mcp_read_resource(fd: i32, uri_ptr: usize, uri_len: u32, out_ptr: usize, out_len_ptr: usize): i32 { return isDefined(SPEAR_COMPONENT) ? component.mcp_read_resource(fd, uri_ptr, uri_len, out_ptr, out_len_ptr) : core_mcp_read_resource(fd, uri_ptr, uri_len, out_ptr, out_len_ptr); }
@external("spear", "mcp_list_prompts") declare function core_mcp_list_prompts(fd: i32, out_ptr: usize, out_len_ptr: usize): i32;
@inline export function mcp_list_prompts(fd: i32, out_ptr: usize, out_len_ptr: usize): i32 { return isDefined(SPEAR_COMPONENT) ? component.mcp_list_prompts(fd, out_ptr, out_len_ptr) : core_mcp_list_prompts(fd, out_ptr, out_len_ptr); }
@external("spear", "mcp_get_prompt") declare function core_mcp_get_prompt(fd: i32, name_ptr: usize, name_len: u32, args_ptr: usize, args_len: u32, out_ptr: usize, out_len_ptr: usize): i32;
@inline export function mcp_get_prompt(fd: i32, name_ptr: usize, name_len: u32, args_ptr: usize, args_len: u32, out_ptr: usize, out_len_ptr: usize): i32 { return isDefined(SPEAR_COMPONENT) ? component.mcp_get_prompt(fd, name_ptr, name_len, args_ptr, args_len, out_ptr, out_len_ptr) : core_mcp_get_prompt(fd, name_ptr, name_len, args_ptr, args_len, out_ptr, out_len_ptr); }
@external("spear", "spear_epoll_create") declare function core_spear_epoll_create(): i32;
@inline export function spear_epoll_create(): i32 { return isDefined(SPEAR_COMPONENT) ? component.spear_epoll_create() : core_spear_epoll_create(); }
@external("spear", "spear_epoll_ctl") declare function core_spear_epoll_ctl(epfd: i32, op: i32, fd: i32, events: i32): i32;
@inline export function spear_epoll_ctl(epfd: i32, op: i32, fd: i32, events: i32): i32 { return isDefined(SPEAR_COMPONENT) ? component.spear_epoll_ctl(epfd, op, fd, events) : core_spear_epoll_ctl(epfd, op, fd, events); }
@external("spear", "spear_epoll_wait") declare function core_spear_epoll_wait(epfd: i32, out_ptr: usize, out_len_ptr: usize, timeout_ms: i32): i32;
@inline export function spear_epoll_wait(epfd: i32, out_ptr: usize, out_len_ptr: usize, timeout_ms: i32): i32 { return isDefined(SPEAR_COMPONENT) ? component.spear_epoll_wait(epfd, out_ptr, out_len_ptr, timeout_ms) : core_spear_epoll_wait(epfd, out_ptr, out_len_ptr, timeout_ms); }
@external("spear", "spear_epoll_close") declare function core_spear_epoll_close(epfd: i32): i32;
@inline export function spear_epoll_close(epfd: i32): i32 { return isDefined(SPEAR_COMPONENT) ? component.spear_epoll_close(epfd) : core_spear_epoll_close(epfd); }
@external("spear", "spear_fd_ctl") declare function core_spear_fd_ctl(fd: i32, cmd: i32, arg_ptr: usize, arg_len_ptr: usize): i32;
@inline export function spear_fd_ctl(fd: i32, cmd: i32, arg_ptr: usize, arg_len_ptr: usize): i32 { return isDefined(SPEAR_COMPONENT) ? component.spear_fd_ctl(fd, cmd, arg_ptr, arg_len_ptr) : core_spear_fd_ctl(fd, cmd, arg_ptr, arg_len_ptr); }
@external("spear", "spear_fd_cancel") declare function core_spear_fd_cancel(fd: i32): i32;
@inline export function spear_fd_cancel(fd: i32): i32 { return isDefined(SPEAR_COMPONENT) ? component.spear_fd_cancel(fd) : core_spear_fd_cancel(fd); }
@external("spear", "user_stream_open") declare function core_user_stream_open(stream_id: i32, direction: i32): i32;
@inline export function user_stream_open(stream_id: i32, direction: i32): i32 { return isDefined(SPEAR_COMPONENT) ? component.user_stream_open(stream_id, direction) : core_user_stream_open(stream_id, direction); }
@external("spear", "user_stream_read") declare function core_user_stream_read(fd: i32, out_ptr: usize, out_len_ptr: usize): i32;
@inline export function user_stream_read(fd: i32, out_ptr: usize, out_len_ptr: usize): i32 { return isDefined(SPEAR_COMPONENT) ? component.user_stream_read(fd, out_ptr, out_len_ptr) : core_user_stream_read(fd, out_ptr, out_len_ptr); }
@external("spear", "user_stream_write") declare function core_user_stream_write(fd: i32, frame_ptr: usize, frame_len: u32): i32;
@inline export function user_stream_write(fd: i32, frame_ptr: usize, frame_len: u32): i32 { return isDefined(SPEAR_COMPONENT) ? component.user_stream_write(fd, frame_ptr, frame_len) : core_user_stream_write(fd, frame_ptr, frame_len); }
@external("spear", "user_stream_close") declare function core_user_stream_close(fd: i32): i32;
@inline export function user_stream_close(fd: i32): i32 { return isDefined(SPEAR_COMPONENT) ? component.user_stream_close(fd) : core_user_stream_close(fd); }
@external("spear", "user_stream_ctl_open") declare function core_user_stream_ctl_open(): i32;
@inline export function user_stream_ctl_open(): i32 { return isDefined(SPEAR_COMPONENT) ? component.user_stream_ctl_open() : core_user_stream_ctl_open(); }
@external("spear", "user_stream_ctl_read") declare function core_user_stream_ctl_read(fd: i32, out_ptr: usize, out_len_ptr: usize): i32;
@inline export function user_stream_ctl_read(fd: i32, out_ptr: usize, out_len_ptr: usize): i32 { return isDefined(SPEAR_COMPONENT) ? component.user_stream_ctl_read(fd, out_ptr, out_len_ptr) : core_user_stream_ctl_read(fd, out_ptr, out_len_ptr); }
@external("spear", "rtasr_create") declare function core_rtasr_create(): i32;
@inline export function rtasr_create(): i32 { return isDefined(SPEAR_COMPONENT) ? component.rtasr_create() : core_rtasr_create(); }
@external("spear", "rtasr_ctl") declare function core_rtasr_ctl(fd: i32, cmd: i32, arg_ptr: usize, arg_len_ptr: usize): i32;
@inline export function rtasr_ctl(fd: i32, cmd: i32, arg_ptr: usize, arg_len_ptr: usize): i32 { return isDefined(SPEAR_COMPONENT) ? component.rtasr_ctl(fd, cmd, arg_ptr, arg_len_ptr) : core_rtasr_ctl(fd, cmd, arg_ptr, arg_len_ptr); }
@external("spear", "rtasr_write") declare function core_rtasr_write(fd: i32, data_ptr: usize, data_len: u32): i32;
@inline export function rtasr_write(fd: i32, data_ptr: usize, data_len: u32): i32 { return isDefined(SPEAR_COMPONENT) ? component.rtasr_write(fd, data_ptr, data_len) : core_rtasr_write(fd, data_ptr, data_len); }
@external("spear", "rtasr_read") declare function core_rtasr_read(fd: i32, out_ptr: usize, out_len_ptr: usize): i32;
@inline export function rtasr_read(fd: i32, out_ptr: usize, out_len_ptr: usize): i32 { return isDefined(SPEAR_COMPONENT) ? component.rtasr_read(fd, out_ptr, out_len_ptr) : core_rtasr_read(fd, out_ptr, out_len_ptr); }
@external("spear", "rtasr_close") declare function core_rtasr_close(fd: i32): i32;
@inline export function rtasr_close(fd: i32): i32 { return isDefined(SPEAR_COMPONENT) ? component.rtasr_close(fd) : core_rtasr_close(fd); }
@external("spear", "mic_create") declare function core_mic_create(): i32;
@inline export function mic_create(): i32 { return isDefined(SPEAR_COMPONENT) ? component.mic_create() : core_mic_create(); }
@external("spear", "mic_ctl") declare function core_mic_ctl(fd: i32, cmd: i32, arg_ptr: usize, arg_len_ptr: usize): i32;
@inline export function mic_ctl(fd: i32, cmd: i32, arg_ptr: usize, arg_len_ptr: usize): i32 { return isDefined(SPEAR_COMPONENT) ? component.mic_ctl(fd, cmd, arg_ptr, arg_len_ptr) : core_mic_ctl(fd, cmd, arg_ptr, arg_len_ptr); }
@external("spear", "mic_write") declare function core_mic_write(fd: i32, data_ptr: usize, data_len: u32): i32;
@inline export function mic_write(fd: i32, data_ptr: usize, data_len: u32): i32 { return isDefined(SPEAR_COMPONENT) ? component.mic_write(fd, data_ptr, data_len) : core_mic_write(fd, data_ptr, data_len); }
@external("spear", "mic_read") declare function core_mic_read(fd: i32, out_ptr: usize, out_len_ptr: usize): i32;
@inline export function mic_read(fd: i32, out_ptr: usize, out_len_ptr: usize): i32 { return isDefined(SPEAR_COMPONENT) ? component.mic_read(fd, out_ptr, out_len_ptr) : core_mic_read(fd, out_ptr, out_len_ptr); }
@external("spear", "mic_close") declare function core_mic_close(fd: i32): i32;
@inline export function mic_close(fd: i32): i32 { return isDefined(SPEAR_COMPONENT) ? component.mic_close(fd) : core_mic_close(fd); }
// end of the generated part

@external("wasi_snapshot_preview1", "fd_write") declare function fd_write(fd: i32, iovs: usize, count: u32, written: usize): i32;
@external("wasi_snapshot_preview1", "args_sizes_get") declare function args_sizes_get(count: usize, bytes: usize): i32;
@external("wasi_snapshot_preview1", "args_get") declare function args_get(pointers: usize, bytes: usize): i32;

// Scratch for out-parameters. Read it before the next host call: a tool that runs inside a call uses it too.
const slots: usize = memory.data(16, 8);

function write(fd: i32, text: string): void {
  const bytes = String.UTF8.encode(text);
  let sent: u32 = 0;
  while (sent < <u32>bytes.byteLength) {
    store<u32>(slots, <u32>changetype<usize>(bytes) + sent);
    store<u32>(slots, <u32>bytes.byteLength - sent, 4);
    if (fd_write(fd, slots, 1, slots + 8) != 0) return;
    sent += load<u32>(slots, 8);
  }
}

/** The host takes the line ends off a log line, so each line is one. */
function logLines(level: i32, text: string): void {
  const lines = text.split("\n");
  for (let i = 0; i < lines.length; i++) logText(level, lines[i]);
}

/** One line on stdout. A component without WASI has only the log, whose lines of this level go there. */
export function print(line: string): void {
  if (isDefined(SPEAR_COMPONENT)) logLines(LOG_INFO, line);
  else write(1, line + "\n");
}

/** One line on stderr. */
export function printError(line: string): void {
  if (isDefined(SPEAR_COMPONENT)) logLines(LOG_ERROR, line);
  else write(2, line + "\n");
}

export function logText(level: i32, text: string): void {
  const bytes = String.UTF8.encode(text);
  log(level, changetype<usize>(bytes), bytes.byteLength);
}

/** The arguments of the guest, its name first. A component that asks for them gets the adapter of WASI, some KiB. */
export function commandLine(): string[] {
  if (args_sizes_get(slots, slots + 4) != 0) return [];
  const count = load<u32>(slots);
  const memoryOfArgs = heap.alloc(count * 4 + load<u32>(slots, 4));
  const list: string[] = [];
  if (args_get(memoryOfArgs, memoryOfArgs + count * 4) == 0) {
    for (let i: u32 = 0; i < count; i++) {
      const start = <usize>load<u32>(memoryOfArgs + i * 4);
      let end = start;
      while (load<u8>(end) != 0) end++;
      list.push(String.UTF8.decodeUnsafe(start, end - start));
    }
  }
  heap.free(memoryOfArgs);
  return list;
}

/** What asconfig.json puts in the place of AssemblyScript's own abort: a line on stderr, then a trap with the wasm stack. */
export function abort(message: string | null, file: string | null, line: u32, column: u32): void {
  const where = (file === null ? "?" : file) + ":" + line.toString() + ":" + column.toString();
  logText(LOG_ERROR, (message === null ? "aborted" : message) + " (" + where + ")");
  unreachable();
}

/** Returns the result; ends the guest if it is an errno. */
export function expect(result: i32, call: string): i32 {
  if (result < 0) throw new Error(call + " failed with errno " + (-result).toString());
  return result;
}

/** A JSON string, including quotes and escapes. */
export function quote(text: string): string {
  let quoted = '"';
  for (let i = 0; i < text.length; i++) {
    const c = text.charCodeAt(i);
    if (c == 0x22) quoted += '\\"';
    else if (c == 0x5c) quoted += "\\\\";
    else if (c == 0x0a) quoted += "\\n";
    else if (c < 0x20) quoted += "\\u" + c.toString(16).padStart(4, "0");
    else quoted += String.fromCharCode(c);
  }
  return quoted + '"';
}

/** Reads JSON in place. A value that is missing or malformed is a Json whose `exists` is false, so that paths can be followed blindly. */
export class Json {
  private constructor(private source: string, private start: i32) {}

  static parse(source: string): Json {
    return new Json(source, skipSpace(source, 0));
  }

  get exists(): bool {
    return this.start >= 0 && this.start < this.source.length;
  }

  /** The value at a path such as "choices[0].message.content". */
  at(path: string): Json {
    let start = this.start;
    let i = 0;
    while (i < path.length && start >= 0) {
      if (path.charCodeAt(i) == 0x5b) {
        const close = path.indexOf("]", i);
        start = close < 0 ? -1 : child(this.source, start, null, I32.parseInt(path.substring(i + 1, close)));
        i = close + 1;
      } else {
        if (path.charCodeAt(i) == 0x2e) i++;
        let end = i;
        while (end < path.length && path.charCodeAt(end) != 0x2e && path.charCodeAt(end) != 0x5b) end++;
        start = child(this.source, start, path.substring(i, end), 0);
        i = end;
      }
    }
    return new Json(this.source, start);
  }

  /** The items of an array. */
  items(): Json[] {
    const list: Json[] = [];
    for (let at = child(this.source, this.start, null, 0); at >= 0; at = child(this.source, this.start, null, list.length)) {
      list.push(new Json(this.source, at));
    }
    return list;
  }

  get isText(): bool {
    return this.exists && this.source.charCodeAt(this.start) == 0x22 && valueEnd(this.source, this.start) > 0;
  }

  /** The string at a path, or the fallback if there is none. */
  text(path: string = "", fallback: string = ""): string {
    const value = this.at(path);
    return value.isText ? unquote(this.source, value.start) : fallback;
  }

  number(path: string = "", fallback: f64 = NaN): f64 {
    const value = this.at(path);
    if (!value.exists) return fallback;
    const first = this.source.charCodeAt(value.start);
    return first == 0x2d || (first >= 0x30 && first <= 0x39) ? F64.parseFloat(value.raw()) : fallback;
  }

  isTrue(path: string = ""): bool {
    return this.at(path).raw() == "true";
  }

  /** The value as it is in the source. */
  raw(): string {
    const end = this.exists ? valueEnd(this.source, this.start) : -1;
    return end < 0 ? "" : this.source.substring(this.start, end);
  }
}

function skipSpace(source: string, at: i32): i32 {
  while (at < source.length) {
    const c = source.charCodeAt(at);
    if (c != 0x20 && c != 0x0a && c != 0x0d && c != 0x09) break;
    at++;
  }
  return at;
}

function charAt(source: string, at: i32): i32 {
  return at < source.length ? source.charCodeAt(at) : 0;
}

/** Where the value that starts here ends, or -1. */
function valueEnd(source: string, at: i32): i32 {
  let depth = 0;
  do {
    const c = charAt(source, at);
    if (c == 0x22) {
      for (at++; charAt(source, at) != 0x22; at++) {
        if (charAt(source, at) == 0x5c) at++;
        if (at >= source.length) return -1;
      }
      at++;
    } else if (c == 0x7b || c == 0x5b) {
      depth++;
      at++;
    } else if (c == 0x7d || c == 0x5d) {
      depth--;
      at++;
    } else if (depth > 0 && (c == 0x2c || c == 0x3a)) {
      at++;
    } else {
      const start = at;
      while (at < source.length && !isDelimiter(source.charCodeAt(at))) at++;
      if (at == start) return -1;
    }
    if (depth > 0) at = skipSpace(source, at);
  } while (depth > 0);
  return depth < 0 ? -1 : at;
}

function isDelimiter(c: i32): bool {
  return c == 0x22 || c == 0x7b || c == 0x7d || c == 0x5b || c == 0x5d || c == 0x2c || c == 0x3a || c == 0x20 || c == 0x0a || c == 0x0d || c == 0x09;
}

/** The member of an object with this name, or the index-th item of an array: where it starts, or -1. */
function child(source: string, parent: i32, name: string | null, index: i32): i32 {
  if (parent < 0 || charAt(source, parent) != (name === null ? 0x5b : 0x7b)) return -1;
  let at = skipSpace(source, parent + 1);
  for (let i = 0; at < source.length; i++) {
    const c = source.charCodeAt(at);
    if (c == 0x7d || c == 0x5d) return -1;
    let wanted = i == index;
    if (name !== null) {
      const end = valueEnd(source, at);
      if (end < 0 || c != 0x22) return -1;
      wanted = unquote(source, at) == name;
      at = skipSpace(source, end);
      if (charAt(source, at) != 0x3a) return -1;
      at = skipSpace(source, at + 1);
    }
    if (wanted) return at;
    at = valueEnd(source, at);
    if (at < 0) return -1;
    at = skipSpace(source, at);
    if (charAt(source, at) == 0x2c) at = skipSpace(source, at + 1);
  }
  return -1;
}

/** The text of the string that starts here and is known to end. */
function unquote(source: string, start: i32): string {
  let text = "";
  let from = start + 1;
  let at = from;
  for (let c = charAt(source, at); c != 0x22 && at < source.length; c = charAt(source, at)) {
    if (c != 0x5c) {
      at++;
      continue;
    }
    text += source.substring(from, at);
    const escape = charAt(source, at + 1);
    at += 2;
    if (escape == 0x75) {
      text += String.fromCharCode(I32.parseInt(source.substring(at, at + 4), 16));
      at += 4;
    } else if (escape == 0x6e) text += "\n";
    else if (escape == 0x74) text += "\t";
    else if (escape == 0x72) text += "\r";
    else if (escape == 0x62) text += "\b";
    else if (escape == 0x66) text += "\f";
    else text += String.fromCharCode(escape);
    from = at;
  }
  return text + source.substring(from, at);
}

/** A call that writes to an out-buffer, for one descriptor: cchat_recv, mcp_list_tools, mcp_result. */
export type Reader = (fd: i32, out_ptr: usize, out_len_ptr: usize) => i32;

/** What the last `readText` got: a length, or a negative errno. */
export let lastRead: i32 = 0;

/** The whole output of a reader for this descriptor, of any length; "" and the errno in `lastRead` if it fails. */
export function readText(reader: Reader, fd: i32): string {
  let capacity: u32 = 4096;
  while (true) {
    const out = heap.alloc(capacity);
    store<u32>(slots, capacity);
    lastRead = reader(fd, out, slots);
    const text = lastRead < 0 ? "" : String.UTF8.decodeUnsafe(out, lastRead);
    heap.free(out);
    if (lastRead != -ENOSPC) return text;
    capacity = load<u32>(slots);
  }
}

/** The table index of a function of this type is what the host calls. See `ToolCall` for what to do inside. */
export type ToolFunction = (args_ptr: usize, args_len: u32, out_ptr: usize, out_len_ptr: usize) => i32;

/**
 * One call of a guest tool:
 *
 *   function double(args_ptr: usize, args_len: u32, out_ptr: usize, out_len_ptr: usize): i32 {
 *     const call = new ToolCall(args_ptr, args_len, out_ptr, out_len_ptr);
 *     return call.reply((call.args.number("n") * 2).toString());
 *   }
 */
export class ToolCall {
  /** The arguments as the model wrote them. */
  readonly source: string;
  readonly args: Json;

  constructor(args_ptr: usize, args_len: u32, private out_ptr: usize, private out_len_ptr: usize) {
    const source = String.UTF8.decodeUnsafe(args_ptr, args_len);
    this.source = source;
    this.args = Json.parse(source);
  }

  /** Returns the output. If it is too large for the host's buffer, the host calls the tool again with a larger one. */
  reply(text: string): i32 {
    const bytes = String.UTF8.encode(text);
    const capacity = load<u32>(this.out_len_ptr);
    store<u32>(this.out_len_ptr, bytes.byteLength);
    if (<u32>bytes.byteLength > capacity) return -ENOSPC;
    memory.copy(this.out_ptr, changetype<usize>(bytes), bytes.byteLength);
    return 0;
  }
}

const DEFAULT_ARENA_BYTES: u32 = 65536;

export class ChatSession {
  readonly fd: i32 = expect(cchat_create(), "cchat_create");
  private arena: usize = 0;

  say(role: string, content: string): void {
    const roleBytes = String.UTF8.encode(role);
    const bytes = String.UTF8.encode(content);
    expect(cchat_write_msg(this.fd, changetype<usize>(roleBytes), roleBytes.byteLength, changetype<usize>(bytes), bytes.byteLength), "cchat_write_msg");
  }

  /** json is the value as JSON: `0.2`, `true`, `quote("gpt-5")`. */
  param(key: string, json: string): void {
    const bytes = String.UTF8.encode('{"key":' + quote(key) + ',"value":' + json + "}");
    store<u32>(slots, bytes.byteLength);
    expect(cchat_ctl(this.fd, CHAT_SET_PARAM, changetype<usize>(bytes), slots), "cchat_ctl " + key);
  }

  /** Memory in which the host passes arguments and reads outputs; `tool` sets it by default, to 64 KiB. */
  setArena(bytes: u32): void {
    if (this.arena != 0) heap.free(this.arena);
    this.arena = heap.alloc(bytes);
    this.param("tool_arena_ptr", this.arena.toString());
    this.param("tool_arena_len", bytes.toString());
  }

  /** json: {"name":…,"description":…,"parameters":{…}}. */
  tool(run: ToolFunction, json: string): void {
    if (this.arena == 0) this.setArena(DEFAULT_ARENA_BYTES);
    this.writeTool(run.index, json);
  }

  /** A tool without a function: send with SEND_HAND_BACK, set the results of `ChatResponse.pending` and send again. */
  handedBackTool(json: string): void {
    this.writeTool(TOOL_HANDED_BACK, json);
  }

  private writeTool(index: i32, json: string): void {
    const bytes = String.UTF8.encode(json);
    expect(cchat_write_fn(this.fd, index, changetype<usize>(bytes), bytes.byteLength), "cchat_write_fn");
  }

  toolResult(id: string, content: string): void {
    const idBytes = String.UTF8.encode(id);
    const bytes = String.UTF8.encode(content);
    expect(cchat_write_tool_result(this.fd, changetype<usize>(idBytes), idBytes.byteLength, changetype<usize>(bytes), bytes.byteLength), "cchat_write_tool_result");
  }

  /** From now on `send` returns immediately: wait for the response with an Epoll. */
  setNonblocking(): void {
    const bytes = String.UTF8.encode('{"set":["O_NONBLOCK"],"clear":[]}');
    store<u32>(slots, bytes.byteLength);
    expect(spear_fd_ctl(this.fd, FD_SET_FLAGS, changetype<usize>(bytes), slots), "spear_fd_ctl");
  }

  send(flags: i32 = 0): ChatResponse {
    return new ChatResponse(expect(cchat_send(this.fd, flags), "cchat_send"));
  }

  /** Sends and streams the response. The tools of a module run inside `next`; in a component they are handed back. */
  stream(flags: i32 = 0): ChatStream {
    return new ChatStream(this.send(flags | SEND_STREAM));
  }

  close(): void {
    cchat_close(this.fd);
    if (this.arena != 0) heap.free(this.arena);
    this.arena = 0;
  }
}

/** The text of a message: its content, which may consist of parts, or else its refusal; null if it has neither. */
export function messageText(message: Json): string | null {
  const content = message.at("content");
  let text = content.text("");
  const parts = content.items();
  for (let i = 0; i < parts.length; i++) text += parts[i].text("text", parts[i].text("refusal"));
  if (text.length == 0) text = message.text("refusal");
  return text.length > 0 || content.isText || parts.length > 0 ? text : null;
}

export class ChatResponse {
  constructor(readonly fd: i32) {}

  /** The whole body; "" while it is pending or after it was canceled, with the errno in `lastRead`. */
  body(): string {
    return readText(cchat_recv, this.fd);
  }

  get failed(): bool {
    return messageText(Json.parse(this.body()).at("choices[0].message")) === null;
  }

  /** The text of the model, including a refusal, or an error message: always a displayable text. */
  answer(): string {
    const body = Json.parse(this.body());
    const noAnswer = "no answer in the response (cchat_recv: " + lastRead.toString() + ")";
    const said = messageText(body.at("choices[0].message"));
    return said === null ? body.text("error.message", noAnswer) : said;
  }

  /** Tool calls handed back by SEND_HAND_BACK: objects with id, name and arguments. */
  pending(): Json[] {
    return Json.parse(this.body()).at("_spear.pending_tool_calls").items();
  }

  cancel(): void {
    spear_fd_cancel(this.fd);
  }

  close(): void {
    cchat_close(this.fd);
  }
}

/** Iterates over the events of a streamed send. */
export class ChatStream {
  private lines: string[] = [];
  private at: i32 = 0;

  constructor(readonly response: ChatResponse) {}

  /** Waits for the next event, an object with `type`; null after the last, or with a negative errno in `lastRead`. */
  next(): Json | null {
    if (this.at == this.lines.length) {
      this.lines = readText(cchat_read, this.response.fd).split("\n");
      this.lines.pop(); // each line has its end
      this.at = 0;
      if (this.lines.length == 0) return null;
    }
    return Json.parse(this.lines[this.at++]);
  }
}

export class EpollEvent {
  constructor(readonly fd: i32, readonly events: i32) {}
}

export class Epoll {
  readonly fd: i32 = expect(spear_epoll_create(), "spear_epoll_create");

  add(fd: i32, events: i32): void {
    expect(spear_epoll_ctl(this.fd, EPOLL_CTL_ADD, fd, events), "spear_epoll_ctl ADD");
  }

  modify(fd: i32, events: i32): void {
    expect(spear_epoll_ctl(this.fd, EPOLL_CTL_MOD, fd, events), "spear_epoll_ctl MOD");
  }

  remove(fd: i32): void {
    expect(spear_epoll_ctl(this.fd, EPOLL_CTL_DEL, fd, 0), "spear_epoll_ctl DEL");
  }

  /** At most 64 ready descriptors. timeoutMs below 0 waits without limit, 0 polls. */
  wait(timeoutMs: i32): EpollEvent[] {
    const out = heap.alloc(64 * 8 + 4);
    store<u32>(out, 64 * 8);
    const count = expect(spear_epoll_wait(this.fd, out + 4, out, timeoutMs), "spear_epoll_wait");
    const list: EpollEvent[] = [];
    for (let i = 0; i < count; i++) list.push(new EpollEvent(load<i32>(out + 4 + i * 8), load<i32>(out + 8 + i * 8)));
    heap.free(out);
    return list;
  }

  close(): void {
    spear_epoll_close(this.fd);
  }
}

/** A call that is executed once: mcp_call_tool, mcp_get_prompt. */
type Once = (fd: i32, name_ptr: usize, name_len: u32, args_ptr: usize, args_len: u32, out_ptr: usize, out_len_ptr: usize) => i32;

function readOnce(fd: i32, uri_ptr: usize, uri_len: u32, args_ptr: usize, args_len: u32, out_ptr: usize, out_len_ptr: usize): i32 {
  return mcp_read_resource(fd, uri_ptr, uri_len, out_ptr, out_len_ptr);
}

/** Of any length: after ENOSPC the same call fetches the stored result. */
function askOnce(ask: Once, fd: i32, name: string, args: string, what: string): string {
  const named = String.UTF8.encode(name);
  const bytes = String.UTF8.encode(args);
  let capacity: u32 = 4096;
  while (true) {
    const out = heap.alloc(capacity);
    store<u32>(slots, capacity);
    const rc = ask(fd, changetype<usize>(named), named.byteLength, changetype<usize>(bytes), bytes.byteLength, out, slots);
    const text = rc < 0 ? "" : String.UTF8.decodeUnsafe(out, rc);
    heap.free(out);
    if (rc != -ENOSPC) {
      expect(rc, what + name);
      return text;
    }
    capacity = load<u32>(slots);
  }
}

/** An MCP server that the guest calls itself. */
export class McpServer {
  readonly fd: i32;

  constructor(id: string) {
    const bytes = String.UTF8.encode(id);
    this.fd = expect(mcp_open(changetype<usize>(bytes), bytes.byteLength), "mcp_open " + id);
  }

  /** `{"server_id":…,"tools":[{description, inputSchema, name}]}` */
  tools(): string {
    const text = readText(mcp_list_tools, this.fd);
    expect(lastRead, "mcp_list_tools");
    return text;
  }

  /** Calls a tool with a JSON object and waits. A call that is denied or fails is a result, `{"error":{code, message}}`. */
  call(tool: string, args: string = "{}"): string {
    return askOnce(mcp_call_tool, this.fd, tool, args, "mcp_call_tool ");
  }

  /** `{"resources":[{name, uri, …}],"server_id":…,"templates":[{name, uriTemplate, …}]}`: what this guest may read. */
  resources(): string {
    const text = readText(mcp_list_resources, this.fd);
    expect(lastRead, "mcp_list_resources");
    return text;
  }

  /** Reads a resource and waits: `{"contents":[…]}`, or `{"error":{code, message}}`. */
  read(uri: string): string {
    return askOnce(readOnce, this.fd, uri, "", "mcp_read_resource ");
  }

  /** `{"prompts":[{arguments, name, …}],"server_id":…}`: what this guest may get. */
  prompts(): string {
    const text = readText(mcp_list_prompts, this.fd);
    expect(lastRead, "mcp_list_prompts");
    return text;
  }

  /** Gets a prompt with a JSON object of strings: `{"messages":[…]}`, or `{"error":{code, message}}`. */
  prompt(name: string, args: string = "{}"): string {
    return askOnce(mcp_get_prompt, this.fd, name, args, "mcp_get_prompt ");
  }

  /** Starts a call without waiting: several calls can run concurrently. */
  submit(tool: string, args: string = "{}"): McpCall {
    const name = String.UTF8.encode(tool);
    const bytes = String.UTF8.encode(args);
    return new McpCall(expect(mcp_submit(this.fd, changetype<usize>(name), name.byteLength, changetype<usize>(bytes), bytes.byteLength), "mcp_submit " + tool));
  }

  close(): void {
    mcp_close(this.fd);
  }
}

/** A submitted call. An Epoll can wait for its descriptor. */
export class McpCall {
  constructor(readonly fd: i32) {}

  /** Waits for the result. */
  result(): string {
    const text = readText(mcp_result, this.fd);
    expect(lastRead, "mcp_result");
    return text;
  }

  cancel(): void {
    spear_fd_cancel(this.fd);
  }

  close(): void {
    mcp_close(this.fd);
  }
}

/** A frame of a user stream. Type, flags and sequence are defined by you and the client. */
export class Frame {
  type: u16 = 0;
  flags: u16 = 0;
  sequence: u64 = 0;
  meta: Uint8Array = new Uint8Array(0);
  data: Uint8Array = new Uint8Array(0);
}

const FRAME_HEADER: i32 = 32;
const FRAME_MAX: i32 = 262144;

/** A stream of frames between this guest and a client of its run. */
export class UserStream {
  readonly id: u32;
  /** Negative: an errno, -ENOTCONN if the run has no client transport. */
  readonly fd: i32;
  private buffer: Uint8Array = new Uint8Array(FRAME_MAX);

  constructor(id: u32, direction: i32 = STREAM_BOTH) {
    this.id = id;
    this.fd = user_stream_open(id as i32, direction);
  }

  /** Waits for the next frame; null when the client has ended its side, or on failure (`lastRead`). */
  receive(): Frame | null {
    while (true) {
      const length = memory.data(4);
      store<u32>(length, FRAME_MAX);
      lastRead = user_stream_read(this.fd, this.buffer.dataStart, length);
      if (lastRead >= 0) return this.parse(lastRead);
      if (lastRead != -EAGAIN || !this.wait(EPOLLIN)) return null;
    }
  }

  /** Sends a frame, waiting for room; 0 or a negative errno: -EPIPE when the client has disconnected. */
  send(frame: Frame): i32 {
    const length = FRAME_HEADER + frame.meta.length + frame.data.length;
    if (length > FRAME_MAX) return -EMSGSIZE;
    const bytes = new Uint8Array(length);
    const at = bytes.dataStart;
    store<u32>(at, 0x54535053); // "SPST"
    store<u16>(at, 1, 4);
    store<u16>(at, FRAME_HEADER as u16, 6);
    store<u16>(at, frame.type, 8);
    store<u16>(at, frame.flags, 10);
    store<u32>(at, this.id, 12);
    store<u64>(at, frame.sequence, 16);
    store<u32>(at, frame.meta.length, 24);
    store<u32>(at, frame.data.length, 28);
    bytes.set(frame.meta, FRAME_HEADER);
    bytes.set(frame.data, FRAME_HEADER + frame.meta.length);
    while (true) {
      const rc = user_stream_write(this.fd, at, length as u32);
      if (rc != -EAGAIN || !this.wait(EPOLLOUT)) return rc;
    }
  }

  close(): void {
    user_stream_close(this.fd);
  }

  private wait(events: i32): bool {
    const epoll = new Epoll();
    epoll.add(this.fd, events);
    const ready = epoll.wait(-1).length > 0;
    epoll.close();
    return ready;
  }

  private parse(length: i32): Frame {
    const at = this.buffer.dataStart;
    const header = load<u16>(at, 6) as i32;
    const meta = load<u32>(at, 24) as i32;
    const frame = new Frame();
    frame.type = load<u16>(at, 8);
    frame.flags = load<u16>(at, 10);
    frame.sequence = load<u64>(at, 16);
    frame.meta = this.buffer.slice(header, header + meta);
    frame.data = this.buffer.slice(header + meta, length);
    return frame;
  }
}
