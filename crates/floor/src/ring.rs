//! The floor of shared memory: the bare rings of `petasos-shm`, without a backend around them.
//!
//! Records carry a tag in their first byte like the datagrams of the other floors. Nothing is ever
//! lost, except what a peer had not taken when it ended.

use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};

use petasos_netio_shm::ShmConfig;
use petasos_netio_shm::rendezvous::{self, Connection, Listener};
use petasos_shm::{Broken, Ends, Pop, PushError, RingShape};

use crate::FloorError;

/// One end of a pair of rings.
#[derive(Debug)]
pub struct RingLink {
    pub(crate) ends: Ends,
    /// Keeps the connection to another process open.
    _socket: Option<OwnedFd>,
    tag: u8,
}

/// The address to which another process connects its end.
#[derive(Debug)]
pub struct RingListener(Listener);

impl RingListener {
    /// Listens at `address`, which has the same form as the backend's; port 0 stands for any.
    ///
    /// # Errors
    /// [`FloorError::Setup`].
    pub fn bind(address: SocketAddr) -> Result<RingListener, FloorError> {
        Ok(RingListener(Listener::bind(address, &ShmConfig::default())?))
    }

    /// The address to connect to.
    pub fn local_address(&self) -> SocketAddr {
        self.0.local_address()
    }

    /// Returns the end of a process that has connected, or `None` if there is none yet.
    ///
    /// # Errors
    /// [`FloorError::Socket`]. Connections that fail their set-up are skipped.
    pub fn accept(&self) -> Result<Option<RingLink>, FloorError> {
        let Some(Ok(mut pending)) = self.0.accept()? else { return Ok(None) };
        loop {
            match pending.greet() {
                Ok(Ok(connection)) => return Ok(Some(RingLink::new(connection))),
                Ok(Err(still)) => pending = still,
                Err(_) => return Ok(None),
            }
        }
    }
}

impl RingLink {
    /// Both ends, for two threads.
    ///
    /// # Errors
    /// [`FloorError::Region`].
    pub fn pair(rings: RingShape) -> Result<[RingLink; 2], FloorError> {
        let (near, region) = petasos_shm::create(rings)?;
        let far = petasos_shm::adopt(region.as_fd(), rings)?;
        Ok([near, far].map(|ends| RingLink { ends, _socket: None, tag: 0 }))
    }

    /// Connects to a [`RingListener`] of another process.
    ///
    /// # Errors
    /// [`FloorError::Socket`].
    pub fn connect(peer: SocketAddr, rings: RingShape) -> Result<RingLink, FloorError> {
        let datagram_bytes_max = rings.record_bytes_max as usize;
        let config = ShmConfig { rings, datagram_bytes_max, ..ShmConfig::default() };
        let nobody = SocketAddr::new(peer.ip(), 0);
        Ok(RingLink::new(rendezvous::connect(nobody, peer, &config)?))
    }

    fn new(connection: Connection) -> RingLink {
        let Connection { ends, socket, .. } = connection;
        RingLink { ends, _socket: Some(socket), tag: 0 }
    }

    /// Discards what is left over from earlier turns.
    pub(crate) fn prepare(&mut self, buffer: &mut [u8]) -> Result<(), FloorError> {
        while self.pop(buffer)?.is_some() {}
        Ok(())
    }

    /// A tag that differs from the last 255.
    pub(crate) fn next_tag(&mut self) -> u8 {
        self.tag = self.tag.wrapping_add(1);
        self.tag
    }

    /// Writes a record without publishing it; `false` if the ring is full.
    #[inline]
    pub(crate) fn push(&mut self, bytes: &[u8], segment_bytes: usize) -> Result<bool, FloorError> {
        match self.ends.producer.push(bytes, &[], segment_bytes) {
            Ok(()) => Ok(true),
            Err(PushError::Full) => Ok(false),
            Err(PushError::Length) => Err(FloorError::DatagramBytes { asked: bytes.len() }),
            Err(_) => Err(FloorError::Ring(Broken)),
        }
    }

    /// Takes a record, and copies its bytes and frames to `buffer`.
    #[inline]
    pub(crate) fn pop(&mut self, buffer: &mut [u8]) -> Result<Option<(usize, usize)>, FloorError> {
        match self.ends.consumer.pop(buffer).map_err(FloorError::Ring)? {
            Pop::Empty => Ok(None),
            Pop::TooLong(bytes) => Err(FloorError::Memory { bytes }),
            Pop::Record(record) => {
                self.ends.consumer.release();
                Ok(Some((record.len, record.segment_bytes)))
            }
        }
    }

    /// Takes a record without telling the producer; `false` if there is none.
    #[inline]
    pub(crate) fn pop_unreleased(&mut self, buffer: &mut [u8]) -> Result<bool, FloorError> {
        match self.ends.consumer.pop(buffer).map_err(FloorError::Ring)? {
            Pop::Empty => Ok(false),
            Pop::TooLong(bytes) => Err(FloorError::Memory { bytes }),
            Pop::Record(_) => Ok(true),
        }
    }

    /// A buffer that is large enough for any record.
    pub(crate) fn buffer(&self) -> Vec<u8> {
        vec![0; self.ends.consumer.record_bytes_max()]
    }
}
