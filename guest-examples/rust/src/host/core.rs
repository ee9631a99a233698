//! The hostcalls of a plain module: imports of `spear`, text as pointer and length, bytes out through a buffer.

use super::{CHAT_SET_PARAM, FD_SET_FLAGS, Ready};
use crate::{Errno, RawFd};

mod import {
    #[link(wasm_import_module = "spear")]
    unsafe extern "C" {
        pub safe fn spear_abi_version() -> i32;
        pub unsafe fn spear_feature(name_ptr: *const u8, name_len: usize) -> i32;
        pub safe fn time_now_ms() -> i64;
        pub safe fn wall_time_s() -> i64;
        pub safe fn random_i64() -> i64;
        pub safe fn sleep_ms(ms: i32);
        pub unsafe fn log(level: i32, message_ptr: *const u8, message_len: usize) -> i32;

        pub safe fn cchat_create() -> i32;
        pub unsafe fn cchat_write_msg(
            fd: i32,
            role_ptr: *const u8,
            role_len: usize,
            content_ptr: *const u8,
            content_len: usize,
        ) -> i32;
        pub unsafe fn cchat_write_fn(fd: i32, fn_offset: i32, json_ptr: *const u8, json_len: usize) -> i32;
        pub unsafe fn cchat_write_tool_result(
            fd: i32,
            id_ptr: *const u8,
            id_len: usize,
            content_ptr: *const u8,
            content_len: usize,
        ) -> i32;
        pub unsafe fn cchat_ctl(fd: i32, cmd: i32, arg_ptr: *mut u8, arg_len_ptr: *mut u32) -> i32;
        pub safe fn cchat_send(fd: i32, flags: i32) -> i32;
        pub unsafe fn cchat_recv(fd: i32, out_ptr: *mut u8, out_len_ptr: *mut u32) -> i32;
        pub unsafe fn cchat_read(fd: i32, out_ptr: *mut u8, out_len_ptr: *mut u32) -> i32;
        pub safe fn cchat_close(fd: i32) -> i32;

        pub unsafe fn mcp_open(server_id_ptr: *const u8, server_id_len: usize) -> i32;
        pub unsafe fn mcp_list_tools(fd: i32, out_ptr: *mut u8, out_len_ptr: *mut u32) -> i32;
        pub unsafe fn mcp_call_tool(
            fd: i32,
            name_ptr: *const u8,
            name_len: usize,
            args_ptr: *const u8,
            args_len: usize,
            out_ptr: *mut u8,
            out_len_ptr: *mut u32,
        ) -> i32;
        pub unsafe fn mcp_submit(
            fd: i32,
            name_ptr: *const u8,
            name_len: usize,
            args_ptr: *const u8,
            args_len: usize,
        ) -> i32;
        pub unsafe fn mcp_result(fd: i32, out_ptr: *mut u8, out_len_ptr: *mut u32) -> i32;
        pub safe fn mcp_close(fd: i32) -> i32;
        pub unsafe fn mcp_registry_list(out_ptr: *mut u8, out_len_ptr: *mut u32) -> i32;
        pub unsafe fn mcp_registry_get(
            server_id_ptr: *const u8,
            server_id_len: usize,
            out_ptr: *mut u8,
            out_len_ptr: *mut u32,
        ) -> i32;
        pub unsafe fn mcp_list_resources(fd: i32, out_ptr: *mut u8, out_len_ptr: *mut u32) -> i32;
        pub unsafe fn mcp_read_resource(
            fd: i32,
            uri_ptr: *const u8,
            uri_len: usize,
            out_ptr: *mut u8,
            out_len_ptr: *mut u32,
        ) -> i32;
        pub unsafe fn mcp_list_prompts(fd: i32, out_ptr: *mut u8, out_len_ptr: *mut u32) -> i32;
        pub unsafe fn mcp_get_prompt(
            fd: i32,
            name_ptr: *const u8,
            name_len: usize,
            args_ptr: *const u8,
            args_len: usize,
            out_ptr: *mut u8,
            out_len_ptr: *mut u32,
        ) -> i32;

        pub safe fn spear_epoll_create() -> i32;
        pub safe fn spear_epoll_ctl(epfd: i32, op: i32, fd: i32, events: i32) -> i32;
        pub unsafe fn spear_epoll_wait(epfd: i32, out_ptr: *mut u8, out_len_ptr: *mut u32, timeout_ms: i32) -> i32;
        pub safe fn spear_epoll_close(epfd: i32) -> i32;
        pub unsafe fn spear_fd_ctl(fd: i32, cmd: i32, arg_ptr: *mut u8, arg_len_ptr: *mut u32) -> i32;
        pub safe fn spear_fd_cancel(fd: i32) -> i32;

        pub safe fn user_stream_open(stream_id: i32, direction: i32) -> i32;
        pub unsafe fn user_stream_read(fd: i32, out_ptr: *mut u8, out_len_ptr: *mut u32) -> i32;
        pub unsafe fn user_stream_write(fd: i32, frame_ptr: *const u8, frame_len: usize) -> i32;
        pub safe fn user_stream_close(fd: i32) -> i32;
        pub safe fn user_stream_ctl_open() -> i32;
        pub unsafe fn user_stream_ctl_read(fd: i32, out_ptr: *mut u8, out_len_ptr: *mut u32) -> i32;

        pub safe fn rtasr_create() -> i32;
        pub unsafe fn rtasr_ctl(fd: i32, cmd: i32, arg_ptr: *mut u8, arg_len_ptr: *mut u32) -> i32;
        pub unsafe fn rtasr_write(fd: i32, data_ptr: *const u8, data_len: usize) -> i32;
        pub unsafe fn rtasr_read(fd: i32, out_ptr: *mut u8, out_len_ptr: *mut u32) -> i32;
        pub safe fn rtasr_close(fd: i32) -> i32;
        pub safe fn mic_create() -> i32;
        pub unsafe fn mic_ctl(fd: i32, cmd: i32, arg_ptr: *mut u8, arg_len_ptr: *mut u32) -> i32;
        pub unsafe fn mic_write(fd: i32, data_ptr: *const u8, data_len: usize) -> i32;
        pub unsafe fn mic_read(fd: i32, out_ptr: *mut u8, out_len_ptr: *mut u32) -> i32;
        pub safe fn mic_close(fd: i32) -> i32;
    }
}

/// `fn_offset` of a tool without a callback.
const HANDED_BACK: i32 = -1;

/// First buffer size: most results fit, and a larger one returns its size.
const FIRST_CAPACITY: u32 = 4096;

const EVENT_BYTES: usize = 8;
/// Number of events of one wait; the remaining descriptors are still ready at the next.
const MAX_EVENTS: usize = 64;

fn nothing(returned: i32) -> Result<(), Errno> {
    Errno::check(returned).map(drop)
}

/// The out-buffer convention: `call` gets a buffer and a length that holds its capacity, and is called again with a
/// larger one as long as it returns ENOSPC. Such a call consumes nothing.
///
/// # Safety
/// `call` writes at most as many bytes as the length says, and on success has written as many as it returns.
unsafe fn bytes_out(mut call: impl FnMut(*mut u8, *mut u32) -> i32) -> Result<Vec<u8>, Errno> {
    let mut length = FIRST_CAPACITY;
    loop {
        let mut buffer: Vec<u8> = Vec::with_capacity(length as usize);
        match Errno::check(call(buffer.as_mut_ptr(), &mut length)) {
            Ok(written) => {
                // SAFETY: so many bytes of the buffer were written, says the caller; never more than it holds.
                unsafe { buffer.set_len((written as usize).min(buffer.capacity())) };
                return Ok(buffer);
            }
            Err(Errno::ENOSPC) if length as usize > buffer.capacity() => {}
            Err(errno) => return Err(errno),
        }
    }
}

/// The host's texts are UTF-8; should one not be, it is a failed transfer.
unsafe fn text_out(call: impl FnMut(*mut u8, *mut u32) -> i32) -> Result<String, Errno> {
    // SAFETY: the same condition.
    let bytes = unsafe { bytes_out(call) }?;
    String::from_utf8(bytes).map_err(|_| Errno::EIO)
}

type Ctl = unsafe extern "C" fn(i32, i32, *mut u8, *mut u32) -> i32;

/// A command that takes an argument, or one that returns text.
///
/// # Safety
/// `ctl` only reads the argument of a command that takes one.
unsafe fn ctl(ctl: Ctl, fd: RawFd, cmd: i32, arg: &str, takes: bool) -> Result<String, Errno> {
    if takes {
        let mut length = arg.len() as u32;
        // SAFETY: the range is that of `arg`, and the host does not write to it.
        return nothing(unsafe { ctl(fd, cmd, arg.as_ptr().cast_mut(), &mut length) }).map(|()| String::new());
    }
    // SAFETY: what gives text follows the out-buffer convention.
    unsafe { text_out(|out, length| ctl(fd, cmd, out, length)) }
}

// SAFETY of every block below: pointer and length are those of one live slice, or come from `bytes_out`.

pub fn spear_feature(name: &str) -> bool {
    unsafe { import::spear_feature(name.as_ptr(), name.len()) == 1 }
}

pub use import::{random_i64, sleep_ms, spear_abi_version, time_now_ms, wall_time_s};

pub fn log(level: i32, message: &str) -> Result<(), Errno> {
    nothing(unsafe { import::log(level, message.as_ptr(), message.len()) })
}

pub fn cchat_create() -> Result<RawFd, Errno> {
    Errno::check(import::cchat_create())
}

pub fn cchat_write_msg(fd: RawFd, role: &str, content: &str) -> Result<(), Errno> {
    nothing(unsafe { import::cchat_write_msg(fd, role.as_ptr(), role.len(), content.as_ptr(), content.len()) })
}

pub fn cchat_write_fn(fd: RawFd, json: &str) -> Result<(), Errno> {
    nothing(unsafe { import::cchat_write_fn(fd, HANDED_BACK, json.as_ptr(), json.len()) })
}

pub fn cchat_write_tool_result(fd: RawFd, id: &str, content: &str) -> Result<(), Errno> {
    nothing(unsafe { import::cchat_write_tool_result(fd, id.as_ptr(), id.len(), content.as_ptr(), content.len()) })
}

pub fn cchat_ctl(fd: RawFd, cmd: i32, arg: &str) -> Result<String, Errno> {
    unsafe { ctl(import::cchat_ctl, fd, cmd, arg, cmd == CHAT_SET_PARAM) }
}

pub fn cchat_send(fd: RawFd, flags: i32) -> Result<RawFd, Errno> {
    Errno::check(import::cchat_send(fd, flags))
}

pub fn cchat_recv(fd: RawFd) -> Result<String, Errno> {
    unsafe { text_out(|out, length| import::cchat_recv(fd, out, length)) }
}

pub fn cchat_read(fd: RawFd) -> Result<String, Errno> {
    unsafe { text_out(|out, length| import::cchat_read(fd, out, length)) }
}

pub fn cchat_close(fd: RawFd) -> Result<(), Errno> {
    nothing(import::cchat_close(fd))
}

pub fn mcp_open(server_id: &str) -> Result<RawFd, Errno> {
    Errno::check(unsafe { import::mcp_open(server_id.as_ptr(), server_id.len()) })
}

pub fn mcp_list_tools(fd: RawFd) -> Result<String, Errno> {
    unsafe { text_out(|out, length| import::mcp_list_tools(fd, out, length)) }
}

pub fn mcp_call_tool(fd: RawFd, name: &str, args: &str) -> Result<String, Errno> {
    // After ENOSPC the identical call fetches the stored result: the tool does not run again.
    unsafe {
        text_out(|out, length| {
            import::mcp_call_tool(fd, name.as_ptr(), name.len(), args.as_ptr(), args.len(), out, length)
        })
    }
}

pub fn mcp_submit(fd: RawFd, name: &str, args: &str) -> Result<RawFd, Errno> {
    Errno::check(unsafe { import::mcp_submit(fd, name.as_ptr(), name.len(), args.as_ptr(), args.len()) })
}

pub fn mcp_result(fd: RawFd) -> Result<String, Errno> {
    unsafe { text_out(|out, length| import::mcp_result(fd, out, length)) }
}

pub fn mcp_close(fd: RawFd) -> Result<(), Errno> {
    nothing(import::mcp_close(fd))
}

pub fn mcp_registry_list() -> Result<String, Errno> {
    unsafe { text_out(|out, length| import::mcp_registry_list(out, length)) }
}

pub fn mcp_registry_get(server_id: &str) -> Result<String, Errno> {
    unsafe { text_out(|out, length| import::mcp_registry_get(server_id.as_ptr(), server_id.len(), out, length)) }
}

pub fn mcp_list_resources(fd: RawFd) -> Result<String, Errno> {
    unsafe { text_out(|out, length| import::mcp_list_resources(fd, out, length)) }
}

pub fn mcp_read_resource(fd: RawFd, uri: &str) -> Result<String, Errno> {
    unsafe { text_out(|out, length| import::mcp_read_resource(fd, uri.as_ptr(), uri.len(), out, length)) }
}

pub fn mcp_list_prompts(fd: RawFd) -> Result<String, Errno> {
    unsafe { text_out(|out, length| import::mcp_list_prompts(fd, out, length)) }
}

pub fn mcp_get_prompt(fd: RawFd, name: &str, args: &str) -> Result<String, Errno> {
    unsafe {
        text_out(|out, length| {
            import::mcp_get_prompt(fd, name.as_ptr(), name.len(), args.as_ptr(), args.len(), out, length)
        })
    }
}

pub fn spear_epoll_create() -> Result<RawFd, Errno> {
    Errno::check(import::spear_epoll_create())
}

pub fn spear_epoll_ctl(epfd: RawFd, op: i32, fd: RawFd, events: i32) -> Result<(), Errno> {
    nothing(import::spear_epoll_ctl(epfd, op, fd, events))
}

pub fn spear_epoll_wait(epfd: RawFd, timeout_ms: i32) -> Result<Vec<Ready>, Errno> {
    let mut records = [0u8; MAX_EVENTS * EVENT_BYTES];
    let mut length = records.len() as u32;
    let returned = unsafe { import::spear_epoll_wait(epfd, records.as_mut_ptr(), &mut length, timeout_ms) };
    let count = Errno::check(returned)? as usize;
    let number = |at: &[u8]| i32::from_le_bytes([at[0], at[1], at[2], at[3]]);
    Ok(records.chunks_exact(EVENT_BYTES).take(count).map(|record| (number(record), number(&record[4..]))).collect())
}

pub fn spear_epoll_close(epfd: RawFd) -> Result<(), Errno> {
    nothing(import::spear_epoll_close(epfd))
}

pub fn spear_fd_ctl(fd: RawFd, cmd: i32, arg: &str) -> Result<String, Errno> {
    unsafe { ctl(import::spear_fd_ctl, fd, cmd, arg, cmd == FD_SET_FLAGS) }
}

pub fn spear_fd_cancel(fd: RawFd) -> Result<(), Errno> {
    nothing(import::spear_fd_cancel(fd))
}

pub fn user_stream_open(stream_id: i32, direction: i32) -> Result<RawFd, Errno> {
    Errno::check(import::user_stream_open(stream_id, direction))
}

pub fn user_stream_read(fd: RawFd) -> Result<Vec<u8>, Errno> {
    unsafe { bytes_out(|out, length| import::user_stream_read(fd, out, length)) }
}

pub fn user_stream_write(fd: RawFd, frame: &[u8]) -> Result<(), Errno> {
    nothing(unsafe { import::user_stream_write(fd, frame.as_ptr(), frame.len()) })
}

pub fn user_stream_close(fd: RawFd) -> Result<(), Errno> {
    nothing(import::user_stream_close(fd))
}

pub fn user_stream_ctl_open() -> Result<RawFd, Errno> {
    Errno::check(import::user_stream_ctl_open())
}

pub fn user_stream_ctl_read(fd: RawFd) -> Result<Vec<u8>, Errno> {
    unsafe { bytes_out(|out, length| import::user_stream_ctl_read(fd, out, length)) }
}

pub fn rtasr_create() -> Result<RawFd, Errno> {
    Errno::check(import::rtasr_create())
}

pub fn rtasr_ctl(fd: RawFd, cmd: i32, arg: &str) -> Result<String, Errno> {
    unsafe { ctl(import::rtasr_ctl, fd, cmd, arg, true) }
}

pub fn rtasr_write(fd: RawFd, data: &[u8]) -> Result<(), Errno> {
    nothing(unsafe { import::rtasr_write(fd, data.as_ptr(), data.len()) })
}

pub fn rtasr_read(fd: RawFd) -> Result<Vec<u8>, Errno> {
    unsafe { bytes_out(|out, length| import::rtasr_read(fd, out, length)) }
}

pub fn rtasr_close(fd: RawFd) -> Result<(), Errno> {
    nothing(import::rtasr_close(fd))
}

pub fn mic_create() -> Result<RawFd, Errno> {
    Errno::check(import::mic_create())
}

pub fn mic_ctl(fd: RawFd, cmd: i32, arg: &str) -> Result<String, Errno> {
    unsafe { ctl(import::mic_ctl, fd, cmd, arg, true) }
}

pub fn mic_write(fd: RawFd, data: &[u8]) -> Result<(), Errno> {
    nothing(unsafe { import::mic_write(fd, data.as_ptr(), data.len()) })
}

pub fn mic_read(fd: RawFd) -> Result<Vec<u8>, Errno> {
    unsafe { bytes_out(|out, length| import::mic_read(fd, out, length)) }
}

pub fn mic_close(fd: RawFd) -> Result<(), Errno> {
    nothing(import::mic_close(fd))
}
