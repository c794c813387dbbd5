//! What a process hears first on a control connection without TLS, from anybody (C1 to C5, C16).
//!
//! The outcome must be the same however TCP cuts the bytes, a stranger is told nothing, and one end
//! is reported exactly once.

use petasos_base::Time;
use petasos_control::{
    Capabilities, Config, Connection, Event, Hello, Message, Place, Role, SUPPORTED, Text, Version,
    VersionRange,
};

use crate::{Input, Seed};

/// A byte for the role, a byte for where to cut, then what the peer sends.
pub fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let role = if input.bool() { Role::Dialler } else { Role::Acceptor };
    let (step, said) = (usize::from(input.u8()).max(1), input.rest());
    let whole = heard(role, said, said.len().max(1));
    let in_pieces = heard(role, said, step);
    assert_eq!(whole.0, in_pieces.0, "cut after each {step} bytes");
    // What is not sent yet when the connection ends may be dropped, with a bye for instance (C13).
    assert!(in_pieces.1.starts_with(&whole.1), "cut after each {step} bytes");
}

/// All events and all output after the peer has said `said` and closed the stream.
fn heard(role: Role, said: &[u8], step: usize) -> (Vec<Event>, Vec<u8>) {
    let mut connection = Connection::new(Config::default(), role, ours(), Time::ZERO);
    let (mut events, mut output) = (Vec::new(), Vec::new());
    // What is said first is on its way before anything comes.
    drain(&mut connection, &mut events, &mut output);
    for piece in said.chunks(step) {
        connection.handle_bytes(piece, Time::ZERO);
        drain(&mut connection, &mut events, &mut output);
    }
    connection.handle_eof(Time::ZERO);
    drain(&mut connection, &mut events, &mut output);
    let ends = |event: &&Event| matches!(event, Event::PeerFailed(_) | Event::Closed { .. });
    assert_eq!(events.iter().filter(ends).count(), 1);
    assert!(ends(&events.last().expect("there is an end")), "the end comes last");
    let greeted = matches!(events.first(), Some(Event::PeerHello { .. }));
    let is_peer = said.get(4..8).is_some_and(|magic| magic == b"PTSC");
    assert!(greeted || is_peer || role == Role::Dialler || output.is_empty(), "told a stranger");
    (events, output)
}

/// Takes all that the connection has to say.
fn drain(connection: &mut Connection, events: &mut Vec<Event>, output: &mut Vec<u8>) {
    events.extend(std::iter::from_fn(|| connection.poll_event()));
    while let Some(bytes) = connection.poll_output() {
        let count = bytes.len();
        output.extend_from_slice(bytes);
        connection.advance_output(count);
    }
}

pub(crate) fn ours() -> Hello {
    Hello {
        versions: SUPPORTED,
        incarnation: 11,
        endpoints: 4,
        capabilities: Capabilities::CLIENT.with(Capabilities::SERVER).with(Capabilities::LOCAL),
        name: Text::new("fuzzed"),
        place: Some(Place { boot: [3; 16], namespace: 4 }),
    }
}

pub(crate) fn encoded(message: &Message) -> Vec<u8> {
    let mut bytes = Vec::new();
    message.encode(&mut bytes);
    bytes
}

/// A hello as we say it, others, and what strangers say.
pub fn seeds() -> Vec<Seed> {
    let hello = |change: fn(&mut Hello)| {
        let mut hello = ours();
        change(&mut hello);
        [&[0, 7][..], &encoded(&Message::Hello(hello))].concat()
    };
    let later = Version::from_bits(0x0900);
    vec![
        ("hello", hello(|_| {})),
        ("placeless", hello(|hello| hello.place = None)),
        ("later", [&[0, 3][..], &versions(later)].concat()),
        ("to-dialler", [&[1, 5][..], &encoded(&Message::Hello(ours()))].concat()),
        ("then-drain", [hello(|_| {}), encoded(&Message::Drain)].concat()),
        ("tls", [&[0, 200][..], &[0x16, 3, 1, 0, 0xf0, 1, 0, 0, 0xec, 3, 3]].concat()),
        ("http", [&[0, 200][..], b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"].concat()),
        ("http2", [&[0, 200][..], b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"].concat()),
    ]
}

/// A hello of nothing but another version.
fn versions(version: Version) -> Vec<u8> {
    let versions = VersionRange { oldest: version, newest: version };
    encoded(&Message::Hello(Hello { versions, ..ours() }))
}
