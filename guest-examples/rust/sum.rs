//! A tool of the guest: the model calls `sum`, the closure answers, the model uses the result.

use spear_guest::{Chat, Error, Tool, info, object};

spear_guest::main!(run);

fn run() -> Result<(), Error> {
    let mut chat = Chat::new()?;
    chat.tool(Tool::new("sum", "Adds two whole numbers.").integer("a", "").integer("b", ""), |call| {
        let result = object! { "sum": call.integer("a")? + call.integer("b")? };
        info!("tool sum {} -> {result}", call.arguments());
        Ok(result)
    })?;
    info!("{}", chat.ask("What is 2 + 40? Use the tool.")?);
    Ok(())
}
