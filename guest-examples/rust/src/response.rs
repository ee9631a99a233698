use crate::fd::has_fd;
use crate::{Errno, Failure, Fd, Json, ToolCall, host};

/// The response of the model, or the failure.
#[derive(Debug)]
pub struct Response {
    pub(crate) fd: Fd,
    body: String,
    json: Json,
    text: Option<String>,
}

has_fd!(Response);

impl Response {
    pub(crate) fn receive(fd: Fd) -> Result<Response, (Fd, Errno)> {
        match host::cchat_recv(crate::AsFd::raw_fd(&fd)) {
            Ok(body) => {
                let json = Json::parse(&body).unwrap_or_default();
                let text = message_text(&json["choices"][0]["message"]);
                Ok(Response { fd, body, json, text })
            }
            Err(errno) => Err((fd, errno)),
        }
    }

    /// The text of the model, including a refusal.
    pub fn answer(&self) -> Result<&str, Failure> {
        if let Some(failure) = Failure::of(&self.json) {
            return Err(failure);
        }
        self.text.as_deref().ok_or_else(Failure::no_text)
    }

    /// The whole body: that of the provider, with the host's `_spear` added.
    pub fn json(&self) -> &Json {
        &self.json
    }

    /// The same as text, for another JSON library.
    pub fn body(&self) -> &str {
        &self.body
    }

    /// Tokens, model calls, tool calls and times of the send, if [`Chat::collect_metrics`](crate::Chat::collect_metrics) was on.
    pub fn metrics(&self) -> Result<Json, Errno> {
        let text = host::cchat_ctl(crate::AsFd::raw_fd(&self.fd), host::CHAT_GET_METRICS, "")?;
        Json::parse(&text).map_err(|_| Errno::EIO)
    }

    /// Pending calls of guest tools.
    pub(crate) fn handed_back(&self) -> Vec<ToolCall> {
        self.json["_spear"]["pending_tool_calls"].items().iter().map(ToolCall::of).collect()
    }
}

/// The text of a message: its content, which may consist of parts, or else its refusal.
fn message_text(message: &Json) -> Option<String> {
    let content = &message["content"];
    let parts =
        content.items().iter().map(|part| part["text"].as_str().or(part["refusal"].as_str()).unwrap_or_default());
    let text = match content {
        Json::String(text) => Some(text.clone()),
        Json::Array(items) if !items.is_empty() => Some(parts.collect()),
        _ => None,
    };
    match text {
        Some(text) if !text.is_empty() => Some(text),
        nothing => message["refusal"].as_str().map(str::to_owned).or(nothing),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_a_message_is_its_content_in_any_form_or_its_refusal() {
        let text = |json: &str| message_text(&Json::parse(json).unwrap());
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(text(r#"{"content":"yes"}"#), some("yes"));
        assert_eq!(
            text(r#"{"content":[{"type":"text","text":"y"},{"type":"x"},{"type":"text","text":"es"}]}"#),
            some("yes")
        );
        assert_eq!(text(r#"{"content":[{"type":"refusal","refusal":"no"}]}"#), some("no"));
        assert_eq!(text(r#"{"content":null,"refusal":"no"}"#), some("no"));
        assert_eq!(text(r#"{"content":"","refusal":"no"}"#), some("no"));
        assert_eq!(text(r#"{"content":"yes","refusal":"no"}"#), some("yes"));
        assert_eq!(text(r#"{"content":"","refusal":null}"#), some(""));
        assert_eq!(text(r#"{"content":null}"#), None);
        assert_eq!(text(r#"{"content":[]}"#), None);
    }
}
