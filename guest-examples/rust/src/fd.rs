use crate::{Errno, Json, host, object};
use std::cell::Cell;

/// The number of a descriptor. Numbers start at 1000 and are never reused.
pub type RawFd = i32;

/// A type with a descriptor, which an [`Epoll`](crate::Epoll) can wait for.
pub trait AsFd {
    /// Its number.
    fn raw_fd(&self) -> RawFd;
}

/// A descriptor of any kind, closed when it is dropped.
#[derive(Debug)]
pub struct Fd {
    raw: RawFd,
    nonblocking: Cell<bool>,
}

impl Fd {
    /// Takes ownership of a descriptor that a call of [`host`](crate::host) returned.
    pub fn from_raw(raw: RawFd) -> Fd {
        Fd { raw, nonblocking: Cell::new(false) }
    }

    /// Descriptors that a session creates inherit this state.
    pub(crate) fn inheriting(&self, raw: RawFd) -> Fd {
        Fd { raw, nonblocking: self.nonblocking.clone() }
    }

    /// Releases the descriptor without closing it.
    pub fn into_raw(self) -> RawFd {
        let raw = self.raw;
        std::mem::forget(self);
        raw
    }

    /// Whether calls that would wait return `EAGAIN` instead. Calls the host only if the value changes.
    pub fn set_nonblocking(&self, on: bool) -> Result<(), Errno> {
        if self.nonblocking.get() == on {
            return Ok(());
        }
        let (set, clear): (&[&str], &[&str]) = if on { (&["O_NONBLOCK"], &[]) } else { (&[], &["O_NONBLOCK"]) };
        let list = |names: &[&str]| names.iter().copied().collect::<Json>();
        let flags = object! { "set": list(set), "clear": list(clear) };
        host::spear_fd_ctl(self.raw, host::FD_SET_FLAGS, &flags.to_string())?;
        self.nonblocking.set(on);
        Ok(())
    }

    /// `{"closed","flags","kind","poll_mask"}`
    pub fn status(&self) -> Result<Json, Errno> {
        let text = host::spear_fd_ctl(self.raw, host::FD_GET_STATUS, "")?;
        Json::parse(&text).map_err(|_| Errno::EIO)
    }

    /// Cancels the pending operation; its result is `ECANCELED`.
    pub fn cancel(&self) -> Result<(), Errno> {
        host::spear_fd_cancel(self.raw)
    }
}

impl AsFd for Fd {
    fn raw_fd(&self) -> RawFd {
        self.raw
    }
}

impl Drop for Fd {
    fn drop(&mut self) {
        // A descriptor that is already closed is fine.
        let _ = host::cchat_close(self.raw);
    }
}

macro_rules! has_fd {
    ($($type:ty),*) => {
        $(impl $crate::AsFd for $type {
            fn raw_fd(&self) -> $crate::RawFd {
                $crate::AsFd::raw_fd(&self.fd)
            }
        })*
    };
}
pub(crate) use has_fd;
