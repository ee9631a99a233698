use crate::fd::has_fd;
use crate::{AsFd, Epoll, Errno, Events, Fd, host};

const HEADER: usize = 32;

/// Direction of a [`UserStream`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the client.
    In = 1,
    /// To the client.
    Out = 2,
    /// Both ways.
    Both = 3,
}

/// A frame of a [`UserStream`]. Its content is defined by you and the client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// Defined by the guest and the client.
    pub kind: u16,
    /// Defined by the guest and the client.
    pub flags: u16,
    /// Defined by the guest and the client.
    pub sequence: u64,
    /// Metadata.
    pub meta: Vec<u8>,
    /// The data.
    pub data: Vec<u8>,
}

impl Frame {
    fn parse(bytes: &[u8]) -> Option<Frame> {
        let u16_at = |at: usize| Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?));
        let u32_at = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let header = usize::from(u16_at(6)?);
        let data = header.checked_add(usize::try_from(u32_at(24)?).ok()?)?;
        Some(Frame {
            kind: u16_at(8)?,
            flags: u16_at(10)?,
            sequence: u64::from_le_bytes(bytes.get(16..24)?.try_into().ok()?),
            meta: bytes.get(header..data)?.to_vec(),
            data: bytes.get(data..)?.to_vec(),
        })
    }

    fn to_bytes(&self, stream_id: u32) -> Result<Vec<u8>, Errno> {
        let length = |part: &[u8]| u32::try_from(part.len()).map_err(|_| Errno::EMSGSIZE);
        let mut bytes = Vec::with_capacity(HEADER + self.meta.len() + self.data.len());
        bytes.extend_from_slice(b"SPST");
        bytes.extend_from_slice(&1u16.to_le_bytes());
        bytes.extend_from_slice(&(HEADER as u16).to_le_bytes());
        bytes.extend_from_slice(&self.kind.to_le_bytes());
        bytes.extend_from_slice(&self.flags.to_le_bytes());
        bytes.extend_from_slice(&stream_id.to_le_bytes());
        bytes.extend_from_slice(&self.sequence.to_le_bytes());
        bytes.extend_from_slice(&length(&self.meta)?.to_le_bytes());
        bytes.extend_from_slice(&length(&self.data)?.to_le_bytes());
        bytes.extend_from_slice(&self.meta);
        bytes.extend_from_slice(&self.data);
        Ok(bytes)
    }
}

/// A stream of [`Frame`]s between this guest and a client of its run (`spear-run --stream`).
///
/// ```no_run
/// use spear_guest::{Direction, Error, UserStream};
///
/// fn run() -> Result<(), Error> {
///     let stream = UserStream::open(1, Direction::Both)?;
///     while let Some(frame) = stream.receive()? {
///         stream.send(&frame)?;
///     }
///     Ok(())
/// }
/// ```
#[derive(Debug)]
pub struct UserStream {
    fd: Fd,
    id: u32,
}

has_fd!(UserStream);

impl UserStream {
    /// Opens a stream. `ENOTCONN`: the run has no client transport.
    pub fn open(id: u32, direction: Direction) -> Result<UserStream, Errno> {
        let fd = Fd::from_raw(host::user_stream_open(id.cast_signed(), direction as i32)?);
        Ok(UserStream { fd, id })
    }

    /// Waits for the next frame; `None` when the client has ended its side.
    pub fn receive(&self) -> Result<Option<Frame>, Errno> {
        loop {
            match host::user_stream_read(self.fd.raw_fd()) {
                Ok(bytes) => return Frame::parse(&bytes).map(Some).ok_or(Errno::EIO),
                Err(Errno::EPIPE) => return Ok(None),
                Err(Errno::EAGAIN) => self.wait(Events::IN)?,
                Err(errno) => return Err(errno),
            }
        }
    }

    /// Sends a frame, waiting for room. `EPIPE`: the client has disconnected.
    pub fn send(&self, frame: &Frame) -> Result<(), Errno> {
        let bytes = frame.to_bytes(self.id)?;
        loop {
            match host::user_stream_write(self.fd.raw_fd(), &bytes) {
                Err(Errno::EAGAIN) => self.wait(Events::OUT)?,
                result => return result,
            }
        }
    }

    fn wait(&self, events: Events) -> Result<(), Errno> {
        let epoll = Epoll::new()?;
        epoll.add(self, events)?;
        epoll.wait(None).map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_the_same_after_its_way() {
        let frame = Frame { kind: 2, flags: 3, sequence: u64::MAX, meta: b"{}".to_vec(), data: vec![0, 255, 7] };
        let bytes = frame.to_bytes(9).expect("it is small");
        assert_eq!(bytes.len(), HEADER + 5);
        assert_eq!(Frame::parse(&bytes), Some(frame));
        assert_eq!(Frame::parse(&bytes[..HEADER - 1]), None);
    }
}
