//! Panics, after a line that must not be lost.

use spear_guest::info;

spear_guest::main!(run);

fn run() {
    info!("before the panic");
    let parts: Vec<u32> = Vec::new();
    assert!(!parts.is_empty(), "nothing left to try: {} parts", parts.len());
}
