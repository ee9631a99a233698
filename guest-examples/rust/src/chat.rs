use crate::fd::has_fd;
use crate::{AsFd, Errno, Error, Fd, Json, Response, Stream, Tool, ToolCall, ToolError, host, object};
use std::fmt;

type Run<'t> = Box<dyn FnMut(&ToolCall) -> Result<String, ToolError> + 't>;

/// A conversation with a model. The host keeps its history.
///
/// The closures of its tools may borrow what lives longer than the chat; `'t` is for how long.
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

    /// Appends a message: `system`, `user` or `assistant`, or a role that the provider knows. During a send that does
    /// not wait it applies to the next one.
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

    /// Sets a parameter: `model`, `max_iterations`, `mcp.server_ids`, …; what the host does not know goes to the
    /// provider (`temperature`). `EACCES`: beyond what the task allows.
    pub fn set(&self, key: &str, value: impl Into<Json>) -> Result<(), Errno> {
        let param = object! { "key": key, "value": value.into() };
        host::cchat_ctl(self.fd.raw_fd(), host::CHAT_SET_PARAM, &param.to_string()).map(drop)
    }

    /// Whether responses have [metrics](Response::metrics).
    pub fn collect_metrics(&mut self, on: bool) {
        self.metrics = on;
    }

    /// Gives the model a tool that is a closure. It answers with a text, or with JSON as text; an error is an answer
    /// too. Of two tools with one name the later counts.
    ///
    /// The closure runs between two calls of the host, so it may make calls itself, and other chats may send.
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

    /// Asks the model and waits for its answer. Tools of the guest and of the task's MCP servers are offered to it, and
    /// run as often as it calls them; `max_iterations` and `max_total_tool_calls` bound that.
    ///
    /// A model that cannot be reached is no [`Errno`] but a response that says so: see [`Response::answer`].
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

    /// Asks the model without offering it any tool.
    pub fn send_without_tools(&mut self) -> Result<Response, Errno> {
        self.fd.set_nonblocking(false)?;
        let fd = self.post(0)?;
        Response::receive(fd).map_err(|(_, errno)| errno)
    }

    /// A message of the user, [`Chat::send`], and what the model said.
    pub fn ask(&mut self, text: &str) -> Result<String, Error> {
        self.user(text)?;
        Ok(self.send()?.answer()?.to_owned())
    }

    /// Asks the model and does not wait. Give what this returns to [`Chat::resume`], any time or when an
    /// [`Epoll`](crate::Epoll) says that it is ready. `EBUSY`: an earlier one is not finished.
    pub fn start(&mut self) -> Result<Sending, Errno> {
        self.fd.set_nonblocking(true)?;
        Ok(Sending { fd: self.post(host::SEND_HAND_BACK)? })
    }

    /// Takes a send further, without waiting: if the model wants tools they run here and the send goes on, with a new
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

    /// Asks the model and gives its answer while it comes; the tools of the guest run on the way.
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

    /// Whether the model wanted tools; if so, all of them are answered.
    pub(crate) fn answer_tools(&mut self, response: &Response) -> Result<bool, Errno> {
        let calls = response.handed_back();
        for call in &calls {
            let content = match self.tools.iter_mut().find(|(name, _)| name == call.name()) {
                Some((_, run)) => run(call).unwrap_or_else(|error| error.content()),
                None => ToolError::from("no such tool").content(),
            };
            match host::cchat_write_tool_result(self.fd.raw_fd(), &call.id, &content) {
                // A call without an answer would block the session: the model is told instead.
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

/// A send that runs: see [`Chat::start`]. Dropping it cancels it.
#[derive(Debug)]
pub struct Sending {
    fd: Fd,
}

has_fd!(Sending);

impl Sending {
    /// Ends the send; [`Chat::resume`] then gives `ECANCELED`.
    pub fn cancel(&self) -> Result<(), Errno> {
        self.fd.cancel()
    }
}

/// How far a send is: see [`Chat::resume`].
#[derive(Debug)]
pub enum Progress {
    /// The model has answered.
    Done(Response),
    /// Not yet. The descriptor may be another one: add it to the epoll set again.
    Sending(Sending),
}
