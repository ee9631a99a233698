use crate::{AsFd, Chat, Errno, Failure, Fd, Json, Response, host};
use std::collections::VecDeque;

/// What happens while an answer comes: see [`Chat::stream`].
#[derive(Clone, Debug)]
pub enum StreamEvent {
    /// A piece of the answer.
    Text(String),
    /// A piece of what the model thinks first, where the provider shows it.
    Reasoning(String),
    /// The model calls this tool.
    ToolStart {
        /// Of the call.
        id: String,
        /// Of the tool.
        name: String,
    },
    /// A call was answered by the host.
    ToolResult {
        /// Of the call.
        id: String,
        /// Of the tool.
        name: String,
        /// Whether it did what it should.
        ok: bool,
    },
    /// What one answer of the model cost, as the provider counts.
    Usage(Json),
    /// The send failed; [`StreamEvent::End`] follows.
    Error(Failure),
    /// The last one, with the reason that the provider gives.
    End(String),
}

impl StreamEvent {
    /// None for an event that a later host may have.
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

/// The events of a send, as they come. Dropping it cancels the send.
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

    /// The whole answer, once [`StreamEvent::End`] has come.
    pub fn response(&self) -> Option<&Response> {
        self.response.as_ref()
    }

    /// At the end of one send: the tools that the model wants are run, and the next send begins. Whether that is so.
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
