//! Arbitrary valid messages.

use core::net::IpAddr;

use petasos_wire::{MESSAGE_BYTES_MAX, SESSIONS_MAX, TAG_MAX};
use proptest::prelude::*;

use super::group_strategies;
use crate::*;

pub(super) fn text<const BYTES_MAX: usize>() -> impl Strategy<Value = Text<BYTES_MAX>> {
    any::<String>().prop_map(|text| Text::new(&text))
}

fn hello() -> impl Strategy<Value = Hello> {
    let numbers = (any::<u16>(), any::<u16>(), any::<u64>(), any::<u16>(), any::<u32>());
    let place = any::<([u8; 16], u64)>().prop_filter("a known place", |at| *at != ([0; 16], 0));
    let place = place.prop_map(|(boot, namespace)| Place { boot, namespace });
    let parts = (numbers, text(), proptest::option::of(place));
    parts.prop_map(|((a, b, incarnation, endpoints, bits), name, place)| Hello {
        versions: VersionRange {
            oldest: Version::from_bits(a.min(b)),
            newest: Version::from_bits(a.max(b)),
        },
        incarnation,
        endpoints,
        capabilities: Capabilities::from_bits(bits),
        name,
        place,
    })
}

pub(super) fn address() -> impl Strategy<Value = DataAddress> {
    let usable = |ip: &IpAddr| !ip.is_unspecified() && !ip.is_multicast();
    let ip = any::<IpAddr>().prop_filter("an address of one host", usable);
    let carrier = prop_oneof![Just(Carrier::Datagrams), Just(Carrier::Tcp), Just(Carrier::Fabric)];
    (1..=u16::MAX, proptest::option::of(ip), carrier).prop_map(|(port, ip, carrier)| DataAddress {
        port,
        ip,
        carrier,
    })
}

pub(super) fn local_name() -> impl Strategy<Value = core::net::SocketAddr> {
    let named = |address: DataAddress| Some(core::net::SocketAddr::new(address.ip?, address.port));
    address().prop_filter_map("a name has an IP address", named)
}

fn local_offer() -> impl Strategy<Value = LocalOffer> {
    (local_name(), window()).prop_map(|(name, (_, credits, payload_bytes_max))| LocalOffer {
        name,
        credits,
        payload_bytes_max,
    })
}

fn window() -> impl Strategy<Value = (u8, u16, u16)> {
    ((0u32..=6).prop_map(|log| 1 << log), 1u16..=4095, 1024u16..=65000)
}

fn name() -> impl Strategy<Value = (u16, u32, u32)> {
    (any::<u16>(), 0..SESSIONS_MAX, 0..TAG_MAX)
}

fn bytes_max() -> impl Strategy<Value = u32> {
    0..=MESSAGE_BYTES_MAX
}

fn params() -> impl Strategy<Value = ConnectParams> {
    let target = prop_oneof![Just(Target::Any), (0..u16::MAX).prop_map(Target::Index),];
    let flags = (any::<bool>(), any::<bool>(), proptest::option::of(local_offer()));
    (target, address(), name(), window(), (bytes_max(), bytes_max()), flags).prop_map(
        |(target, address, name, window, bytes_max, (go_back_n, checksum, local))| ConnectParams {
            target,
            address,
            endpoint: name.0,
            session: name.1,
            tag: name.2,
            slots: window.0,
            credits: window.1,
            payload_bytes_max: window.2,
            request_bytes_max: bytes_max.0,
            response_bytes_max: bytes_max.1,
            recovery: if go_back_n { Recovery::GoBackN } else { Recovery::Selective },
            checksum,
            local,
        },
    )
}

fn grant() -> impl Strategy<Value = AcceptParams> {
    let local = proptest::option::of(local_name());
    (address(), name(), window(), (bytes_max(), bytes_max()), local).prop_map(
        |(address, name, window, bytes_max, local)| AcceptParams {
            address,
            endpoint: name.0,
            session: name.1,
            tag: name.2,
            slots: window.0,
            credits: window.1,
            payload_bytes: window.2,
            request_bytes_max: bytes_max.0,
            response_bytes_max: bytes_max.1,
            local,
        },
    )
}

fn session() -> impl Strategy<Value = SessionRef> {
    let role = prop_oneof![Just(SessionRole::Client), Just(SessionRole::Server)];
    (role, name()).prop_map(|(role, (endpoint, session, tag))| SessionRef {
        role,
        endpoint,
        session,
        tag,
    })
}

/// Any message that a process may send.
pub(super) fn message() -> impl Strategy<Value = Message> {
    let result = prop_oneof![
        grant().prop_map(Ok),
        (1u8..255).prop_map(|bits| Err(RefuseCode::from_bits(bits))),
    ];
    let error = (any::<u16>(), text());
    prop_oneof![
        hello().prop_map(Message::Hello),
        (any::<u64>(), params())
            .prop_map(|(connect_id, params)| Message::Connect { connect_id, params }),
        (any::<u64>(), result)
            .prop_map(|(connect_id, result)| Message::ConnectReply { connect_id, result }),
        session().prop_map(Message::Disconnect),
        session().prop_map(Message::DisconnectReply),
        any::<u64>().prop_map(|nonce| Message::Ping { nonce }),
        any::<u64>().prop_map(|nonce| Message::Pong { nonce }),
        Just(Message::Drain),
        any::<u8>().prop_map(|bits| Message::Bye { reason: ByeReason::from_bits(bits) }),
        error
            .prop_map(|(bits, detail)| Message::Error { code: ErrorCode::from_bits(bits), detail }),
        any::<[u8; 16]>().prop_map(|bytes| Message::Ticket(Ticket::new(bytes))),
        any::<[u8; 16]>().prop_map(|bytes| Message::Resume(Ticket::new(bytes))),
        any::<bool>().prop_map(|accepted| Message::Resumed { accepted }),
        Just(Message::Successor),
        group_strategies::message().prop_map(Message::Group),
    ]
}
