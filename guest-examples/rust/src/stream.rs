use crate::{AsFd, Chat, Errno, Failure, Fd, Json, Response, host};
use std::collections::VecDeque;

/// Events of a streamed response: see [`Chat::stream`].
#[derive(Clone, Debug)]
pub enum StreamEvent {
    /// A piece of the response text.
    Text(String),
    /// A piece of the model's reasoning, if the provider returns it.
    Reasoning(String),
    /// The model calls this tool.
    ToolStart {
        /// Id of the call.
        id: String,
        /// Name of the tool.
        name: String,
    },
    /// The host has the result of a call.
    ToolResult {
        /// Id of the call.
        id: String,
        /// Name of the tool.
        name: String,
        /// Whether the call succeeded.
        ok: bool,
    },
    /// Token usage of one model response, as reported by the provider.
    Usage(Json),
    /// The send failed; [`StreamEvent::End`] follows.
    Error(Failure),
    /// The last event, with the finish reason of the provider.
    End(String),
}

impl StreamEvent {
    /// None for an event of a newer host.
    fn of(json: &Json) -> Option<StreamEvent> {
        let text = |key: &str| json[key].as_str().unwrap_or_default().to_owned();
        let (id, name) = (text("id"), text("name"));
        Some(match json["type"].as_str()? {
            "text" => StreamEvent::Text(text("text")),
            "reasoning" => StreamEvent::Reasoning(text("text")),
            "tool_start" => StreamEvent::ToolStart { id, name },
            "tool_result" => StreamEvent::ToolResult { id, name, ok: json["ok"].as_bool().unwrap_or_default() },
            "usage" => StreamEvent::Usage(json["usage"].clone()),
            "error" => StreamEvent::Error(Failure::of(json)?),
            "end" => StreamEvent::End(text("finish_reason")),
            _ => return None,
        })
    }
}

/// Iterator over the events of a send. Dropping it cancels the send.
#[derive(Debug)]
pub struct Stream<'c, 't> {
    chat: &'c mut Chat<'t>,
    /// None when the stream has ended.
    fd: Option<Fd>,
    events: VecDeque<StreamEvent>,
    response: Option<Response>,
}

impl<'c, 't> Stream<'c, 't> {
    pub(crate) fn new(chat: &'c mut Chat<'t>, fd: Fd) -> Stream<'c, 't> {
        Stream { chat, fd: Some(fd), events: VecDeque::new(), response: None }
    }

    /// The whole response, after [`StreamEvent::End`].
    pub fn response(&self) -> Option<&Response> {
        self.response.as_ref()
    }

    /// At the end of one send: runs the tools that the model called and starts the next send. Returns whether it did.
    fn goes_on(&mut self) -> Result<bool, Errno> {
        let Some(fd) = self.fd.take() else { return Ok(false) };
        let response = Response::receive(fd).map_err(|(_, errno)| errno)?;
        if self.chat.answer_tools(&response)? {
            self.fd = Some(self.chat.post(host::SEND_HAND_BACK | host::SEND_STREAM)?);
            return Ok(true);
        }
        self.response = Some(response);
        Ok(false)
    }

    fn read(&mut self) -> Result<Option<StreamEvent>, Errno> {
        loop {
            match self.events.pop_front() {
                Some(StreamEvent::End(_)) if self.goes_on()? => continue,
                Some(event) => return Ok(Some(event)),
                None => {}
            }
            let Some(fd) = &self.fd else { return Ok(None) };
            let lines = host::cchat_read(fd.raw_fd())?;
            if lines.is_empty() {
                self.fd = None;
            }
            let events = lines.lines().filter_map(|line| StreamEvent::of(&Json::parse(line).ok()?));
            self.events.extend(events);
        }
    }
}

impl Iterator for Stream<'_, '_> {
    type Item = Result<StreamEvent, Errno>;

    fn next(&mut self) -> Option<Self::Item> {
        let event = self.read();
        if event.is_err() {
            self.fd = None;
        }
        event.transpose()
    }
}
