use crate::fd::has_fd;
use crate::{AsFd, Errno, Failure, Fd, Json, host};

/// A session with an MCP server whose tools the guest calls itself. Tools that the model calls need no code.
///
/// ```no_run
/// use spear_guest::{Mcp, McpCall, McpResult, info, object};
///
/// # fn run() -> Result<(), spear_guest::Error> {
/// let files = Mcp::open("files")?;
/// let text = files.call("read_text_file", object! { "path": "notes/risks.md" })?.text()?;
///
/// // Two concurrent calls.
/// let read = |path: &str| files.submit("read_text_file", object! { "path": path });
/// let (first, second) = (read("a.md")?, read("b.md")?);
/// info!("{} {} {}", text, first.result()?.text()?, second.result()?.text()?);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Mcp {
    fd: Fd,
}

has_fd!(Mcp, McpCall);

impl Mcp {
    /// `EACCES`: MCP is off for this task, or the task may not use this server; `ENOENT`: no such server; `EAGAIN`: the
    /// host has no registry snapshot yet.
    pub fn open(server_id: &str) -> Result<Mcp, Errno> {
        Ok(Mcp { fd: Fd::from_raw(host::mcp_open(server_id)?) })
    }

    /// The tools of the server that this guest may call. `ENOTCONN`: the server is down; `ETIMEDOUT`: it did not
    /// respond; `EACCES`: it was revoked.
    pub fn tools(&self) -> Result<Vec<McpTool>, Errno> {
        let body = parsed(host::mcp_list_tools(self.fd.raw_fd()))?;
        Ok(body["tools"].items().iter().map(McpTool::of).collect())
    }

    /// Calls a tool and waits. `args` is a JSON object, as a [`Json`] or as text. A call that is denied or fails is a
    /// result: see [`McpResult::failure`]. A call is never executed twice.
    pub fn call(&self, tool: &str, args: impl Into<String>) -> Result<McpResult, Errno> {
        host::mcp_call_tool(self.fd.raw_fd(), tool, &args.into()).map(McpResult::of)
    }

    /// Starts a call without waiting, so that several can run concurrently. `EAGAIN`: too many are pending.
    pub fn submit(&self, tool: &str, args: impl Into<String>) -> Result<McpCall, Errno> {
        let raw = host::mcp_submit(self.fd.raw_fd(), tool, &args.into())?;
        Ok(McpCall { fd: self.fd.inheriting(raw) })
    }

    /// The `resources` that this guest may read, each with its `uri`, and `templates`. Errors as for
    /// [`Mcp::tools`].
    pub fn resources(&self) -> Result<Json, Errno> {
        parsed(host::mcp_list_resources(self.fd.raw_fd()))
    }

    /// Reads a resource and waits. [`McpResult::text`] has its texts, [`McpResult::json`] its `contents`.
    pub fn read(&self, uri: &str) -> Result<McpResult, Errno> {
        host::mcp_read_resource(self.fd.raw_fd(), uri).map(McpResult::of)
    }

    /// The `prompts` that this guest may get. Errors as for [`Mcp::tools`].
    pub fn prompts(&self) -> Result<Json, Errno> {
        parsed(host::mcp_list_prompts(self.fd.raw_fd()))
    }

    /// Gets a prompt with a JSON object of strings. [`McpResult::text`] has the texts of its `messages`.
    pub fn prompt(&self, name: &str, args: impl Into<String>) -> Result<McpResult, Errno> {
        host::mcp_get_prompt(self.fd.raw_fd(), name, &args.into()).map(McpResult::of)
    }

    /// The servers that this task may use.
    pub fn servers() -> Result<Vec<Server>, Errno> {
        let body = parsed(host::mcp_registry_list())?;
        Ok(body["servers"].items().iter().map(Server::of).collect())
    }

    /// One server, with its `allowed_tools` and `budgets`.
    pub fn server(server_id: &str) -> Result<Json, Errno> {
        parsed(host::mcp_registry_get(server_id))
    }
}

fn parsed(text: Result<String, Errno>) -> Result<Json, Errno> {
    Json::parse(&text?).map_err(|_| Errno::EIO)
}

/// A submitted call. Dropping it cancels the call.
#[derive(Debug)]
pub struct McpCall {
    fd: Fd,
}

impl McpCall {
    /// Waits for the result; returns the same every time. `ECANCELED`: the call was canceled.
    pub fn result(&self) -> Result<McpResult, Errno> {
        self.fd.set_nonblocking(false)?;
        host::mcp_result(self.fd.raw_fd()).map(McpResult::of)
    }

    /// The result if it is available.
    pub fn try_result(&self) -> Result<Option<McpResult>, Errno> {
        self.fd.set_nonblocking(true)?;
        match host::mcp_result(self.fd.raw_fd()) {
            Ok(text) => Ok(Some(McpResult::of(text))),
            Err(Errno::EAGAIN) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    /// Cancels the call; its result is then `ECANCELED`.
    pub fn cancel(&self) -> Result<(), Errno> {
        self.fd.cancel()
    }
}

/// The result of a tool, or the content of a resource or a prompt.
#[derive(Clone, Debug)]
pub struct McpResult {
    text: String,
    json: Json,
}

impl McpResult {
    fn of(text: String) -> McpResult {
        let json = Json::parse(&text).unwrap_or_default();
        McpResult { text, json }
    }

    /// Why the call was denied or failed, if it was.
    pub fn failure(&self) -> Option<Failure> {
        Failure::of(&self.json)
    }

    /// The texts of the result, one after another with a line break between them.
    pub fn text(&self) -> Result<String, Failure> {
        if let Some(failure) = self.failure() {
            return Err(failure);
        }
        let own = ["content", "contents"].into_iter().flat_map(|field| self.json[field].items());
        let said = self.json["messages"].items().iter().map(|message| &message["content"]);
        let texts: Vec<&str> = own.chain(said).filter_map(|item| item["text"].as_str()).collect();
        if texts.is_empty() { Err(Failure::no_text()) } else { Ok(texts.join("\n")) }
    }

    /// The whole result: `content` and maybe `structuredContent` of a tool, `contents` of a resource, `messages` of a
    /// prompt, or `error`.
    pub fn json(&self) -> &Json {
        &self.json
    }

    /// The same as text, for another JSON library.
    pub fn body(&self) -> &str {
        &self.text
    }
}

/// A tool of a server.
#[derive(Clone, Debug)]
pub struct McpTool {
    /// The name for [`Mcp::call`].
    pub name: String,
    /// The description by the server.
    pub description: String,
    /// The JSON schema of its arguments.
    pub input_schema: Json,
}

impl McpTool {
    fn of(json: &Json) -> McpTool {
        let text = |name: &str| json[name].as_str().unwrap_or_default().to_owned();
        McpTool { name: text("name"), description: text("description"), input_schema: json["inputSchema"].clone() }
    }
}

/// A server in the registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// The id for [`Mcp::open`].
    pub server_id: String,
    /// Display name.
    pub display_name: String,
    /// `stdio`, `streamable_http` or `http_sse_legacy`.
    pub transport: String,
}

impl Server {
    fn of(json: &Json) -> Server {
        let text = |name: &str| json[name].as_str().unwrap_or_default().to_owned();
        Server { server_id: text("server_id"), display_name: text("display_name"), transport: text("transport") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_texts_of_a_result_are_joined() {
        let body = r#"{"content":[{"type":"text","text":"a"},{"type":"image","data":""},{"type":"text","text":"b"}]}"#;
        let result = McpResult::of(body.to_owned());
        assert_eq!(result.text().as_deref(), Ok("a\nb"));
        assert_eq!((result.failure(), result.body()), (None, body));
    }

    #[test]
    fn a_resource_and_a_prompt_have_texts_too() {
        let read = McpResult::of(r#"{"contents":[{"uri":"a:b","text":"a"},{"uri":"a:c","blob":"eA=="}]}"#.to_owned());
        assert_eq!(read.text().as_deref(), Ok("a"));
        let got = r#"{"messages":[{"role":"user","content":{"type":"text","text":"b"}}]}"#;
        assert_eq!(McpResult::of(got.to_owned()).text().as_deref(), Ok("b"));
    }

    #[test]
    fn a_refused_call_has_a_failure_and_no_text() {
        let result = McpResult::of(r#"{"error":{"code":"mcp_policy_denied","message":"no"}}"#.to_owned());
        assert_eq!(result.failure().map(|failure| failure.code).as_deref(), Some("mcp_policy_denied"));
        assert!(result.text().is_err());
        assert_eq!(McpResult::of(r#"{"content":[]}"#.to_owned()).text().unwrap_err().code, "no_text");
    }
}
