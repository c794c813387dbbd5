//! What routers and their holder say to each other: packets over a Unix socket, with descriptors.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use petasos_attach::packet;
use petasos_netio_xdp::{BpfFiles, InterfacePlace, XdpMode};
use rustix::io::Errno;

/// The version of this protocol: the first byte of each packet.
const VERSION: u8 = 1;
/// The most bytes of a packet.
const PACKET_BYTES_MAX: usize = 256;

/// What a router says.
#[derive(Debug)]
pub enum Said {
    /// Whether somebody has left a program there.
    Ask(InterfacePlace),
    /// To be kept for this router, and in the place of what it has asked for.
    Keep(InterfacePlace, XdpMode, BpfFiles),
    /// The router ends in order, and takes its program along.
    Forget,
}

/// What the holder answers to each.
#[derive(Debug)]
pub enum Answer {
    /// Nobody has left anything there.
    Nothing,
    /// The link, and the program at it.
    Given(XdpMode, [OwnedFd; 2]),
    /// It is done.
    Done,
    /// Why not.
    Refused(String),
}

/// What came.
#[derive(Debug)]
pub enum Received<T> {
    /// Something that was said.
    Said(T),
    /// Nothing yet.
    Nothing,
    /// What is no packet of this protocol. Its descriptors are closed.
    Garbage,
    /// The peer is gone.
    Gone,
}

/// Asks for what was left.
pub fn send_ask(socket: BorrowedFd<'_>, place: InterfacePlace) -> Result<(), Errno> {
    packet::send(socket, &at(1, 0, place), &[])
}

/// Gives what is to be kept.
pub fn send_keep(
    socket: BorrowedFd<'_>,
    place: InterfacePlace,
    mode: XdpMode,
    files: &BpfFiles,
) -> Result<(), Errno> {
    let BpfFiles { link, program, words, programs } = files;
    let files = [link, program, words, programs].map(AsFd::as_fd);
    packet::send(socket, &at(2, mode_byte(mode), place), &files)
}

/// Takes it back.
pub fn send_forget(socket: BorrowedFd<'_>) -> Result<(), Errno> {
    packet::send(socket, &[VERSION, 3], &[])
}

/// Gives link and program to who has asked.
pub fn send_given(
    socket: BorrowedFd<'_>,
    mode: XdpMode,
    files: [BorrowedFd<'_>; 2],
) -> Result<(), Errno> {
    packet::send(socket, &[VERSION, 5, mode_byte(mode)], &files)
}

/// Says that there is nothing.
pub fn send_nothing(socket: BorrowedFd<'_>) -> Result<(), Errno> {
    packet::send(socket, &[VERSION, 4], &[])
}

/// Says that it is done.
pub fn send_done(socket: BorrowedFd<'_>) -> Result<(), Errno> {
    packet::send(socket, &[VERSION, 6], &[])
}

/// Says why not.
pub fn send_refused(socket: BorrowedFd<'_>, why: &str) -> Result<(), Errno> {
    let why = &why[..why.floor_char_boundary(PACKET_BYTES_MAX / 2)];
    packet::send(socket, &[&[VERSION, 7], why.as_bytes()].concat(), &[])
}

/// Takes what a router has said next.
pub fn receive(socket: BorrowedFd<'_>) -> Received<Said> {
    receive_as(socket, read_said)
}

/// Takes what the holder has answered.
pub fn receive_answer(socket: BorrowedFd<'_>) -> Received<Answer> {
    receive_as(socket, read_answer)
}

fn receive_as<T>(
    socket: BorrowedFd<'_>,
    read: impl FnOnce(&[u8], Vec<OwnedFd>) -> Option<T>,
) -> Received<T> {
    let mut bytes = [0; PACKET_BYTES_MAX];
    match packet::receive(socket, &mut bytes) {
        packet::Received::Packet(len, files) => {
            let body = bytes[..len].strip_prefix(&[VERSION]);
            let said = body.and_then(|body| read(body, files));
            said.map_or(Received::Garbage, Received::Said)
        }
        packet::Received::Nothing => Received::Nothing,
        packet::Received::Cut => Received::Garbage,
        packet::Received::Gone => Received::Gone,
    }
}

fn read_said(body: &[u8], files: Vec<OwnedFd>) -> Option<Said> {
    match (body.split_first()?, files.len()) {
        ((1, rest), 0) => {
            let (place, mode) = read_at(rest)?;
            (mode == 0).then_some(Said::Ask(place))
        }
        ((2, rest), 4) => {
            let (place, mode) = read_at(rest)?;
            let [link, program, words, programs] = files.try_into().ok()?;
            Some(Said::Keep(place, read_mode(mode)?, BpfFiles { link, program, words, programs }))
        }
        ((3, []), 0) => Some(Said::Forget),
        _ => None,
    }
}

fn read_answer(body: &[u8], files: Vec<OwnedFd>) -> Option<Answer> {
    match (body.split_first()?, files.len()) {
        ((4, []), 0) => Some(Answer::Nothing),
        ((5, [mode]), 2) => Some(Answer::Given(read_mode(*mode)?, files.try_into().ok()?)),
        ((6, []), 0) => Some(Answer::Done),
        ((7, why), 0) => Some(Answer::Refused(core::str::from_utf8(why).ok()?.to_owned())),
        _ => None,
    }
}

/// What is said of a place.
fn at(kind: u8, mode: u8, place: InterfacePlace) -> [u8; 15] {
    let mut bytes = [0; 15];
    bytes[..3].copy_from_slice(&[VERSION, kind, mode]);
    bytes[3..11].copy_from_slice(&place.namespace.to_le_bytes());
    bytes[11..].copy_from_slice(&place.interface.to_le_bytes());
    bytes
}

fn read_at(body: &[u8]) -> Option<(InterfacePlace, u8)> {
    let (mode, body) = body.split_first()?;
    let (namespace, interface) = body.split_first_chunk()?;
    let namespace = u64::from_le_bytes(*namespace);
    let interface = u32::from_le_bytes(interface.try_into().ok()?);
    Some((InterfacePlace { namespace, interface }, *mode))
}

fn mode_byte(mode: XdpMode) -> u8 {
    match mode {
        XdpMode::Native => 1,
        XdpMode::Generic => 2,
    }
}

fn read_mode(byte: u8) -> Option<XdpMode> {
    match byte {
        1 => Some(XdpMode::Native),
        2 => Some(XdpMode::Generic),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(count: usize) -> Vec<OwnedFd> {
        let file = || OwnedFd::from(std::fs::File::open("/dev/null").expect("it is there"));
        (0..count).map(|_| file()).collect()
    }

    #[test]
    fn what_is_said_is_read_and_nothing_else_is_taken() {
        let place = InterfacePlace { namespace: 4_026_531_840, interface: 7 };
        let (ask, keep) = (at(1, 0, place), at(2, 2, place));
        assert!(matches!(read_said(&ask[1..], files(0)), Some(Said::Ask(at)) if at == place));
        let kept = read_said(&keep[1..], files(4));
        assert!(matches!(kept, Some(Said::Keep(at, XdpMode::Generic, _)) if at == place));
        assert!(matches!(read_said(&[3], files(0)), Some(Said::Forget)));
        for (packet, right) in [(&ask[1..], 0), (&keep[1..], 4), (&[3][..], 0)] {
            for count in (0..=4).filter(|count| *count != right) {
                assert!(read_said(packet, files(count)).is_none(), "{packet:?} and {count}");
            }
            assert!(read_said(&packet[..packet.len() - 1], files(right)).is_none());
            assert!(read_said(&[packet, &[0]].concat(), files(right)).is_none());
        }
        assert!(read_said(&at(2, 3, place)[1..], files(4)).is_none(), "there is no such mode");
        assert!(read_said(&at(1, 1, place)[1..], files(0)).is_none());
        assert!(read_said(&[], files(0)).is_none() && read_said(&[9], files(0)).is_none());
    }

    #[test]
    fn answers_are_read_and_nothing_else_is_taken() {
        assert!(matches!(read_answer(&[4], files(0)), Some(Answer::Nothing)));
        let given = read_answer(&[5, 1], files(2));
        assert!(matches!(given, Some(Answer::Given(XdpMode::Native, _))));
        assert!(matches!(read_answer(&[6], files(0)), Some(Answer::Done)));
        let refused = read_answer(b"\x07no", files(0));
        assert!(matches!(refused, Some(Answer::Refused(why)) if why == "no"));
        for (packet, count) in
            [(&[4][..], 1), (&[5, 1], 1), (&[5, 9], 2), (&[5], 2), (&[7, 0xff], 0), (&[], 0)]
        {
            assert!(read_answer(packet, files(count)).is_none(), "{packet:?}");
        }
    }
}
