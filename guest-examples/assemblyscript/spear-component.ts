// The hostcalls of spear.ts for a component: each is implemented with its function of wit/spear.wit. Texts are passed unchanged, results
// are copied into the caller's buffer, and an errno of the WIT becomes its negative number. The host cannot call a component back
// while it waits, so a blocking send with SEND_AUTO_TOOL_CALL consists of sends with SEND_HAND_BACK: the tools run here, in
// between. A non-blocking send returns its tool calls to the guest, which sets their results itself.
import { cchat_recv as receive, EIO, ENOSPC, ENOSYS, FD_CLOSE, Json, readText, SEND_AUTO_TOOL_CALL, SEND_HAND_BACK, SEND_STREAM, TOOL_HANDED_BACK } from "./spear";

/** Where every fallible function leaves its result: a byte that tells whether it failed, then the errno or the value. */
const result: usize = memory.data(16, 8);

const errnoNumbers: StaticArray<i32> = [1, 2, 4, 5, 9, 11, 12, 13, 14, 16, 17, 22, 24, 28, 32, 38, 90, 104, 107, 110, 125];

function errnoAt(offset: usize): i32 {
  const ordinal = <i32>load<u8>(result + offset);
  return ordinal < errnoNumbers.length ? -errnoNumbers[ordinal] : -EIO;
}

function failed(): bool {
  return load<u8>(result) != 0;
}

function takeNothing(): i32 {
  return failed() ? errnoAt(1) : 0;
}

function takeNumber(): i32 {
  return failed() ? errnoAt(4) : load<i32>(result, 4);
}

function freeBytes(pointer: usize, length: u32): void {
  if (length > 0) heap.free(pointer);
}

/** The out-buffer convention. What does not fit is dropped here: the next call returns it again. */
function takeBytes(out_ptr: usize, out_len_ptr: usize): i32 {
  if (failed()) return errnoAt(4);
  const pointer = <usize>load<u32>(result, 4);
  const length = load<u32>(result, 8);
  const fits = length <= load<u32>(out_len_ptr);
  store<u32>(out_len_ptr, length);
  if (fits) memory.copy(out_ptr, pointer, length);
  freeBytes(pointer, length);
  return fits ? <i32>length : -ENOSPC;
}

// generated from the call table: npm run docs
@external("spear:host/system@1.1.0", "spear-abi-version") declare function wit_spear_abi_version(): i32;
@external("spear:host/system@1.1.0", "spear-feature") declare function wit_spear_feature(name_ptr: usize, name_len: u32): i32;
@external("spear:host/clock@1.1.0", "time-now-ms") declare function wit_time_now_ms(): i64;
@external("spear:host/clock@1.1.0", "wall-time-s") declare function wit_wall_time_s(): i64;
@external("spear:host/clock@1.1.0", "random-i64") declare function wit_random_i64(): i64;
@external("spear:host/clock@1.1.0", "sleep-ms") declare function wit_sleep_ms(ms: i32): void;
@external("spear:host/log@1.1.0", "log") declare function wit_log(level: i32, message_ptr: usize, message_len: u32, result: usize): void;
@external("spear:host/cchat@1.1.0", "cchat-create") declare function wit_cchat_create(result: usize): void;
@external("spear:host/cchat@1.1.0", "cchat-write-msg") declare function wit_cchat_write_msg(fd: i32, role_ptr: usize, role_len: u32, content_ptr: usize, content_len: u32, result: usize): void;
@external("spear:host/cchat@1.1.0", "cchat-write-fn") declare function wit_cchat_write_fn(fd: i32, json_ptr: usize, json_len: u32, result: usize): void;
@external("spear:host/cchat@1.1.0", "cchat-write-tool-result") declare function wit_cchat_write_tool_result(fd: i32, id_ptr: usize, id_len: u32, content_ptr: usize, content_len: u32, result: usize): void;
@external("spear:host/cchat@1.1.0", "cchat-ctl") declare function wit_cchat_ctl(fd: i32, cmd: i32, arg_ptr: usize, arg_len: u32, result: usize): void;
@external("spear:host/cchat@1.1.0", "cchat-send") declare function wit_cchat_send(fd: i32, flags: i32, result: usize): void;
@external("spear:host/cchat@1.1.0", "cchat-recv") declare function wit_cchat_recv(fd: i32, result: usize): void;
@external("spear:host/cchat@1.1.0", "cchat-read") declare function wit_cchat_read(fd: i32, result: usize): void;
@external("spear:host/cchat@1.1.0", "cchat-close") declare function wit_cchat_close(fd: i32, result: usize): void;
@external("spear:host/mcp@1.1.0", "mcp-open") declare function wit_mcp_open(server_id_ptr: usize, server_id_len: u32, result: usize): void;
@external("spear:host/mcp@1.1.0", "mcp-list-tools") declare function wit_mcp_list_tools(fd: i32, result: usize): void;
@external("spear:host/mcp@1.1.0", "mcp-call-tool") declare function wit_mcp_call_tool(fd: i32, name_ptr: usize, name_len: u32, args_ptr: usize, args_len: u32, result: usize): void;
@external("spear:host/mcp@1.1.0", "mcp-submit") declare function wit_mcp_submit(fd: i32, name_ptr: usize, name_len: u32, args_ptr: usize, args_len: u32, result: usize): void;
@external("spear:host/mcp@1.1.0", "mcp-result") declare function wit_mcp_result(fd: i32, result: usize): void;
@external("spear:host/mcp@1.1.0", "mcp-close") declare function wit_mcp_close(fd: i32, result: usize): void;
@external("spear:host/mcp@1.1.0", "mcp-registry-list") declare function wit_mcp_registry_list(result: usize): void;
@external("spear:host/mcp@1.1.0", "mcp-registry-get") declare function wit_mcp_registry_get(server_id_ptr: usize, server_id_len: u32, result: usize): void;
@external("spear:host/mcp@1.1.0", "mcp-list-resources") declare function wit_mcp_list_resources(fd: i32, result: usize): void;
@external("spear:host/mcp@1.1.0", "mcp-read-resource") declare function wit_mcp_read_resource(fd: i32, uri_ptr: usize, uri_len: u32, result: usize): void;
@external("spear:host/mcp@1.1.0", "mcp-list-prompts") declare function wit_mcp_list_prompts(fd: i32, result: usize): void;
@external("spear:host/mcp@1.1.0", "mcp-get-prompt") declare function wit_mcp_get_prompt(fd: i32, name_ptr: usize, name_len: u32, args_ptr: usize, args_len: u32, result: usize): void;
@external("spear:host/poll@1.1.0", "spear-epoll-create") declare function wit_spear_epoll_create(result: usize): void;
@external("spear:host/poll@1.1.0", "spear-epoll-ctl") declare function wit_spear_epoll_ctl(epfd: i32, op: i32, fd: i32, events: i32, result: usize): void;
@external("spear:host/poll@1.1.0", "spear-epoll-wait") declare function wit_spear_epoll_wait(epfd: i32, timeout_ms: i32, result: usize): void;
@external("spear:host/poll@1.1.0", "spear-epoll-close") declare function wit_spear_epoll_close(epfd: i32, result: usize): void;
@external("spear:host/poll@1.1.0", "spear-fd-ctl") declare function wit_spear_fd_ctl(fd: i32, cmd: i32, arg_ptr: usize, arg_len: u32, result: usize): void;
@external("spear:host/poll@1.1.0", "spear-fd-cancel") declare function wit_spear_fd_cancel(fd: i32, result: usize): void;
@external("spear:host/user-stream@1.1.0", "user-stream-open") declare function wit_user_stream_open(stream_id: i32, direction: i32, result: usize): void;
@external("spear:host/user-stream@1.1.0", "user-stream-read") declare function wit_user_stream_read(fd: i32, result: usize): void;
@external("spear:host/user-stream@1.1.0", "user-stream-write") declare function wit_user_stream_write(fd: i32, frame_ptr: usize, frame_len: u32, result: usize): void;
@external("spear:host/user-stream@1.1.0", "user-stream-close") declare function wit_user_stream_close(fd: i32, result: usize): void;
@external("spear:host/user-stream@1.1.0", "user-stream-ctl-open") declare function wit_user_stream_ctl_open(result: usize): void;
@external("spear:host/user-stream@1.1.0", "user-stream-ctl-read") declare function wit_user_stream_ctl_read(fd: i32, result: usize): void;
@external("spear:host/rtasr@1.1.0", "rtasr-create") declare function wit_rtasr_create(result: usize): void;
@external("spear:host/rtasr@1.1.0", "rtasr-ctl") declare function wit_rtasr_ctl(fd: i32, cmd: i32, arg_ptr: usize, arg_len: u32, result: usize): void;
@external("spear:host/rtasr@1.1.0", "rtasr-write") declare function wit_rtasr_write(fd: i32, data_ptr: usize, data_len: u32, result: usize): void;
@external("spear:host/rtasr@1.1.0", "rtasr-read") declare function wit_rtasr_read(fd: i32, result: usize): void;
@external("spear:host/rtasr@1.1.0", "rtasr-close") declare function wit_rtasr_close(fd: i32, result: usize): void;
@external("spear:host/mic@1.1.0", "mic-create") declare function wit_mic_create(result: usize): void;
@external("spear:host/mic@1.1.0", "mic-ctl") declare function wit_mic_ctl(fd: i32, cmd: i32, arg_ptr: usize, arg_len: u32, result: usize): void;
@external("spear:host/mic@1.1.0", "mic-write") declare function wit_mic_write(fd: i32, data_ptr: usize, data_len: u32, result: usize): void;
@external("spear:host/mic@1.1.0", "mic-read") declare function wit_mic_read(fd: i32, result: usize): void;
@external("spear:host/mic@1.1.0", "mic-close") declare function wit_mic_close(fd: i32, result: usize): void;

export function spear_abi_version(): i32 {
  return wit_spear_abi_version();
}
export function spear_feature(name_ptr: usize, name_len: u32): i32 {
  return wit_spear_feature(name_ptr, name_len);
}
export function time_now_ms(): i64 {
  return wit_time_now_ms();
}
export function wall_time_s(): i64 {
  return wit_wall_time_s();
}
export function random_i64(): i64 {
  return wit_random_i64();
}
export function sleep_ms(ms: i32): void {
  wit_sleep_ms(ms);
}
export function log(level: i32, message_ptr: usize, message_len: u32): i32 {
  wit_log(level, message_ptr, message_len, result);
  return takeNothing();
}
export function cchat_create(): i32 {
  wit_cchat_create(result);
  return takeNumber();
}
export function cchat_write_msg(fd: i32, role_ptr: usize, role_len: u32, content_ptr: usize, content_len: u32): i32 {
  wit_cchat_write_msg(fd, role_ptr, role_len, content_ptr, content_len, result);
  return takeNothing();
}
export function cchat_write_tool_result(fd: i32, id_ptr: usize, id_len: u32, content_ptr: usize, content_len: u32): i32 {
  wit_cchat_write_tool_result(fd, id_ptr, id_len, content_ptr, content_len, result);
  return takeNothing();
}
export function cchat_recv(fd: i32, out_ptr: usize, out_len_ptr: usize): i32 {
  wit_cchat_recv(fd, result);
  return takeBytes(out_ptr, out_len_ptr);
}
export function mcp_open(server_id_ptr: usize, server_id_len: u32): i32 {
  wit_mcp_open(server_id_ptr, server_id_len, result);
  return takeNumber();
}
export function mcp_list_tools(fd: i32, out_ptr: usize, out_len_ptr: usize): i32 {
  wit_mcp_list_tools(fd, result);
  return takeBytes(out_ptr, out_len_ptr);
}
export function mcp_submit(fd: i32, name_ptr: usize, name_len: u32, args_ptr: usize, args_len: u32): i32 {
  wit_mcp_submit(fd, name_ptr, name_len, args_ptr, args_len, result);
  return takeNumber();
}
export function mcp_result(fd: i32, out_ptr: usize, out_len_ptr: usize): i32 {
  wit_mcp_result(fd, result);
  return takeBytes(out_ptr, out_len_ptr);
}
export function mcp_registry_list(out_ptr: usize, out_len_ptr: usize): i32 {
  wit_mcp_registry_list(result);
  return takeBytes(out_ptr, out_len_ptr);
}
export function mcp_registry_get(server_id_ptr: usize, server_id_len: u32, out_ptr: usize, out_len_ptr: usize): i32 {
  wit_mcp_registry_get(server_id_ptr, server_id_len, result);
  return takeBytes(out_ptr, out_len_ptr);
}
export function mcp_list_resources(fd: i32, out_ptr: usize, out_len_ptr: usize): i32 {
  wit_mcp_list_resources(fd, result);
  return takeBytes(out_ptr, out_len_ptr);
}
export function mcp_list_prompts(fd: i32, out_ptr: usize, out_len_ptr: usize): i32 {
  wit_mcp_list_prompts(fd, result);
  return takeBytes(out_ptr, out_len_ptr);
}
export function spear_epoll_create(): i32 {
  wit_spear_epoll_create(result);
  return takeNumber();
}
export function spear_epoll_ctl(epfd: i32, op: i32, fd: i32, events: i32): i32 {
  wit_spear_epoll_ctl(epfd, op, fd, events, result);
  return takeNothing();
}
export function spear_fd_cancel(fd: i32): i32 {
  wit_spear_fd_cancel(fd, result);
  return takeNothing();
}
export function user_stream_open(stream_id: i32, direction: i32): i32 {
  wit_user_stream_open(stream_id, direction, result);
  return takeNumber();
}
export function user_stream_write(fd: i32, frame_ptr: usize, frame_len: u32): i32 {
  wit_user_stream_write(fd, frame_ptr, frame_len, result);
  return takeNothing();
}
export function user_stream_ctl_open(): i32 {
  wit_user_stream_ctl_open(result);
  return takeNumber();
}
export function rtasr_create(): i32 {
  wit_rtasr_create(result);
  return takeNumber();
}
export function rtasr_write(fd: i32, data_ptr: usize, data_len: u32): i32 {
  wit_rtasr_write(fd, data_ptr, data_len, result);
  return takeNothing();
}
export function rtasr_read(fd: i32, out_ptr: usize, out_len_ptr: usize): i32 {
  wit_rtasr_read(fd, result);
  return takeBytes(out_ptr, out_len_ptr);
}
export function mic_create(): i32 {
  wit_mic_create(result);
  return takeNumber();
}
export function mic_write(fd: i32, data_ptr: usize, data_len: u32): i32 {
  wit_mic_write(fd, data_ptr, data_len, result);
  return takeNothing();
}
export function mic_read(fd: i32, out_ptr: usize, out_len_ptr: usize): i32 {
  wit_mic_read(fd, result);
  return takeBytes(out_ptr, out_len_ptr);
}
// end of the generated part

class Tool {
  constructor(readonly session: i32, readonly name: string, readonly index: i32) {}
}

/** What a server is asked for once. */
enum Asked { Call, Read, Prompt, Next }

/** A result that did not fit its buffer, for the same call with a larger one: a tool never runs twice for one call. */
class Held {
  constructor(readonly fd: i32, readonly asked: Asked, readonly name: string, readonly args: string, readonly pointer: usize, readonly length: u32) {}
}

let tools: Tool[] = [];
let results: Held[] = [];

function dropHeld(fd: i32): void {
  for (let i = results.length - 1; i >= 0; i--) {
    if (results[i].fd != fd) continue;
    freeBytes(results[i].pointer, results[i].length);
    results.splice(i, 1);
  }
}

/** State of a descriptor in the guest. */
function forget(fd: i32): void {
  dropHeld(fd);
  dropLines(fd);
  for (let i = tools.length - 1; i >= 0; i--) if (tools[i].session == fd) tools.splice(i, 1);
}

export function cchat_close(fd: i32): i32 {
  forget(fd);
  wit_cchat_close(fd, result);
  return takeNothing();
}

export function mcp_close(fd: i32): i32 {
  forget(fd);
  wit_mcp_close(fd, result);
  return takeNothing();
}

export function spear_epoll_close(epfd: i32): i32 {
  wit_spear_epoll_close(epfd, result);
  return takeNothing();
}

export function user_stream_close(fd: i32): i32 {
  forget(fd);
  wit_user_stream_close(fd, result);
  return takeNothing();
}

export function rtasr_close(fd: i32): i32 {
  forget(fd);
  wit_rtasr_close(fd, result);
  return takeNothing();
}

export function mic_close(fd: i32): i32 {
  forget(fd);
  wit_mic_close(fd, result);
  return takeNothing();
}

/** The first command of every *_ctl takes a text, the others return one. */
function takesText(cmd: i32): bool {
  return cmd == 1;
}

function takeCommand(cmd: i32, arg_ptr: usize, arg_len_ptr: usize): i32 {
  if (!takesText(cmd) && arg_len_ptr != 0) return takeBytes(arg_ptr, arg_len_ptr);
  if (failed()) return errnoAt(4);
  freeBytes(<usize>load<u32>(result, 4), load<u32>(result, 8));
  return 0;
}

function textLength(cmd: i32, arg_len_ptr: usize): u32 {
  return takesText(cmd) ? load<u32>(arg_len_ptr) : 0;
}

export function cchat_ctl(fd: i32, cmd: i32, arg_ptr: usize, arg_len_ptr: usize): i32 {
  wit_cchat_ctl(fd, cmd, arg_ptr, textLength(cmd, arg_len_ptr), result);
  return takeCommand(cmd, arg_ptr, arg_len_ptr);
}

export function spear_fd_ctl(fd: i32, cmd: i32, arg_ptr: usize, arg_len_ptr: usize): i32 {
  if (cmd == FD_CLOSE) forget(fd);
  wit_spear_fd_ctl(fd, cmd, arg_ptr, textLength(cmd, arg_len_ptr), result);
  return takeCommand(cmd, arg_ptr, cmd == FD_CLOSE ? 0 : arg_len_ptr);
}

export function rtasr_ctl(fd: i32, cmd: i32, arg_ptr: usize, arg_len_ptr: usize): i32 {
  wit_rtasr_ctl(fd, cmd, arg_ptr, 0, result);
  return takeCommand(cmd, arg_ptr, arg_len_ptr);
}

export function mic_ctl(fd: i32, cmd: i32, arg_ptr: usize, arg_len_ptr: usize): i32 {
  wit_mic_ctl(fd, cmd, arg_ptr, 0, result);
  return takeCommand(cmd, arg_ptr, arg_len_ptr);
}

const EVENT_BYTES: u32 = 8;

export function spear_epoll_wait(epfd: i32, out_ptr: usize, out_len_ptr: usize, timeout_ms: i32): i32 {
  const room = load<u32>(out_len_ptr) / EVENT_BYTES;
  if (room == 0) {
    store<u32>(out_len_ptr, EVENT_BYTES);
    return -ENOSPC;
  }
  wit_spear_epoll_wait(epfd, timeout_ms, result);
  if (failed()) return errnoAt(4);
  const ready = <usize>load<u32>(result, 4);
  const all = load<u32>(result, 8);
  const count = min(all, room);
  store<u32>(out_len_ptr, count * EVENT_BYTES);
  memory.copy(out_ptr, ready, count * EVENT_BYTES);
  freeBytes(ready, all);
  return <i32>count;
}

function once(asked: Asked, fd: i32, name_ptr: usize, name_len: u32, args_ptr: usize, args_len: u32, out_ptr: usize, out_len_ptr: usize): i32 {
  const name = String.UTF8.decodeUnsafe(name_ptr, name_len);
  const args = String.UTF8.decodeUnsafe(args_ptr, args_len);
  let held: Held | null = null;
  for (let i = 0; i < results.length; i++) {
    const one = results[i];
    if (one.fd == fd && one.asked == asked && one.name == name && one.args == args) held = one;
  }
  if (held === null) {
    dropHeld(fd);
    if (asked == Asked.Call) wit_mcp_call_tool(fd, name_ptr, name_len, args_ptr, args_len, result);
    else if (asked == Asked.Read) wit_mcp_read_resource(fd, name_ptr, name_len, result);
    else wit_mcp_get_prompt(fd, name_ptr, name_len, args_ptr, args_len, result);
    if (failed()) return errnoAt(4);
    held = new Held(fd, asked, name, args, <usize>load<u32>(result, 4), load<u32>(result, 8));
    results.push(held);
  }
  return handOver(held, out_ptr, out_len_ptr);
}

/** Returns the held result if it fits, otherwise keeps it for a larger buffer. */
function handOver(held: Held, out_ptr: usize, out_len_ptr: usize): i32 {
  const capacity = load<u32>(out_len_ptr);
  store<u32>(out_len_ptr, held.length);
  if (held.length > capacity) return -ENOSPC;
  memory.copy(out_ptr, held.pointer, held.length);
  const length = <i32>held.length;
  dropHeld(held.fd);
  return length;
}

function heldOf(fd: i32): Held | null {
  for (let i = 0; i < results.length; i++) if (results[i].fd == fd) return results[i];
  return null;
}

/** Reading consumes the data of the host: what does not fit the buffer is kept here for a larger one. */
function holdRead(fd: i32): Held {
  const held = new Held(fd, Asked.Next, "", "", <usize>load<u32>(result, 4), load<u32>(result, 8));
  results.push(held);
  return held;
}

export function user_stream_read(fd: i32, out_ptr: usize, out_len_ptr: usize): i32 {
  const held = heldOf(fd);
  if (held !== null) return handOver(held, out_ptr, out_len_ptr);
  wit_user_stream_read(fd, result);
  return failed() ? errnoAt(4) : handOver(holdRead(fd), out_ptr, out_len_ptr);
}

export function user_stream_ctl_read(fd: i32, out_ptr: usize, out_len_ptr: usize): i32 {
  const held = heldOf(fd);
  if (held !== null) return handOver(held, out_ptr, out_len_ptr);
  wit_user_stream_ctl_read(fd, result);
  return failed() ? errnoAt(4) : handOver(holdRead(fd), out_ptr, out_len_ptr);
}

export function mcp_call_tool(fd: i32, name_ptr: usize, name_len: u32, args_ptr: usize, args_len: u32, out_ptr: usize, out_len_ptr: usize): i32 {
  return once(Asked.Call, fd, name_ptr, name_len, args_ptr, args_len, out_ptr, out_len_ptr);
}

export function mcp_read_resource(fd: i32, uri_ptr: usize, uri_len: u32, out_ptr: usize, out_len_ptr: usize): i32 {
  return once(Asked.Read, fd, uri_ptr, uri_len, 0, 0, out_ptr, out_len_ptr);
}

export function mcp_get_prompt(fd: i32, name_ptr: usize, name_len: u32, args_ptr: usize, args_len: u32, out_ptr: usize, out_len_ptr: usize): i32 {
  return once(Asked.Prompt, fd, name_ptr, name_len, args_ptr, args_len, out_ptr, out_len_ptr);
}

const LINE_END: u8 = 0x0a;

/** The host returns all available events to a component: those that do not fit are kept here, as whole lines. */
class HeldLines {
  given: u32 = 0;
  constructor(readonly fd: i32, readonly pointer: usize, readonly length: u32) {}
}

let streams: HeldLines[] = [];

function dropLines(fd: i32): void {
  for (let i = streams.length - 1; i >= 0; i--) {
    if (streams[i].fd != fd) continue;
    freeBytes(streams[i].pointer, streams[i].length);
    streams.splice(i, 1);
  }
}

function linesOf(fd: i32): HeldLines | null {
  for (let i = 0; i < streams.length; i++) if (streams[i].fd == fd) return streams[i];
  return null;
}

export function cchat_read(fd: i32, out_ptr: usize, out_len_ptr: usize): i32 {
  let held = linesOf(fd);
  if (held === null) {
    wit_cchat_read(fd, result);
    if (failed() || load<u32>(result, 8) == 0) return takeBytes(out_ptr, out_len_ptr);
    held = new HeldLines(fd, <usize>load<u32>(result, 4), load<u32>(result, 8));
    streams.push(held);
  }
  const lines = held.pointer + held.given;
  const left = held.length - held.given;
  const capacity = load<u32>(out_len_ptr);
  let length = left;
  if (left > capacity) {
    length = capacity;
    while (length > 0 && load<u8>(lines + length - 1) != LINE_END) length--;
    if (length == 0) {
      let end: u32 = 0;
      while (load<u8>(lines + end) != LINE_END) end++;
      store<u32>(out_len_ptr, end + 1);
      return -ENOSPC;
    }
  }
  memory.copy(out_ptr, lines, length);
  store<u32>(out_len_ptr, length);
  held.given += length;
  if (length == left) dropLines(fd);
  return <i32>length;
}

export function cchat_write_fn(fd: i32, fn_offset: i32, json_ptr: usize, json_len: u32): i32 {
  wit_cchat_write_fn(fd, json_ptr, json_len, result);
  const rc = takeNothing();
  if (rc < 0 || fn_offset == TOOL_HANDED_BACK) return rc;
  const json = Json.parse(String.UTF8.decodeUnsafe(json_ptr, json_len));
  tools.push(new Tool(fd, json.text("function.name", json.text("name")), fn_offset));
  return 0;
}

const TOOL_OUTPUT: u32 = 65536;
const TOOL_OUTPUT_MAX: u32 = 1048576;

/** Runs a tool the way the host runs those of a module. What it answered, or null and the rc in `toolRc`. */
let toolRc: i32 = 0;

function runTool(index: i32, args: string): string | null {
  const bytes = String.UTF8.encode(args, true); // with a NUL after them
  let capacity = TOOL_OUTPUT;
  for (let attempt = 0; attempt < 2; attempt++) {
    const slot = heap.alloc(capacity + 4);
    store<u32>(slot, capacity);
    toolRc = call_indirect<i32>(index, changetype<usize>(bytes), <u32>bytes.byteLength - 1, slot + 4, slot);
    const length = load<u32>(slot);
    const answer = toolRc == 0 && length <= capacity ? String.UTF8.decodeUnsafe(slot + 4, length) : null;
    heap.free(slot);
    if (toolRc != -ENOSPC || length <= capacity || length > TOOL_OUTPUT_MAX) return answer;
    capacity = length;
  }
  return null;
}

/** Sets the result of one handed-back call, also if there is no such tool or it fails. */
function answerCall(session: i32, call: Json): i32 {
  const name = call.text("name");
  let answer: string | null = null;
  toolRc = -ENOSYS;
  for (let i = 0; i < tools.length; i++) {
    if (tools[i].session == session && tools[i].name == name) answer = runTool(tools[i].index, call.text("arguments"));
  }
  const text = answer === null ? '{"error":{"code":"tool_exec_failed","message":"tool rc: ' + toolRc.toString() + '"}}' : answer;
  const id = String.UTF8.encode(call.text("id"));
  const content = String.UTF8.encode(text);
  return cchat_write_tool_result(session, changetype<usize>(id), id.byteLength, changetype<usize>(content), content.byteLength);
}

export function cchat_send(fd: i32, flags: i32): i32 {
  const runsTools = (flags & SEND_AUTO_TOOL_CALL) != 0 && (flags & SEND_HAND_BACK) == 0;
  if (runsTools) flags = (flags & ~SEND_AUTO_TOOL_CALL) | SEND_HAND_BACK;
  while (true) {
    wit_cchat_send(fd, flags, result);
    const response = takeNumber();
    if (!runsTools || response < 0 || (flags & SEND_STREAM) != 0) return response;
    const pending = Json.parse(readText(receive, response)).at("_spear.pending_tool_calls").items();
    if (pending.length == 0) return response;
    for (let i = 0; i < pending.length; i++) {
      const rc = answerCall(fd, pending[i]);
      if (rc < 0) return rc;
    }
    cchat_close(response);
  }
}
