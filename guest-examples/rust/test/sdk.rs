//! Uses what the SDK offers and says what came of it, for the test of the SDK. Servers: tiny, and mid whose `hang`
//! never answers.

use spear_guest::{AsFd, Chat, Epoll, Errno, Error, Events, Fd, Mcp, McpCall, Progress, Sending, Tool, info, object};
use std::time::Duration;

spear_guest::main!(run);

fn run() -> Result<(), Error> {
    system();
    descriptors()?;
    errors()?;
    tools()?;
    nested_chat()?;
    without_waiting()?;
    mcp()?;
    many_events()
}

fn system() {
    let before = spear_guest::now_ms();
    spear_guest::sleep(Duration::from_millis(5));
    let (major, minor) = spear_guest::abi_version();
    info!("abi: {major}.{minor}, feature: {}", spear_guest::has_feature("no such feature"));
    info!("clock: {}, random: {}", spear_guest::now_ms() - before >= 4, spear_guest::random() != spear_guest::random());
    info!("{}", "é".repeat(spear_guest::MAX_LOG_BYTES / 2 + 1));
}

fn descriptors() -> Result<(), Error> {
    let chat = Chat::new()?;
    let raw = chat.raw_fd();
    let status = Fd::from_raw(raw);
    info!("kind: {}", status.status()?["kind"]);
    assert_eq!(status.into_raw(), raw);
    info!("open: {:?}", chat.user("never sent"));
    drop(chat);
    info!("dropped: {:?}", spear_guest::host::cchat_write_msg(raw, "user", "x"));
    Ok(())
}

fn errors() -> Result<(), Error> {
    let mut chat = Chat::new()?;
    info!("set: {:?} {:?}", chat.set("mcp.task_x", true), chat.set("max_iterations", "many"));
    info!("server: {:?}", Mcp::open("nowhere").map(drop));
    chat.user("Fail, please.")?;
    info!("model: {:?}", chat.send()?.answer());
    chat.user("Nothing but tools.")?;
    info!("no text: {:?}", chat.send_without_tools()?.answer());
    Ok(())
}

/// A tool that borrows, one that fails, one that is called with other arguments than it wants, and a long answer.
fn tools() -> Result<(), Error> {
    let mut noted = Vec::new();
    let mut chat = Chat::new()?;
    chat.collect_metrics(true);
    chat.tool(Tool::new("note", "").text("text", ""), |call| {
        noted.push(call.text("text")?.to_owned());
        Ok("noted")
    })?;
    chat.tool(Tool::new("age", "").text("years", ""), |call| {
        let years: u8 = call.text("years")?.parse()?;
        if years > 150 {
            Err(format!("{years} years is too old"))?
        }
        Ok(object! { "years": years })
    })?;
    chat.tool(Tool::new("flood", ""), |_| Ok("x".repeat(5 << 20)))?;
    chat.user("Use the tools.")?;
    let response = chat.send()?;
    info!("long answer: {} bytes", response.answer()?.len());
    let metrics = response.metrics()?;
    info!("metrics: {} model calls, {} tool calls", metrics["iterations"], metrics["tool_calls"]);
    drop(chat);
    info!("noted: {noted:?}");
    Ok(())
}

/// A tool that asks another chat.
fn nested_chat() -> Result<(), Error> {
    let mut chat = Chat::new()?;
    chat.tool(Tool::new("delegate", "").text("task", ""), |call| Ok(Chat::new()?.ask(call.text("task")?)?))?;
    info!("nested: {}", chat.ask("Delegate this.")?);
    Ok(())
}

fn finish(chat: &mut Chat<'_>, epoll: &Epoll, mut sending: Sending) -> Result<(u32, String), Error> {
    for rounds in 1.. {
        epoll.add(&sending, Events::IN)?;
        epoll.wait(Some(Duration::from_secs(30)))?;
        match chat.resume(sending)? {
            Progress::Done(response) => return Ok((rounds, response.answer()?.to_owned())),
            Progress::Sending(next) => sending = next,
        }
    }
    unreachable!()
}

fn without_waiting() -> Result<(), Error> {
    let epoll = Epoll::new()?;
    let mut chat = Chat::new()?;
    chat.tool(Tool::new("step", ""), |_| Ok("stepped"))?;
    chat.user("Go step by step.")?;
    let sending = chat.start()?;
    let (rounds, answer) = finish(&mut chat, &epoll, sending)?;
    info!("without waiting: {answer} ({rounds} rounds)");
    info!("and waiting again: {}", chat.ask("Once more.")?);
    chat.user("Wait for ever.")?;
    let sending = chat.start()?;
    info!("busy: {:?}", chat.send().map(drop));
    sending.cancel()?;
    info!("canceled: {:?}", chat.resume(sending).map(drop));
    Ok(())
}

fn mcp() -> Result<(), Error> {
    let ids: Vec<String> = Mcp::servers()?.into_iter().map(|server| server.server_id).collect();
    info!("servers: {}, transport: {}", ids.join(" "), Mcp::server("tiny")?["transport"]);
    let tiny = Mcp::open("tiny")?;
    let names: Vec<String> = tiny.tools()?.into_iter().map(|tool| tool.name).collect();
    info!("tools: {}", names.join(" "));
    info!("echo: {}", tiny.call("echo", r#"{"message":"as text"}"#)?.text()?);
    info!("large: {}", tiny.call("echo", object! { "message": "ä".repeat(5000) })?.text()?.len());
    info!("structured: {}", tiny.call("structured", "")?.json()["structuredContent"]);
    info!("failed: {:?}", tiny.call("fail", "")?.text().map_err(|failure| failure.code));

    let hanging = Mcp::open("mid")?.submit("hang", "{}")?;
    info!("pending: {}", hanging.try_result()?.is_none());
    hanging.cancel()?;
    info!("canceled: {:?}", hanging.result().map(drop));
    let raw = Mcp::open("mid")?.submit("hang", "{}")?.raw_fd();
    info!("dropped: {:?}", spear_guest::host::mcp_result(raw).map(drop));
    Ok(())
}

/// More events than one wait of a module gives.
fn many_events() -> Result<(), Error> {
    let tiny = Mcp::open("tiny")?;
    let epoll = Epoll::new()?;
    let mut calls: Vec<McpCall> = Vec::new();
    for number in 0..100 {
        let call = tiny.submit("echo", object! { "message": number.to_string() })?;
        epoll.add(&call, Events::IN)?;
        calls.push(call);
    }
    let mut sum = 0;
    while !calls.is_empty() {
        let ready = epoll.wait(Some(Duration::from_secs(30)))?;
        assert!(!ready.is_empty(), "no call became ready");
        let is_ready = |call: &McpCall| ready.iter().any(|one| one.is(call) && one.events.contains(Events::IN));
        let (done, rest): (Vec<McpCall>, Vec<McpCall>) = calls.into_iter().partition(is_ready);
        for call in done {
            sum += call.result()?.text()?.parse::<i32>().unwrap_or(-1_000_000);
        }
        calls = rest;
    }
    info!("sum: {sum}");
    let call = tiny.submit("echo", object! { "message": "x" })?;
    info!("epoll: {:?} {:?} {:?}", epoll.modify(&call, Events::IN), epoll.remove(&call), epoll.add(&epoll, Events::IN));
    info!("timeout: {}", epoll.wait(Some(Duration::from_millis(1)))?.len());
    info!("the end: {}", Errno::ECANCELED);
    Ok(())
}
