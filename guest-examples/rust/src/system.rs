use crate::host;
use std::time::Duration;

/// The longest text of one `log` hostcall.
pub const MAX_LOG_BYTES: usize = 16_384;

/// Log level. [`Trace`](Level::Trace) and [`Debug`](Level::Debug) are shown by `spear-run
/// --verbose` only, [`Warn`](Level::Warn) and [`Error`](Level::Error) go to stderr.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Every step.
    Trace,
    /// For debugging.
    Debug,
    /// Normal output: a line on stdout.
    Info,
    /// A problem; the guest continues.
    Warn,
    /// An error; the guest cannot continue.
    Error,
}

/// Writes a text to the log. A text longer than [`MAX_LOG_BYTES`] becomes several lines.
///
/// [`info!`](crate::info), [`warn!`](crate::warn), [`error!`](crate::error), [`debug!`](crate::debug) and
/// [`trace!`](crate::trace) format their arguments.
pub fn log(level: Level, text: &str) {
    for line in pieces(text) {
        // A failed log call cannot be reported.
        let _ = host::log(level as i32, line);
    }
}

/// Splits only at character boundaries.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        if text.len() <= MAX_LOG_BYTES {
            return rest.take();
        }
        let at = (0..=MAX_LOG_BYTES).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
        let (line, after) = text.split_at(at);
        rest = Some(after);
        Some(line)
    })
}

/// Shows a line with `--verbose`, formatted like `println!`.
#[macro_export]
macro_rules! trace {
    ($($arg:tt)*) => { $crate::log($crate::Level::Trace, &::std::format!($($arg)*)) };
}

/// Shows a line with `--verbose`, formatted like `println!`.
#[macro_export]
macro_rules! debug {
    ($($arg:tt)*) => { $crate::log($crate::Level::Debug, &::std::format!($($arg)*)) };
}

/// Shows a line on stdout, formatted like `println!`.
#[macro_export]
macro_rules! info {
    ($($arg:tt)*) => { $crate::log($crate::Level::Info, &::std::format!($($arg)*)) };
}

/// Shows a line on stderr, formatted like `println!`.
#[macro_export]
macro_rules! warn {
    ($($arg:tt)*) => { $crate::log($crate::Level::Warn, &::std::format!($($arg)*)) };
}

/// Shows a line on stderr, formatted like `println!`.
#[macro_export]
macro_rules! error {
    ($($arg:tt)*) => { $crate::log($crate::Level::Error, &::std::format!($($arg)*)) };
}

/// Milliseconds since the Unix epoch.
pub fn now_ms() -> i64 {
    host::time_now_ms()
}

/// Suspends the guest; other guests continue. At most 2^31 - 1 ms.
pub fn sleep(time: Duration) {
    host::sleep_ms(i32::try_from(time.as_millis()).unwrap_or(i32::MAX));
}

/// 64 random bits.
pub fn random() -> u64 {
    host::random_i64() as u64
}

/// Major and minor number of the host's ABI.
pub fn abi_version() -> (u16, u16) {
    let version = host::spear_abi_version();
    ((version >> 16) as u16, version as u16)
}

/// Whether the host supports the named feature.
pub fn has_feature(name: &str) -> bool {
    host::spear_feature(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_between_characters() {
        let text = "é".repeat(MAX_LOG_BYTES);
        let odd = format!("x{text}");
        let cut: Vec<&str> = pieces(&odd).collect();
        assert_eq!(cut.iter().map(|line| line.len()).collect::<Vec<_>>(), [MAX_LOG_BYTES - 1, MAX_LOG_BYTES, 2]);
        assert_eq!(cut.concat(), odd);
        assert_eq!(pieces("").collect::<Vec<_>>(), [""]);
    }
}
