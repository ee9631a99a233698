use std::fmt;

/// Why a call failed: a Linux errno, the same number on every host and in both forms of a guest.
///
/// It is a number with names rather than an enum, so that a host newer than this crate can return one it does not
/// know. Matching works as with an enum:
///
/// ```
/// use spear_guest::Errno;
///
/// fn advice(errno: Errno) -> &'static str {
///     match errno {
///         Errno::EACCES => "ask for it in the task config",
///         Errno::EAGAIN => "try again later",
///         _ => "give up",
///     }
/// }
/// assert_eq!(advice(Errno::EAGAIN), "try again later");
/// assert_eq!(Errno::EAGAIN.to_string(), "EAGAIN (11): not yet; try again");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Errno(i32);

macro_rules! errnos {
    ($($name:ident $number:literal $meaning:literal)*) => {
        impl Errno {
            $(#[doc = concat!($meaning, ".")] pub const $name: Errno = Errno($number);)*

            /// All of them, in the order of `enum errno` in `wit/spear.wit`.
            pub const ALL: &'static [Errno] = &[$(Errno::$name),*];

            /// `"EBADF"`; empty for a number that this crate does not know.
            pub const fn name(self) -> &'static str {
                match self.0 {
                    $($number => stringify!($name),)*
                    _ => "",
                }
            }

            const fn meaning(self) -> &'static str {
                match self.0 {
                    $($number => $meaning,)*
                    _ => "an error that this guest does not know",
                }
            }
        }
    };
}

errnos! {
    EPERM 1 "not permitted"
    ENOENT 2 "there is no such thing"
    EINTR 4 "interrupted"
    EIO 5 "malformed input or a failed transfer"
    EBADF 9 "not an open descriptor of the kind that is needed"
    EAGAIN 11 "not yet; try again"
    ENOMEM 12 "a limit of the task on memory is reached"
    EACCES 13 "policy does not allow it"
    EFAULT 14 "a pointer outside of the memory"
    EBUSY 16 "the session is in use"
    EEXIST 17 "it exists already"
    EINVAL 22 "an argument makes no sense"
    EMFILE 24 "too many open descriptors"
    ENOSPC 28 "a buffer is too small"
    EPIPE 32 "the other side is closed"
    ENOSYS 38 "this host does not have it"
    EMSGSIZE 90 "the text is larger than a limit of the task"
    ECONNRESET 104 "the connection was lost"
    ENOTCONN 107 "there is no connection"
    ETIMEDOUT 110 "no answer in time"
    ECANCELED 125 "it was canceled"
}

impl Errno {
    /// The error with this number (positive, as Linux has it).
    pub const fn from_code(code: i32) -> Errno {
        Errno(code)
    }

    /// Its number.
    pub const fn code(self) -> i32 {
        self.0
    }

    /// The return value of a hostcall of the core ABI: a negative value is an error.
    #[cfg_attr(not(feature = "core"), allow(dead_code))]
    pub(crate) fn check(returned: i32) -> Result<i32, Errno> {
        if returned < 0 { Err(Errno(returned.wrapping_neg())) } else { Ok(returned) }
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = if self.name().is_empty() { "errno" } else { self.name() };
        write!(f, "{name} ({}): {}", self.0, self.meaning())
    }
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.name().is_empty() { write!(f, "Errno({})", self.0) } else { f.write_str(self.name()) }
    }
}

impl std::error::Error for Errno {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_negative_result_is_an_error() {
        assert_eq!(Errno::check(1000), Ok(1000));
        assert_eq!(Errno::check(0), Ok(0));
        assert_eq!(Errno::check(-9), Err(Errno::EBADF));
        assert_eq!(Errno::check(i32::MIN).unwrap_err().name(), "");
    }

    #[test]
    fn unknown_numbers_are_shown_as_numbers() {
        assert_eq!(Errno::from_code(77).to_string(), "errno (77): an error that this guest does not know");
        assert_eq!(format!("{:?} {:?}", Errno::from_code(77), Errno::EPERM), "Errno(77) EPERM");
    }

    #[test]
    fn the_order_is_that_of_the_numbers() {
        assert!(Errno::ALL.windows(2).all(|pair| pair[0].code() < pair[1].code()));
        assert_eq!(Errno::ALL.len(), 21);
    }
}
