//! Sends every frame of stream 1 back, with its data in capitals, until the client has nothing more to say.

use spear_guest::{Direction, Errno, Error, UserStream, info};

spear_guest::main!(run);

fn run() -> Result<(), Error> {
    let stream = UserStream::open(1, Direction::Both)?;
    let mut count = 0;
    while let Some(mut frame) = stream.receive()? {
        frame.data.make_ascii_uppercase();
        match stream.send(&frame) {
            Err(Errno::EPIPE) => break,
            result => result?,
        }
        count += 1;
    }
    info!("{count} frames");
    Ok(())
}
