use crate::fd::has_fd;
use crate::{Errno, Failure, Fd, Json, ToolCall, host};

/// What the model answered, or why it did not.
#[derive(Debug)]
pub struct Response {
    pub(crate) fd: Fd,
    body: String,
    json: Json,
}

has_fd!(Response);

impl Response {
    pub(crate) fn receive(fd: Fd) -> Result<Response, (Fd, Errno)> {
        match host::cchat_recv(crate::AsFd::raw_fd(&fd)) {
            Ok(body) => {
                let json = Json::parse(&body).unwrap_or_default();
                Ok(Response { fd, body, json })
            }
            Err(errno) => Err((fd, errno)),
        }
    }

    /// What the model said.
    pub fn answer(&self) -> Result<&str, Failure> {
        if let Some(failure) = Failure::of(&self.json) {
            return Err(failure);
        }
        self.json["choices"][0]["message"]["content"].as_str().ok_or_else(Failure::no_text)
    }

    /// The whole body: that of the provider, with the host's `_spear` added.
    pub fn json(&self) -> &Json {
        &self.json
    }

    /// The same as text, for a JSON library of your own.
    pub fn body(&self) -> &str {
        &self.body
    }

    /// Tokens, model calls, tool calls and times of the send, if [`Chat::collect_metrics`](crate::Chat::collect_metrics) was on.
    pub fn metrics(&self) -> Result<Json, Errno> {
        let text = host::cchat_ctl(crate::AsFd::raw_fd(&self.fd), host::CHAT_GET_METRICS, "")?;
        Json::parse(&text).map_err(|_| Errno::EIO)
    }

    /// The guest's tools that the model wants now.
    pub(crate) fn handed_back(&self) -> Vec<ToolCall> {
        self.json["_spear"]["pending_tool_calls"].items().iter().map(ToolCall::of).collect()
    }
}
