//! The smallest guest.

use spear_guest::info;

spear_guest::main!(run);

fn run() {
    info!("hello from Rust");
}
