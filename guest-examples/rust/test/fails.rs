//! Ends with an error.

use spear_guest::{Errno, Error};

spear_guest::main!(run);

fn run() -> Result<(), Error> {
    Err(Errno::EACCES)?
}
