use crate::fd::has_fd;
use crate::{AsFd, Errno, Error, Fd, Json, Response, Stream, Tool, ToolCall, ToolError, host, object};
use std::fmt;

type Run<'t> = Box<dyn FnMut(&ToolCall) -> Result<String, ToolError> + 't>;

/// A conversation with a model. The host keeps its history.
///
/// The closures of its tools may borrow values that outlive the chat; `'t` is their lifetime.
///
/// ```no_run
/// # use spear_guest::{Chat, Error, Tool};
/// # fn run() -> Result<(), Error> {
/// let mut seen = Vec::new();
/// let mut chat = Chat::new()?;
/// chat.set("temperature", 0)?;
/// chat.system("You keep a list.")?;
/// chat.tool(Tool::new("note", "Writes down a text.").text("text", "What to write down"), |call| {
///     seen.push(call.text("text")?.to_owned());
///     Ok("noted")
/// })?;
/// let answer = chat.ask("Note three colours.")?;
/// drop(chat); // `seen` is free again
/// println!("{answer} {seen:?}");
/// # Ok(())
/// # }
/// ```
pub struct Chat<'t> {
    fd: Fd,
    tools: Vec<(String, Run<'t>)>,
    metrics: bool,
}

impl AsFd for Chat<'_> {
    fn raw_fd(&self) -> crate::RawFd {
        self.fd.raw_fd()
    }
}

impl fmt::Debug for Chat<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tools: Vec<&str> = self.tools.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("Chat").field("fd", &self.fd).field("tools", &tools).finish()
    }
}

impl<'t> Chat<'t> {
    /// A conversation without messages. `EMFILE`: too many are open.
    pub fn new() -> Result<Chat<'t>, Errno> {
        Ok(Chat { fd: Fd::from_raw(host::cchat_create()?), tools: Vec::new(), metrics: false })
    }

    /// Appends a message: `system`, `user` or `assistant`, or a role that the provider knows. During a non-blocking send
    /// the message applies to the next send.
    pub fn say(&self, role: &str, text: &str) -> Result<(), Errno> {
        host::cchat_write_msg(self.fd.raw_fd(), role, text)
    }

    /// Appends a message of the system.
    pub fn system(&self, text: &str) -> Result<(), Errno> {
        self.say("system", text)
    }

    /// Appends a message of the user.
    pub fn user(&self, text: &str) -> Result<(), Errno> {
        self.say("user", text)
    }

    /// Sets a parameter: `model`, `max_iterations`, `mcp.server_ids`, …; other parameters are forwarded to the
    /// provider (`temperature`). `EACCES`: exceeds what the task allows.
    pub fn set(&self, key: &str, value: impl Into<Json>) -> Result<(), Errno> {
        let param = object! { "key": key, "value": value.into() };
        host::cchat_ctl(self.fd.raw_fd(), host::CHAT_SET_PARAM, &param.to_string()).map(drop)
    }

    /// Whether responses have [metrics](Response::metrics).
    pub fn collect_metrics(&mut self, on: bool) {
        self.metrics = on;
    }

    /// Offers a closure to the model as a tool. It returns a text, or JSON as text; an error is a result
    /// too. The later of two tools with the same name wins.
    ///
    /// The closure runs between two hostcalls, so it may make hostcalls itself, and other chats may send.
    pub fn tool<F, T>(&mut self, tool: Tool, mut run: F) -> Result<(), Errno>
    where
        F: FnMut(&ToolCall) -> Result<T, ToolError> + 't,
        T: Into<String>,
    {
        host::cchat_write_fn(self.fd.raw_fd(), &tool.to_json().to_string())?;
        self.tools.retain(|(name, _)| name != tool.name());
        self.tools.push((tool.name().to_owned(), Box::new(move |call| run(call).map(Into::into))));
        Ok(())
    }

    /// Sends to the model and waits for the response. Tools of the guest and of the task's MCP servers are offered, and
    /// run whenever the model calls them, limited by `max_iterations` and `max_total_tool_calls`.
    ///
    /// An unreachable model is not an [`Errno`] but a response with an error: see [`Response::answer`].
    pub fn send(&mut self) -> Result<Response, Errno> {
        self.fd.set_nonblocking(false)?;
        loop {
            let fd = self.post(host::SEND_HAND_BACK)?;
            let response = Response::receive(fd).map_err(|(_, errno)| errno)?;
            if !self.answer_tools(&response)? {
                return Ok(response);
            }
        }
    }

    /// Sends to the model without offering tools.
    pub fn send_without_tools(&mut self) -> Result<Response, Errno> {
        self.fd.set_nonblocking(false)?;
        let fd = self.post(0)?;
        Response::receive(fd).map_err(|(_, errno)| errno)
    }

    /// Appends a user message, calls [`Chat::send`], and returns the text of the model.
    pub fn ask(&mut self, text: &str) -> Result<String, Error> {
        self.user(text)?;
        Ok(self.send()?.answer()?.to_owned())
    }

    /// Sends to the model without waiting. Pass the result to [`Chat::resume`], any time or when an
    /// [`Epoll`](crate::Epoll) reports that it is ready. `EBUSY`: an earlier send is pending.
    pub fn start(&mut self) -> Result<Sending, Errno> {
        self.fd.set_nonblocking(true)?;
        Ok(Sending { fd: self.post(host::SEND_HAND_BACK)? })
    }

    /// Continues a send without waiting: if the model calls tools, they run here and the send continues with a new
    /// descriptor.
    pub fn resume(&mut self, sending: Sending) -> Result<Progress, Errno> {
        let response = match Response::receive(sending.fd) {
            Ok(response) => response,
            Err((fd, Errno::EAGAIN)) => return Ok(Progress::Sending(Sending { fd })),
            Err((_, errno)) => return Err(errno),
        };
        if !self.answer_tools(&response)? {
            return Ok(Progress::Done(response));
        }
        self.start().map(Progress::Sending)
    }

    /// Sends to the model and streams the response; the tools of the guest run meanwhile.
    ///
    /// ```no_run
    /// # use spear_guest::{Chat, Error, StreamEvent, info};
    /// # fn run() -> Result<(), Error> {
    /// let mut chat = Chat::new()?;
    /// chat.user("Tell me a story.")?;
    /// for event in chat.stream()? {
    ///     if let StreamEvent::Text(text) = event? {
    ///         info!("{text}");
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn stream(&mut self) -> Result<Stream<'_, 't>, Errno> {
        self.fd.set_nonblocking(false)?;
        let fd = self.post(host::SEND_HAND_BACK | host::SEND_STREAM)?;
        Ok(Stream::new(self, fd))
    }

    pub(crate) fn post(&self, flags: i32) -> Result<Fd, Errno> {
        let metrics = if self.metrics { host::SEND_METRICS } else { 0 };
        Ok(self.fd.inheriting(host::cchat_send(self.fd.raw_fd(), flags | metrics)?))
    }

    /// Whether the model called tools; if so, all of them have results.
    pub(crate) fn answer_tools(&mut self, response: &Response) -> Result<bool, Errno> {
        let calls = response.handed_back();
        for call in &calls {
            let content = match self.tools.iter_mut().find(|(name, _)| name == call.name()) {
                Some((_, run)) => run(call).unwrap_or_else(|error| error.content()),
                None => ToolError::from("no such tool").content(),
            };
            match host::cchat_write_tool_result(self.fd.raw_fd(), &call.id, &content) {
                // A call without a result would block the session: the model gets an error instead.
                Err(Errno::EMSGSIZE) => {
                    let content = ToolError::from("the result is larger than a limit of the task").content();
                    host::cchat_write_tool_result(self.fd.raw_fd(), &call.id, &content)?;
                }
                written => written?,
            }
        }
        Ok(!calls.is_empty())
    }
}

/// A pending send: see [`Chat::start`]. Dropping it cancels the send.
#[derive(Debug)]
pub struct Sending {
    fd: Fd,
}

has_fd!(Sending);

impl Sending {
    /// Cancels the send; [`Chat::resume`] then returns `ECANCELED`.
    pub fn cancel(&self) -> Result<(), Errno> {
        self.fd.cancel()
    }
}

/// State of a send: see [`Chat::resume`].
#[derive(Debug)]
pub enum Progress {
    /// The model has answered.
    Done(Response),
    /// Still pending. The descriptor may have changed: add it to the epoll set again.
    Sending(Sending),
}
