use crate::{Level, error, log};
use std::fmt::Display;
use std::panic::PanicHookInfo;

/// Return value of a guest: nothing, or a result whose error is logged.
pub trait Outcome {
    /// The exit code of the guest.
    fn report(self) -> i32;
}

impl Outcome for () {
    fn report(self) -> i32 {
        0
    }
}

/// The error goes to the log; the exit code is then 1.
impl<T: Outcome, E: Display> Outcome for Result<T, E> {
    fn report(self) -> i32 {
        match self {
            Ok(outcome) => outcome.report(),
            Err(why) => {
                error!("{why}");
                1
            }
        }
    }
}

/// Names the entry function of the guest: `spear_guest::main!(run);`, where `run` takes nothing and returns an
/// [`Outcome`](crate::Outcome). A guest has exactly one.
///
/// A panic is one line of the log, and then a trap.
#[macro_export]
macro_rules! main {
    ($run:path) => {
        $crate::__export!($run);
    };
}

#[cfg(all(target_family = "wasm", feature = "core"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __export {
    ($run:path) => {
        const _: () = {
            #[unsafe(export_name = "run")]
            extern "C" fn spear_guest_entry() -> i32 {
                $crate::__private::enter($run)
            }
        };
    };
}

#[cfg(all(target_family = "wasm", feature = "component", not(feature = "core")))]
#[doc(hidden)]
#[macro_export]
macro_rules! __export {
    ($run:path) => {
        const _: () = {
            struct SpearGuestEntry;

            impl $crate::__private::component::Guest for SpearGuestEntry {
                fn run() -> ::core::result::Result<(), ()> {
                    if $crate::__private::enter($run) == 0 { Ok(()) } else { Err(()) }
                }
            }

    $crate::__private::component::export_run!(SpearGuestEntry with_types_in $crate::__private::component);
        };
    };
}

#[cfg(not(target_family = "wasm"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __export {
    ($run:path) => {
        const _: fn() -> i32 = || $crate::__private::enter($run);
    };
}

/// The entry point of every guest.
pub fn enter<O: Outcome>(run: fn() -> O) -> i32 {
    std::panic::set_hook(Box::new(|panic| log(Level::Error, &describe(panic))));
    run().report()
}

fn describe(panic: &PanicHookInfo<'_>) -> String {
    let payload = panic.payload();
    let message = payload.downcast_ref::<&str>().copied().or(payload.downcast_ref::<String>().map(String::as_str));
    match panic.location() {
        Some(place) => format!("panic: {} ({place})", message.unwrap_or("no message")),
        None => format!("panic: {}", message.unwrap_or("no message")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Errno, Error};

    #[test]
    fn an_error_is_exit_code_1() {
        assert_eq!((().report(), Ok::<(), Errno>(()).report()), (0, 0));
        assert_eq!(Err::<(), Error>(Errno::EACCES.into()).report(), 1);
    }
}
