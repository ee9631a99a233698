//! An answer as it comes, line by line.

use spear_guest::{Chat, Error, StreamEvent, info};

spear_guest::main!(run);

fn run() -> Result<(), Error> {
    let mut chat = Chat::new()?;
    chat.user("What is WebAssembly, in two lines?")?;
    let mut line = String::new();
    for event in chat.stream()? {
        match event? {
            StreamEvent::Text(text) => line += &text,
            StreamEvent::Error(failure) => return Err(failure.into()),
            StreamEvent::End(_) => line += "\n",
            _ => {}
        }
        while let Some(end) = line.find('\n') {
            let whole: String = line.drain(..=end).collect();
            info!("{}", whole.trim_end());
        }
    }
    Ok(())
}
