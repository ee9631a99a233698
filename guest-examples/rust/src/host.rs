//! The hostcalls, one function each, with the names of the ABI.
//!
//! They are the same in both forms of a guest and are safe: text goes in as `&str`, bytes come out as owned values,
//! an error is an [`Errno`]. The rest of the crate is built on them; use them for what it does not cover.
//! Descriptors are plain numbers here and are not closed automatically; [`Fd::from_raw`](crate::Fd::from_raw) returns one that
//! closes itself.
//!
//! In native unit tests of a guest there is no host: `log` writes to stderr, the clock is the
//! machine's, every other call returns `ENOSYS`.

use crate::{Errno, RawFd};

#[cfg(not(target_family = "wasm"))]
#[path = "host/absent.rs"]
mod binding;

#[cfg(all(target_family = "wasm", feature = "core"))]
#[path = "host/core.rs"]
mod binding;

#[cfg(all(target_family = "wasm", feature = "component", not(feature = "core")))]
#[path = "host/component.rs"]
#[doc(hidden)]
pub mod binding;

/// A record of [`spear_epoll_wait`]: a descriptor and its event bits.
pub type Ready = (RawFd, i32);

/// Flag of [`cchat_send`]: collect metrics for [`CHAT_GET_METRICS`].
pub const SEND_METRICS: i32 = 1;
/// Flag of [`cchat_send`]: the host calls the guest's tools back. Needs functions of a table, which this crate does
/// without: see [`SEND_HAND_BACK`].
pub const SEND_AUTO_TOOL_CALL: i32 = 2;
/// Flag of [`cchat_send`]: the send ends with `_spear.pending_tool_calls`, and the guest sets their results.
pub const SEND_HAND_BACK: i32 = 4;
/// Flag of [`cchat_send`]: it returns immediately, and [`cchat_read`] returns the response as it arrives.
pub const SEND_STREAM: i32 = 8;
/// Command of [`cchat_ctl`]: takes `{"key":…,"value":…}`.
pub const CHAT_SET_PARAM: i32 = 1;
/// Command of [`cchat_ctl`]: returns the metrics of a response.
pub const CHAT_GET_METRICS: i32 = 2;
/// Command of [`spear_fd_ctl`]: takes `{"set":["O_NONBLOCK"],"clear":[]}`.
pub const FD_SET_FLAGS: i32 = 1;
/// Command of [`spear_fd_ctl`]: returns `{"flags":[…]}`.
pub const FD_GET_FLAGS: i32 = 2;
/// Command of [`spear_fd_ctl`]: returns `{"kind":…}`.
pub const FD_GET_KIND: i32 = 3;
/// Command of [`spear_fd_ctl`]: returns `{"closed","flags","kind","poll_mask"}`.
pub const FD_GET_STATUS: i32 = 4;
/// Command of [`spear_fd_ctl`]: returns the metrics of the descriptor.
pub const FD_GET_METRICS: i32 = 5;
/// Command of [`spear_fd_ctl`]: closes.
pub const FD_CLOSE: i32 = 6;
/// Operation of [`spear_epoll_ctl`]: adds a descriptor, or replaces its mask if it is in the set.
pub const EPOLL_CTL_ADD: i32 = 1;
/// Operation of [`spear_epoll_ctl`]: changes the mask.
pub const EPOLL_CTL_MOD: i32 = 2;
/// Operation of [`spear_epoll_ctl`]: removes the descriptor.
pub const EPOLL_CTL_DEL: i32 = 3;

/// One documented function for each call; the bindings only have to agree with it.
macro_rules! calls {
    ($($(#[$doc:meta])* fn $name:ident($($param:ident: $type:ty),*) $(-> $result:ty)?;)*) => {
        $($(#[$doc])* #[inline] pub fn $name($($param: $type),*) $(-> $result)? {
            binding::$name($($param),*)
        })*
    };
}

calls! {
    /// `major << 16 | minor` of the host's ABI.
    fn spear_abi_version() -> i32;
    /// Whether the host supports the named feature.
    fn spear_feature(name: &str) -> bool;
    /// Milliseconds since the Unix epoch.
    fn time_now_ms() -> i64;
    /// Seconds since the Unix epoch.
    fn wall_time_s() -> i64;
    /// 64 random bits.
    fn random_i64() -> i64;
    /// Suspends the guest; no thread is blocked.
    fn sleep_ms(ms: i32);
    /// 0 trace, 1 debug, 2 info, 3 warn, 4 error. More than 16384 bytes: `EINVAL`.
    fn log(level: i32, message: &str) -> Result<(), Errno>;

    /// A chat session.
    fn cchat_create() -> Result<RawFd, Errno>;
    /// Appends a message.
    fn cchat_write_msg(fd: RawFd, role: &str, content: &str) -> Result<(), Errno>;
    /// Registers a tool whose calls are handed back: an OpenAI tool object or its bare function object.
    fn cchat_write_fn(fd: RawFd, json: &str) -> Result<(), Errno>;
    /// Sets the result of one handed-back call; an id that is not pending: `ENOENT`.
    fn cchat_write_tool_result(fd: RawFd, id: &str, content: &str) -> Result<(), Errno>;
    /// [`CHAT_SET_PARAM`] or [`CHAT_GET_METRICS`].
    fn cchat_ctl(fd: RawFd, cmd: i32, arg: &str) -> Result<String, Errno>;
    /// Sends to the model; returns a response. With O_NONBLOCK on the session it does not wait.
    fn cchat_send(fd: RawFd, flags: i32) -> Result<RawFd, Errno>;
    /// The whole body of a response; every call returns the same.
    fn cchat_recv(fd: RawFd) -> Result<String, Errno>;
    /// Events of a send with [`SEND_STREAM`], one JSON line each; empty after the last. Waits unless O_NONBLOCK is set.
    fn cchat_read(fd: RawFd) -> Result<String, Errno>;
    /// Closes a descriptor of any kind; closing twice is allowed.
    fn cchat_close(fd: RawFd) -> Result<(), Errno>;

    /// A session with a registered MCP server.
    fn mcp_open(server_id: &str) -> Result<RawFd, Errno>;
    /// `{"server_id":…,"tools":[{"description","inputSchema","name"}]}`
    fn mcp_list_tools(fd: RawFd) -> Result<String, Errno>;
    /// Calls a tool and waits. A call that is denied or fails is a result, `{"error":…}`.
    fn mcp_call_tool(fd: RawFd, name: &str, args: &str) -> Result<String, Errno>;
    /// Starts a call.
    fn mcp_submit(fd: RawFd, name: &str, args: &str) -> Result<RawFd, Errno>;
    /// The result of a submitted call. Waits unless O_NONBLOCK is set.
    fn mcp_result(fd: RawFd) -> Result<String, Errno>;
    /// Closes a descriptor of any kind; closing twice is allowed.
    fn mcp_close(fd: RawFd) -> Result<(), Errno>;
    /// `{"revision":…,"servers":[{"display_name","server_id","transport"}]}`
    fn mcp_registry_list() -> Result<String, Errno>;
    /// One server of that list, with `allowed_tools` and `budgets`.
    fn mcp_registry_get(server_id: &str) -> Result<String, Errno>;
    /// `{"resources":[…],"server_id":…,"templates":[…]}`: the resources that policy allows this guest to read. Since 1.1.
    fn mcp_list_resources(fd: RawFd) -> Result<String, Errno>;
    /// `{"contents":[…]}`. A read that is denied or fails is a result, `{"error":…}`. Since 1.1.
    fn mcp_read_resource(fd: RawFd, uri: &str) -> Result<String, Errno>;
    /// `{"prompts":[…],"server_id":…}`: the prompts that policy allows this guest to get. Since 1.1.
    fn mcp_list_prompts(fd: RawFd) -> Result<String, Errno>;
    /// `{"messages":[…]}`. A denied or failed request is a result, `{"error":…}`. Since 1.1.
    fn mcp_get_prompt(fd: RawFd, name: &str, args: &str) -> Result<String, Errno>;

    /// An epoll set.
    fn spear_epoll_create() -> Result<RawFd, Errno>;
    /// [`EPOLL_CTL_ADD`], [`EPOLL_CTL_MOD`] or [`EPOLL_CTL_DEL`].
    fn spear_epoll_ctl(epfd: RawFd, op: i32, fd: RawFd, events: i32) -> Result<(), Errno>;
    /// The ready descriptors in ascending order. A timeout below 0 waits without limit, 0 polls.
    fn spear_epoll_wait(epfd: RawFd, timeout_ms: i32) -> Result<Vec<Ready>, Errno>;
    /// Closes a descriptor of any kind; closing twice is allowed.
    fn spear_epoll_close(epfd: RawFd) -> Result<(), Errno>;
    /// [`FD_SET_FLAGS`] and the other `FD_` commands.
    fn spear_fd_ctl(fd: RawFd, cmd: i32, arg: &str) -> Result<String, Errno>;
    /// Cancels the pending operation of a response or an MCP call.
    fn spear_fd_cancel(fd: RawFd) -> Result<(), Errno>;

    /// Frames to and from a client of this run: 1 in, 2 out, 3 both. No client attached: `ENOTCONN`.
    fn user_stream_open(stream_id: i32, direction: i32) -> Result<RawFd, Errno>;
    /// Reads one frame.
    fn user_stream_read(fd: RawFd) -> Result<Vec<u8>, Errno>;
    /// Writes one frame.
    fn user_stream_write(fd: RawFd, frame: &[u8]) -> Result<(), Errno>;
    /// Closes a descriptor of any kind; closing twice is allowed.
    fn user_stream_close(fd: RawFd) -> Result<(), Errno>;
    /// A descriptor of connection events.
    fn user_stream_ctl_open() -> Result<RawFd, Errno>;
    /// Reads one event of 8 bytes: u32 stream id, u32 kind (1 connected, 2 session closed), little-endian.
    fn user_stream_ctl_read(fd: RawFd) -> Result<Vec<u8>, Errno>;

    /// Reserved: `ENOSYS`.
    fn rtasr_create() -> Result<RawFd, Errno>;
    /// Reserved: `ENOSYS`.
    fn rtasr_ctl(fd: RawFd, cmd: i32, arg: &str) -> Result<String, Errno>;
    /// Reserved: `ENOSYS`.
    fn rtasr_write(fd: RawFd, data: &[u8]) -> Result<(), Errno>;
    /// Reserved: `ENOSYS`.
    fn rtasr_read(fd: RawFd) -> Result<Vec<u8>, Errno>;
    /// Reserved: `ENOSYS`.
    fn rtasr_close(fd: RawFd) -> Result<(), Errno>;
    /// Reserved: `ENOSYS`.
    fn mic_create() -> Result<RawFd, Errno>;
    /// Reserved: `ENOSYS`.
    fn mic_ctl(fd: RawFd, cmd: i32, arg: &str) -> Result<String, Errno>;
    /// Reserved: `ENOSYS`.
    fn mic_write(fd: RawFd, data: &[u8]) -> Result<(), Errno>;
    /// Reserved: `ENOSYS`.
    fn mic_read(fd: RawFd) -> Result<Vec<u8>, Errno>;
    /// Reserved: `ENOSYS`.
    fn mic_close(fd: RawFd) -> Result<(), Errno>;
}
