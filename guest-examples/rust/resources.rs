//! What an MCP server has besides tools, without a model: reads a resource, gets a prompt, and prints both. The same
//! program exists in every language.

use spear_guest::{Error, Mcp, info, object};

spear_guest::main!(run);

const URI: &str = "demo://resource/static/document/features.md";

fn run() -> Result<(), Error> {
    let server = Mcp::open("everything")?;
    let (offered, prompts) = (server.resources()?, server.prompts()?);
    let count = |field: &str| offered[field].items().len();
    info!(
        "everything has {} resources, {} templates and {} prompts for this guest",
        count("resources"),
        count("templates"),
        prompts["prompts"].items().len()
    );
    let text = server.read(URI)?.text()?;
    info!("{URI}: {}", text.lines().next().unwrap_or_default());
    info!("args-prompt: {}", server.prompt("args-prompt", object! { "city": "Bern" })?.text()?);
    Ok(())
}
