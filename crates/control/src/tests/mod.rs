//! Tests of the format and of two state machines joined in memory under virtual time.

mod answers;
mod codec;
mod connects;
mod disconnects;
mod frames;
mod golden;
mod group_golden;
mod group_order;
mod group_sequences;
mod group_strategies;
mod groups;
mod handshake;
mod heartbeat;
mod leaving;
mod limits;
mod local;
mod pair;
mod resume;
mod sequences;
mod strategies;
mod successor;

use crate::*;

/// What a process says of itself.
fn hello(incarnation: u64) -> Hello {
    Hello {
        versions: SUPPORTED,
        incarnation,
        endpoints: 4,
        capabilities: Capabilities::CLIENT.with(Capabilities::SERVER),
        name: Text::new("tester"),
        place: None,
    }
}

/// A request for a session whose index at the client is `session`.
fn params(session: u32) -> ConnectParams {
    ConnectParams {
        target: Target::Index(2),
        address: DataAddress::udp(0x1234, None),
        endpoint: 1,
        session,
        tag: 0x0abc_def1,
        slots: 8,
        credits: 32,
        payload_bytes_max: 1448,
        request_bytes_max: 1 << 23,
        response_bytes_max: 1 << 22,
        recovery: Recovery::Selective,
        checksum: false,
        local: None,
    }
}

/// A grant that fits [`params`], for the server's session `session`.
fn grant(session: u32) -> AcceptParams {
    AcceptParams {
        address: DataAddress::udp(0x4321, None),
        endpoint: 2,
        session,
        tag: 0x0123_4567,
        slots: 4,
        credits: 16,
        payload_bytes: 1024,
        request_bytes_max: 1 << 20,
        response_bytes_max: 1 << 21,
        local: None,
    }
}

fn encoded(message: &Message) -> Vec<u8> {
    let mut bytes = Vec::new();
    message.encode(&mut bytes);
    bytes
}

/// Decodes the one frame that `bytes` are.
fn decoded(mut bytes: &[u8]) -> Result<Message, Malformed> {
    let mut deframer = Deframer::new();
    let frame = deframer.next_frame(&mut bytes)?.ok_or(Malformed::Truncated)?;
    let message = Message::decode(frame.kind, frame.body)?;
    if bytes.is_empty() { Ok(message) } else { Err(Malformed::Trailing) }
}
