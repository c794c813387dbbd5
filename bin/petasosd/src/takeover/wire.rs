//! What giver and taker say: packets over a Unix socket, with descriptors of files.
//!
//! A packet is a kind (1 byte) and a body. A socket of this type keeps the bounds of packets, so
//! none is ever half there.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use petasos_attach::packet;
use rustix::io::Errno;

use crate::ports::Owner;

/// The versions of this protocol. A later one has another first packet's body, and no other; the
/// giver answers in what the taker has said.
const PLAIN: u16 = 1;
/// The giver tells the states of policies as well.
const WITH_STATES: u16 = 2;
const MAGIC: &[u8; 4] = b"PTTO";
/// The most bytes of a packet.
const PACKET_BYTES_MAX: usize = 16 << 10;
/// The most bytes of a configuration.
pub const CONFIGURATION_BYTES_MAX: usize = 8 << 20;
/// The most bytes of policies' states, and what belongs to them.
pub const STATES_BYTES_MAX: usize = 48 << 20;
/// What is refused that is no packet of a version that the giver knows, or not now.
pub const NOT_EXPECTED: &str = "it said what it may not say";

/// A listening socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// Where applications attach.
    Applications,
    /// Where operators connect.
    Operators,
    /// Where the next process takes over.
    Takeover,
}

impl Which {
    /// All of them.
    pub const ALL: [Which; 3] = [Which::Applications, Which::Operators, Which::Takeover];
}

/// Whose connections a listening socket is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Other hosts', over Petasos datagrams.
    Hosts,
    /// gRPC clients'.
    Grpc,
}

impl Reach {
    /// All of them.
    const ALL: [Reach; 2] = [Reach::Hosts, Reach::Grpc];
}

/// What a listening socket is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reached {
    /// Whose connections.
    pub reach: Reach,
    /// Of an application with a transport of its own: its name.
    pub application: Option<Arc<str>>,
}

/// What is said.
#[derive(Debug)]
pub enum Said {
    /// The taker's first packet.
    Hello {
        /// It goes on with the states of policies.
        takes_states: bool,
    },
    /// The giver does not give: why.
    Refuse(String),
    /// A part of the configuration.
    Part(Vec<u8>),
    /// A listening socket, and its lock.
    Socket(Which, [OwnedFd; 2]),
    /// A listening socket at which others than this host's connect.
    Reached(Reached, OwnedFd),
    /// All that is offered was said.
    Offered,
    /// The taker serves from now on.
    Serving,
    /// A process is attached to the giver.
    Application(Owner),
    /// An address at which a process serves, with the descriptor that keeps it.
    Port(Owner, SocketAddr, OwnedFd),
    /// A part of the states of policies.
    States(Vec<u8>),
    /// The giver accepts nobody any more.
    Given,
    /// All applications have attached to the taker, or were given time to.
    Settled,
}

/// What the giver gives when the taker serves.
pub struct Offer {
    /// The configuration in force.
    pub configuration: Vec<u8>,
    /// The listening sockets.
    pub sockets: Vec<(Which, [OwnedFd; 2])>,
    /// Those at which others than this host's connect.
    pub reached: Vec<(Reached, OwnedFd)>,
}

/// Packets that wait to be sent.
#[derive(Default)]
pub struct Output(VecDeque<(Vec<u8>, Vec<OwnedFd>)>);

impl Output {
    pub fn push(&mut self, said: Said) {
        self.0.push_back(said.packet());
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Sends what fits now.
    ///
    /// # Errors
    /// The other process is gone.
    pub fn flush(&mut self, socket: BorrowedFd<'_>) -> Result<(), Errno> {
        while let Some((packet, files)) = self.0.front() {
            let files: Vec<_> = files.iter().map(AsFd::as_fd).collect();
            match packet::send(socket, packet, &files) {
                Ok(()) => drop(self.0.pop_front()),
                Err(error) if packet::is_passing(error) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// The packets of an offer.
pub fn offered(offer: Offer) -> impl Iterator<Item = Said> {
    let parts: Vec<Said> = offer
        .configuration
        .chunks(PACKET_BYTES_MAX / 2)
        .map(|part| Said::Part(part.into()))
        .collect();
    let sockets = offer.sockets.into_iter().map(|(which, files)| Said::Socket(which, files));
    let reached = offer.reached.into_iter().map(|(what, file)| Said::Reached(what, file));
    parts.into_iter().chain(sockets).chain(reached).chain([Said::Offered])
}

/// The packets of policies' states.
pub fn states(text: &[u8]) -> impl Iterator<Item = Said> {
    text.chunks(PACKET_BYTES_MAX / 2).map(|part| Said::States(part.into()))
}

/// What a look at the socket found.
pub enum Received {
    Said(Said),
    Nothing,
    /// The other process is gone.
    Gone,
    /// What came is no packet of this protocol.
    Garbage,
}

/// Takes the next packet, without waiting.
pub fn receive(socket: BorrowedFd<'_>) -> Received {
    let mut bytes = [0; PACKET_BYTES_MAX];
    match packet::receive(socket, &mut bytes) {
        packet::Received::Packet(len, files) => {
            Said::read(&bytes[..len], files).map_or(Received::Garbage, Received::Said)
        }
        packet::Received::Nothing => Received::Nothing,
        packet::Received::Cut => Received::Garbage,
        packet::Received::Gone => Received::Gone,
    }
}

impl Said {
    fn packet(self) -> (Vec<u8>, Vec<OwnedFd>) {
        let packet = |kind: u8, body: &[u8]| [&[kind], body].concat();
        match self {
            Said::Hello { takes_states } => {
                let version = if takes_states { WITH_STATES } else { PLAIN };
                (packet(1, &[MAGIC, &version.to_le_bytes()[..]].concat()), vec![])
            }
            Said::Refuse(why) => {
                let end = why.floor_char_boundary(PACKET_BYTES_MAX / 2);
                (packet(2, &why.as_bytes()[..end]), vec![])
            }
            Said::Part(part) => (packet(3, &part), vec![]),
            Said::Socket(which, files) => (packet(4, &[which as u8]), files.into()),
            Said::Offered => (packet(5, &[]), vec![]),
            Said::Serving => (packet(6, &[]), vec![]),
            Said::Application(owner) => (packet(7, &owner_bytes(owner)), vec![]),
            Said::Port(owner, address, file) => {
                let address = address.to_string();
                (packet(8, &[&owner_bytes(owner)[..], address.as_bytes()].concat()), vec![file])
            }
            Said::Given => (packet(9, &[]), vec![]),
            Said::Settled => (packet(10, &[]), vec![]),
            Said::Reached(Reached { reach, application }, file) => {
                let name = application.as_deref().unwrap_or_default().as_bytes();
                (packet(11, &[&[reach as u8], name].concat()), vec![file])
            }
            Said::States(part) => (packet(12, &part), vec![]),
        }
    }

    /// What a packet says, if it says anything and has as many descriptors as it should.
    fn read(packet: &[u8], files: Vec<OwnedFd>) -> Option<Said> {
        let (kind, body) = packet.split_first()?;
        let has_none = files.is_empty();
        let plain = |said: Said| (body.is_empty() && has_none).then_some(said);
        match kind {
            1 if has_none => {
                let version = u16::from_le_bytes(body.strip_prefix(MAGIC)?.try_into().ok()?);
                let is_known = [PLAIN, WITH_STATES].contains(&version);
                is_known.then_some(Said::Hello { takes_states: version == WITH_STATES })
            }
            2 if has_none => Some(Said::Refuse(core::str::from_utf8(body).ok()?.to_owned())),
            3 if has_none => Some(Said::Part(body.to_vec())),
            4 => {
                let [which] = body else { return None };
                let which = *Which::ALL.get(usize::from(*which))?;
                Some(Said::Socket(which, files.try_into().ok()?))
            }
            5 => plain(Said::Offered),
            6 => plain(Said::Serving),
            7 if has_none => {
                let (owner, rest) = read_owner(body)?;
                rest.is_empty().then_some(Said::Application(owner))
            }
            8 => {
                let (owner, address) = read_owner(body)?;
                let address = core::str::from_utf8(address).ok()?.parse().ok()?;
                let [file] = <[OwnedFd; 1]>::try_from(files).ok()?;
                Some(Said::Port(owner, address, file))
            }
            9 => plain(Said::Given),
            10 => plain(Said::Settled),
            11 => {
                let (reach, name) = body.split_first()?;
                let reach = *Reach::ALL.get(usize::from(*reach))?;
                let name = Some(core::str::from_utf8(name).ok()?).filter(|name| !name.is_empty());
                let [file] = <[OwnedFd; 1]>::try_from(files).ok()?;
                Some(Said::Reached(Reached { reach, application: name.map(Arc::from) }, file))
            }
            12 if has_none => Some(Said::States(body.to_vec())),
            _ => None,
        }
    }
}

/// The user, and the process or 0.
fn owner_bytes((uid, pid): Owner) -> [u8; 8] {
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&uid.to_le_bytes());
    bytes[4..].copy_from_slice(&pid.unwrap_or(0).to_le_bytes());
    bytes
}

fn read_owner(body: &[u8]) -> Option<(Owner, &[u8])> {
    let (uid, rest) = body.split_first_chunk::<4>()?;
    let (pid, rest) = rest.split_first_chunk::<4>()?;
    let pid = Some(i32::from_le_bytes(*pid)).filter(|pid| *pid > 0);
    Some(((u32::from_le_bytes(*uid), pid), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_say_what_was_said_and_nothing_else_is_taken() {
        let file = || OwnedFd::from(std::fs::File::open("/dev/null").expect("it is there"));
        let address = "127.0.0.1:7000".parse().expect("an address");
        let all = [
            Said::Hello { takes_states: false },
            Said::Hello { takes_states: true },
            Said::States(vec![3]),
            Said::Refuse("no".to_owned()),
            Said::Part(vec![1, 2]),
            Said::Socket(Which::Operators, [file(), file()]),
            Said::Offered,
            Said::Serving,
            Said::Application((7, Some(8))),
            Said::Port((7, None), address, file()),
            Said::Given,
            Said::Settled,
            Said::Reached(Reached { reach: Reach::Grpc, application: None }, file()),
            Said::Reached(
                Reached { reach: Reach::Hosts, application: Some("shop".into()) },
                file(),
            ),
        ];
        for said in all {
            let text = |said: &Said| format!("{said:?}").split("OwnedFd").next().map(str::to_owned);
            let wanted = text(&said);
            let (packet, files) = said.packet();
            let copies = || files.iter().map(|file| file.try_clone().expect("room")).collect();
            let read = Said::read(&packet, copies()).expect("it is one");
            assert_eq!(text(&read), wanted);
            let mut more: Vec<_> = copies();
            more.push(file());
            assert!(Said::read(&packet, more).is_none(), "{wanted:?} has descriptors too many");
        }
        for garbage in [&[][..], &[0], &[99], &[1, 1], b"\x01PTTO\x03\x00", &[4, 9], &[7, 1]] {
            assert!(Said::read(garbage, Vec::new()).is_none(), "{garbage:?}");
        }
        for garbage in [&b"\x081234567x"[..], &[11], &[11, 2], &[11, 0, 0xff]] {
            assert!(Said::read(garbage, vec![file()]).is_none(), "{garbage:?}");
        }
        assert!(Said::read(&[11, 0], Vec::new()).is_none());
    }
}
