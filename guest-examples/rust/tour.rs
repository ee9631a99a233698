//! The whole tour: a chat with a tool of the guest and one of an MCP server, an MCP tool called directly, two at once,
//! and one that policy refuses. The same program exists in every language.

use spear_guest::{Chat, Epoll, Error, Events, Mcp, McpCall, Tool, info, object};

spear_guest::main!(run);

fn run() -> Result<(), Error> {
    chat_with_tools()?;
    let files = Mcp::open("files")?;
    call_directly(&files)?;
    call_in_parallel(&files)?;
    be_refused(&files)
}

/// The model calls `add` here and `list_directory` of the server `files` in one turn. The second one the host runs.
fn chat_with_tools() -> Result<(), Error> {
    let mut chat = Chat::new()?;
    chat.tool(Tool::new("add", "Adds two whole numbers.").integer("a", "").integer("b", ""), |call| {
        Ok((call.integer("a")? + call.integer("b")?).to_string())
    })?;
    info!("answer: {}", chat.ask("How many notes are there, and what is 20 + 22?")?);
    Ok(())
}

fn call_directly(files: &Mcp) -> Result<(), Error> {
    let text = files.call("read_text_file", object! { "path": "risks.md" })?.text()?;
    info!("direct: {}", text.lines().next().unwrap_or_default());
    Ok(())
}

/// Both run at the same time, whichever is ready first.
fn call_in_parallel(files: &Mcp) -> Result<(), Error> {
    let epoll = Epoll::new()?;
    let mut calls: Vec<(McpCall, Option<usize>)> = Vec::new();
    for note in ["roadmap.md", "minutes-2026-10-05.md"] {
        let call = files.submit("read_text_file", object! { "path": note })?;
        epoll.add(&call, Events::IN)?;
        calls.push((call, None));
    }
    while calls.iter().any(|(_, bytes)| bytes.is_none()) {
        let ready = epoll.wait(None)?;
        for (call, bytes) in &mut calls {
            if bytes.is_none() && ready.iter().any(|one| one.is(call)) {
                *bytes = Some(call.result()?.text()?.len());
                epoll.remove(call)?;
            }
        }
    }
    let sizes: Vec<String> = calls.iter().filter_map(|(_, bytes)| bytes.map(|count| count.to_string())).collect();
    info!("parallel: {}", sizes.join(" "));
    Ok(())
}

/// `write_file` is not among the tools that the server's record allows. That is an answer like any other.
fn be_refused(files: &Mcp) -> Result<(), Error> {
    let result = files.call("write_file", object! { "path": "new.md", "content": "x" })?;
    info!("refused: {}", result.failure().map_or("nothing".to_owned(), |failure| failure.code));
    Ok(())
}
