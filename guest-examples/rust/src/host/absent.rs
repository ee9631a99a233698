//! Stubs for native unit tests of a guest, where there is no host.

use super::Ready;
use crate::{Errno, RawFd};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

fn since_epoch() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

pub fn spear_abi_version() -> i32 {
    0
}

pub fn spear_feature(_name: &str) -> bool {
    false
}

pub fn time_now_ms() -> i64 {
    since_epoch().as_millis() as i64
}

pub fn wall_time_s() -> i64 {
    since_epoch().as_secs() as i64
}

/// Different on every call, which is enough for tests.
pub fn random_i64() -> i64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(since_epoch()) as i64
}

pub fn sleep_ms(ms: i32) {
    std::thread::sleep(Duration::from_millis(u64::try_from(ms).unwrap_or(0)));
}

pub fn log(_level: i32, message: &str) -> Result<(), Errno> {
    eprintln!("{message}");
    Ok(())
}

macro_rules! absent {
    ($($name:ident($($type:ty),*) -> $ok:ty;)*) => {
        $(pub fn $name($(_: $type),*) -> Result<$ok, Errno> {
            Err(Errno::ENOSYS)
        })*
    };
}

absent! {
    cchat_create() -> RawFd;
    cchat_write_msg(RawFd, &str, &str) -> ();
    cchat_write_fn(RawFd, &str) -> ();
    cchat_write_tool_result(RawFd, &str, &str) -> ();
    cchat_ctl(RawFd, i32, &str) -> String;
    cchat_send(RawFd, i32) -> RawFd;
    cchat_recv(RawFd) -> String;
    cchat_read(RawFd) -> String;
    cchat_close(RawFd) -> ();
    mcp_open(&str) -> RawFd;
    mcp_list_tools(RawFd) -> String;
    mcp_call_tool(RawFd, &str, &str) -> String;
    mcp_submit(RawFd, &str, &str) -> RawFd;
    mcp_result(RawFd) -> String;
    mcp_close(RawFd) -> ();
    mcp_registry_list() -> String;
    mcp_registry_get(&str) -> String;
    mcp_list_resources(RawFd) -> String;
    mcp_read_resource(RawFd, &str) -> String;
    mcp_list_prompts(RawFd) -> String;
    mcp_get_prompt(RawFd, &str, &str) -> String;
    spear_epoll_create() -> RawFd;
    spear_epoll_ctl(RawFd, i32, RawFd, i32) -> ();
    spear_epoll_wait(RawFd, i32) -> Vec<Ready>;
    spear_epoll_close(RawFd) -> ();
    spear_fd_ctl(RawFd, i32, &str) -> String;
    spear_fd_cancel(RawFd) -> ();
    user_stream_open(i32, i32) -> RawFd;
    user_stream_read(RawFd) -> Vec<u8>;
    user_stream_write(RawFd, &[u8]) -> ();
    user_stream_close(RawFd) -> ();
    user_stream_ctl_open() -> RawFd;
    user_stream_ctl_read(RawFd) -> Vec<u8>;
    rtasr_create() -> RawFd;
    rtasr_ctl(RawFd, i32, &str) -> String;
    rtasr_write(RawFd, &[u8]) -> ();
    rtasr_read(RawFd) -> Vec<u8>;
    rtasr_close(RawFd) -> ();
    mic_create() -> RawFd;
    mic_ctl(RawFd, i32, &str) -> String;
    mic_write(RawFd, &[u8]) -> ();
    mic_read(RawFd) -> Vec<u8>;
    mic_close(RawFd) -> ();
}
