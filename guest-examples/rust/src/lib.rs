//! Agents for the Spear host, in Rust.
//!
//! ```no_run
//! use spear_guest::{Chat, Error, Tool, info};
//!
//! spear_guest::main!(run);
//!
//! fn run() -> Result<(), Error> {
//!     let mut chat = Chat::new()?;
//!     chat.tool(Tool::new("add", "Adds two whole numbers.").integer("a", "").integer("b", ""), |call| {
//!         Ok((call.integer("a")? + call.integer("b")?).to_string())
//!     })?;
//!     info!("{}", chat.ask("What is 20 + 22?")?);
//!     Ok(())
//! }
//! ```
//!
//! - [`Chat`] is a conversation with a model: messages, parameters, tools that are closures. [`Chat::send`] runs the
//!   whole tool loop, [`Chat::stream`] streams the response. The host offers the tools of the task's MCP servers to the model, without any code here.
//! - [`Mcp`] is a session with a server whose tools the guest calls itself, sequentially or concurrently ([`McpCall`]).
//! - [`UserStream`] carries frames between the guest and a client of its run.
//! - [`Epoll`] waits for several descriptors.
//! - Dropping a value closes its descriptor. Calls that fail return an [`Errno`]; a response that is an error
//!   (an unreachable model, a denied tool call) is a [`Failure`].
//! - A guest has no stdout: [`info!`] and its siblings write log lines.
//!
//! # Two forms
//!
//! The same source builds to a component (feature `component`, the default) and to a plain module (feature `core`, which wins if both are enabled).
//! The guide is `docs/guests/rust.md`.

#![warn(missing_docs)]

#[cfg(not(any(feature = "component", feature = "core")))]
compile_error!("spear-guest: turn on the feature `component` (the default) or `core`");

mod chat;
mod entry;
mod epoll;
mod errno;
mod failure;
mod fd;
pub mod host;
pub mod json;
mod mcp;
mod response;
mod stream;
mod system;
mod tool;
mod user_stream;

pub use chat::{Chat, Progress, Sending};
pub use entry::Outcome;
pub use epoll::{Epoll, Events, Ready};
pub use errno::Errno;
pub use failure::{Error, Failure};
pub use fd::{AsFd, Fd, RawFd};
pub use json::Json;
pub use mcp::{Mcp, McpCall, McpResult, McpTool, Server};
pub use response::Response;
pub use stream::{Stream, StreamEvent};
pub use system::{Level, MAX_LOG_BYTES, abi_version, has_feature, log, now_ms, random, sleep};
pub use tool::{Tool, ToolCall, ToolError};
pub use user_stream::{Direction, Frame, UserStream};

/// Internals of the macros of this crate; not part of the API.
#[doc(hidden)]
pub mod __private {
    pub use crate::entry::enter;
    #[cfg(all(target_family = "wasm", feature = "component", not(feature = "core")))]
    pub use crate::host::binding as component;
}
