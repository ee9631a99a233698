//! The hostcalls of a component: imports of `spear:host`, marshalled by wit-bindgen.

use super::Ready;
use crate::{Errno, RawFd};

wit_bindgen::generate!({
    path: "../../wit/spear.wit",
    world: "task",
    pub_export_macro: true,
    export_macro_name: "export_run",
    default_bindings_module: "spear_guest::component_bindings",
});

use spear::host::{cchat, clock, log as log_interface, mcp, mic, poll, rtasr, system, types, user_stream};

/// `enum errno` and [`Errno::ALL`] have the same order.
impl From<types::Errno> for Errno {
    fn from(errno: types::Errno) -> Errno {
        Errno::ALL[errno as usize]
    }
}

/// One function for each call, which only converts the error.
macro_rules! forward {
    ($($interface:ident { $($name:ident($($param:ident: $type:ty),*) -> $ok:ty;)* })*) => {
        $($(pub fn $name($($param: $type),*) -> Result<$ok, Errno> {
            Ok($interface::$name($($param),*)?)
        })*)*
    };
}

pub use clock::{random_i64, sleep_ms, time_now_ms, wall_time_s};
pub use system::{spear_abi_version, spear_feature};

pub fn spear_epoll_wait(epfd: RawFd, timeout_ms: i32) -> Result<Vec<Ready>, Errno> {
    let ready = poll::spear_epoll_wait(epfd, timeout_ms)?;
    Ok(ready.into_iter().map(|one| (one.fd, one.events)).collect())
}

forward! {
    log_interface {
        log(level: i32, message: &str) -> ();
    }
    cchat {
        cchat_create() -> RawFd;
        cchat_write_msg(fd: RawFd, role: &str, content: &str) -> ();
        cchat_write_fn(fd: RawFd, json: &str) -> ();
        cchat_write_tool_result(fd: RawFd, id: &str, content: &str) -> ();
        cchat_ctl(fd: RawFd, cmd: i32, arg: &str) -> String;
        cchat_send(fd: RawFd, flags: i32) -> RawFd;
        cchat_recv(fd: RawFd) -> String;
        cchat_read(fd: RawFd) -> String;
        cchat_close(fd: RawFd) -> ();
    }
    mcp {
        mcp_open(server_id: &str) -> RawFd;
        mcp_list_tools(fd: RawFd) -> String;
        mcp_call_tool(fd: RawFd, name: &str, args: &str) -> String;
        mcp_submit(fd: RawFd, name: &str, args: &str) -> RawFd;
        mcp_result(fd: RawFd) -> String;
        mcp_close(fd: RawFd) -> ();
        mcp_registry_list() -> String;
        mcp_registry_get(server_id: &str) -> String;
        mcp_list_resources(fd: RawFd) -> String;
        mcp_read_resource(fd: RawFd, uri: &str) -> String;
        mcp_list_prompts(fd: RawFd) -> String;
        mcp_get_prompt(fd: RawFd, name: &str, args: &str) -> String;
    }
    poll {
        spear_epoll_create() -> RawFd;
        spear_epoll_ctl(epfd: RawFd, op: i32, fd: RawFd, events: i32) -> ();
        spear_epoll_close(epfd: RawFd) -> ();
        spear_fd_ctl(fd: RawFd, cmd: i32, arg: &str) -> String;
        spear_fd_cancel(fd: RawFd) -> ();
    }
    user_stream {
        user_stream_open(stream_id: i32, direction: i32) -> RawFd;
        user_stream_read(fd: RawFd) -> Vec<u8>;
        user_stream_write(fd: RawFd, frame: &[u8]) -> ();
        user_stream_close(fd: RawFd) -> ();
        user_stream_ctl_open() -> RawFd;
        user_stream_ctl_read(fd: RawFd) -> Vec<u8>;
    }
    rtasr {
        rtasr_create() -> RawFd;
        rtasr_ctl(fd: RawFd, cmd: i32, arg: &str) -> String;
        rtasr_write(fd: RawFd, data: &[u8]) -> ();
        rtasr_read(fd: RawFd) -> Vec<u8>;
        rtasr_close(fd: RawFd) -> ();
    }
    mic {
        mic_create() -> RawFd;
        mic_ctl(fd: RawFd, cmd: i32, arg: &str) -> String;
        mic_write(fd: RawFd, data: &[u8]) -> ();
        mic_read(fd: RawFd) -> Vec<u8>;
        mic_close(fd: RawFd) -> ();
    }
}
