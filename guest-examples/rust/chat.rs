//! One question, one answer.

use spear_guest::{Chat, Error, info};

spear_guest::main!(run);

fn run() -> Result<(), Error> {
    let answer = Chat::new()?.ask("What is WebAssembly, in one sentence?")?;
    info!("{answer}");
    Ok(())
}
