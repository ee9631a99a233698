use crate::fd::has_fd;
use crate::{AsFd, Errno, Fd, RawFd, host};
use std::ops::BitOr;
use std::time::Duration;

/// Events of a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Events(i32);

impl Events {
    /// A response or the result of a call is available.
    pub const IN: Events = Events(1);
    /// A chat can send.
    pub const OUT: Events = Events(4);
    /// The operation failed or was canceled. Always reported.
    pub const ERR: Events = Events(8);
    /// No more data will arrive. Always reported.
    pub const HUP: Events = Events(16);

    /// Whether all of `other` are in it.
    pub const fn contains(self, other: Events) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitOr for Events {
    type Output = Events;

    fn bitor(self, other: Events) -> Events {
        Events(self.0 | other.0)
    }
}

/// A ready descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// The descriptor.
    pub fd: RawFd,
    /// Its events.
    pub events: Events,
}

impl Ready {
    /// Whether it is the descriptor of `what`.
    pub fn is(&self, what: &impl AsFd) -> bool {
        self.fd == what.raw_fd()
    }
}

/// A set of descriptors to wait for. A ready descriptor stays ready until it is read (level-triggered); closing a
/// descriptor removes it from the set.
///
/// ```no_run
/// use spear_guest::{Chat, Epoll, Events, Progress, info};
/// use std::time::Duration;
///
/// # fn run() -> Result<(), spear_guest::Error> {
/// let epoll = Epoll::new()?;
/// let mut chat = Chat::new()?;
/// chat.user("Name one colour.")?;
/// let mut sending = chat.start()?;
/// let response = loop {
///     epoll.add(&sending, Events::IN)?;
///     epoll.wait(Some(Duration::from_secs(60)))?;
///     match chat.resume(sending)? {
///         Progress::Done(response) => break response,
///         Progress::Sending(next) => sending = next,
///     }
/// };
/// info!("{}", response.answer()?);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Epoll {
    fd: Fd,
}

has_fd!(Epoll);

impl Epoll {
    /// An empty set.
    pub fn new() -> Result<Epoll, Errno> {
        Ok(Epoll { fd: Fd::from_raw(host::spear_epoll_create()?) })
    }

    /// Adds a descriptor, or replaces its events if it is in the set. A set in a set: `EINVAL`.
    pub fn add(&self, what: &impl AsFd, events: Events) -> Result<(), Errno> {
        self.ctl(host::EPOLL_CTL_ADD, what, events)
    }

    /// Changes the events of a descriptor. Not in the set: `ENOENT`.
    pub fn modify(&self, what: &impl AsFd, events: Events) -> Result<(), Errno> {
        self.ctl(host::EPOLL_CTL_MOD, what, events)
    }

    /// Removes a descriptor. Not in the set: `ENOENT`.
    pub fn remove(&self, what: &impl AsFd) -> Result<(), Errno> {
        self.ctl(host::EPOLL_CTL_DEL, what, Events(0))
    }

    /// The ready descriptors in ascending order; empty after the timeout. `None` waits without limit, zero polls.
    pub fn wait(&self, timeout: Option<Duration>) -> Result<Vec<Ready>, Errno> {
        let ready = host::spear_epoll_wait(self.fd.raw_fd(), milliseconds(timeout))?;
        Ok(ready.into_iter().map(|(fd, events)| Ready { fd, events: Events(events) }).collect())
    }

    fn ctl(&self, op: i32, what: &impl AsFd, events: Events) -> Result<(), Errno> {
        host::spear_epoll_ctl(self.fd.raw_fd(), op, what.raw_fd(), events.0)
    }
}

/// Rounded up: a short wait must not become a poll.
fn milliseconds(timeout: Option<Duration>) -> i32 {
    timeout.map_or(-1, |time| i32::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(i32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_rounded_up_and_bounded() {
        let of = |time| milliseconds(Some(time));
        assert_eq!((milliseconds(None), of(Duration::ZERO), of(Duration::from_micros(1))), (-1, 0, 1));
        assert_eq!((of(Duration::from_millis(60_000)), of(Duration::MAX)), (60_000, i32::MAX));
    }

    #[test]
    fn events_are_sets() {
        let both = Events::IN | Events::HUP;
        assert!(both.contains(Events::IN) && !both.contains(Events::OUT) && !Events::IN.contains(both));
    }
}
