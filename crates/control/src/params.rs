//! The parameters that the two ends of a session agree on (C7, C9).

mod bytes;

use core::net::SocketAddr;

use petasos_wire::{CREDITS_MAX, MESSAGE_BYTES_MAX, PAYLOAD_BYTES_MIN, SLOTS_MAX};

use crate::address::DataAddress;
use crate::session::check_session;
use crate::{Malformed, RefuseCode, SessionRef, SessionRole};

/// The largest payload per packet that a session may negotiate, in bytes (C7): with header,
/// checksum and the outer headers it still fits the 65,535 bytes of an IP packet.
pub const PAYLOAD_BYTES_MAX: u32 = 65_000;

/// [`Target::Any`] on the wire; no endpoint has this index.
const TARGET_ANY: u16 = u16::MAX;

/// The endpoint of the server process that a client asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Any endpoint; the server chooses.
    Any,
    /// This one; below `u16::MAX`.
    Index(u16),
}

/// How lost packets are sent again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Recovery {
    /// Only those that are missing.
    #[default]
    Selective,
    /// All from the first missing one.
    GoBackN,
}

/// How a server on the same host can reach a client without the network (C17).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalOffer {
    /// The local name of the client's endpoint: an address whose port is independent of UDP's and
    /// TCP's.
    pub name: SocketAddr,
    /// Packets in flight wanted over local names, instead of the connect's.
    pub credits: u16,
    /// The largest payload per packet over local names, instead of the connect's.
    pub payload_bytes_max: u16,
}

/// The parameters that a client asks for (C7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectParams {
    /// Which endpoint of the server it wants.
    pub target: Target,
    /// Where the client's endpoint receives packets.
    pub address: DataAddress,
    /// The client's own index of that endpoint.
    pub endpoint: u16,
    /// The client's index of the session (20 bits).
    pub session: u32,
    /// The client's random tag (28 bits).
    pub tag: u32,
    /// Concurrent requests: a power of two, 1 to 64.
    pub slots: u8,
    /// Packets in flight wanted, 1 to 4095.
    pub credits: u16,
    /// The largest payload per packet that the client can use, 1024 to 65000 bytes.
    pub payload_bytes_max: u16,
    /// The longest request that the client may send.
    pub request_bytes_max: u32,
    /// The longest response that the client accepts.
    pub response_bytes_max: u32,
    /// How lost packets are sent again, in both directions.
    pub recovery: Recovery,
    /// Whether packets carry a CRC32C, in both directions.
    pub checksum: bool,
    /// The way around the network, if the client has one.
    pub local: Option<LocalOffer>,
}

/// The parameters that a server grants (C9): nothing beyond what was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AcceptParams {
    /// Where the server's endpoint receives packets.
    pub address: DataAddress,
    /// The server's index of that endpoint.
    pub endpoint: u16,
    /// The server's index of the session (20 bits).
    pub session: u32,
    /// The server's random tag (28 bits).
    pub tag: u32,
    /// Concurrent requests granted: a power of two, at most those asked for.
    pub slots: u8,
    /// Packets in flight granted, at most those wanted.
    pub credits: u16,
    /// The payload per packet: the smaller of both sides' largest.
    pub payload_bytes: u16,
    /// The longest request: the smaller of both sides' limits.
    pub request_bytes_max: u32,
    /// The longest response: the smaller of both sides' limits.
    pub response_bytes_max: u32,
    /// The local name of the server's endpoint. With it, this session's packets use local names in
    /// both directions, and not the network (C17).
    pub local: Option<SocketAddr>,
}

/// What a server can grant to one session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerLimits {
    /// Concurrent requests, at least 1.
    pub slots_max: u8,
    /// Packets in flight, at least 1.
    pub credits_max: u16,
    /// Payload per packet, in bytes.
    pub payload_bytes_max: u16,
    /// Longest request, in bytes.
    pub request_bytes_max: u32,
    /// Longest response, in bytes.
    pub response_bytes_max: u32,
}

impl ConnectParams {
    /// The client's end of the session.
    pub fn client_ref(&self) -> SessionRef {
        let ConnectParams { endpoint, session, tag, .. } = *self;
        SessionRef { role: SessionRole::Client, endpoint, session, tag }
    }

    /// The grant that satisfies both the client and `limits`, for the server's session
    /// `(endpoint, session, tag)` at `address`. It uses local names if the server has a `local` one
    /// and the client has offered its own.
    ///
    /// # Errors
    /// [`RefuseCode::IncompatibleParameters`] if no values satisfy both `limits` and C7.
    pub fn accept(
        &self,
        limits: &ServerLimits,
        server: SessionRef,
        address: DataAddress,
        local: Option<SocketAddr>,
    ) -> Result<AcceptParams, RefuseCode> {
        let local = local.filter(|_| self.local.is_some());
        let (credits, payload_bytes_max) = self.window(local.is_some());
        let slots = self.slots.min(limits.slots_max);
        let grant = AcceptParams {
            address,
            endpoint: server.endpoint,
            session: server.session,
            tag: server.tag,
            slots: slots.checked_ilog2().map_or(0, |log| 1 << log),
            credits: credits.min(limits.credits_max),
            payload_bytes: payload_bytes_max.min(limits.payload_bytes_max),
            request_bytes_max: self.request_bytes_max.min(limits.request_bytes_max),
            response_bytes_max: self.response_bytes_max.min(limits.response_bytes_max),
            local,
        };
        grant.validate().map_err(|_| RefuseCode::IncompatibleParameters)?;
        Ok(grant)
    }

    /// The credits and the payload per packet that the client asks for, over local names or over
    /// the network.
    fn window(&self, local: bool) -> (u16, u16) {
        match self.local.filter(|_| local) {
            Some(offer) => (offer.credits, offer.payload_bytes_max),
            None => (self.credits, self.payload_bytes_max),
        }
    }

    pub(crate) fn validate(&self) -> Result<(), Malformed> {
        if self.target == Target::Index(TARGET_ANY) {
            return Err(Malformed::Value("target"));
        }
        self.address.validate()?;
        check_session(self.session, self.tag)?;
        check_window(self.slots, self.credits, self.payload_bytes_max)?;
        if let Some(offer) = self.local {
            DataAddress::of_name(offer.name).validate()?;
            check_window(self.slots, offer.credits, offer.payload_bytes_max)?;
        }
        check_messages(self.request_bytes_max, self.response_bytes_max)
    }
}

impl AcceptParams {
    /// The server's end of the session.
    pub fn server_ref(&self) -> SessionRef {
        let AcceptParams { endpoint, session, tag, .. } = *self;
        SessionRef { role: SessionRole::Server, endpoint, session, tag }
    }

    /// Checks that nothing exceeds what `asked` asks for. The error names the field that does (C9).
    pub(crate) fn fits(&self, asked: &ConnectParams) -> Result<(), &'static str> {
        let (credits, payload_bytes_max) = asked.window(self.local.is_some());
        let checks = [
            (self.local.is_none() || asked.local.is_some(), "local"),
            (self.address.carrier == asked.address.carrier, "address"),
            (self.slots <= asked.slots, "slots"),
            (self.credits <= credits, "credits"),
            (self.payload_bytes <= payload_bytes_max, "payload_bytes"),
            (self.request_bytes_max <= asked.request_bytes_max, "request_bytes_max"),
            (self.response_bytes_max <= asked.response_bytes_max, "response_bytes_max"),
            (matches_target(asked.target, self.endpoint), "endpoint"),
        ];
        checks.iter().find(|(fits, _)| !fits).map_or(Ok(()), |(_, field)| Err(field))
    }

    pub(crate) fn validate(&self) -> Result<(), Malformed> {
        self.address.validate()?;
        if let Some(name) = self.local {
            DataAddress::of_name(name).validate()?;
        }
        check_session(self.session, self.tag)?;
        check_window(self.slots, self.credits, self.payload_bytes)?;
        check_messages(self.request_bytes_max, self.response_bytes_max)
    }
}

fn matches_target(target: Target, endpoint: u16) -> bool {
    match target {
        Target::Any => true,
        Target::Index(index) => index == endpoint,
    }
}

fn check_window(slots: u8, credits: u16, payload_bytes: u16) -> Result<(), Malformed> {
    if !slots.is_power_of_two() || u32::from(slots) > SLOTS_MAX {
        return Err(Malformed::Value("slots"));
    }
    if !(1..=CREDITS_MAX).contains(&credits.into()) {
        return Err(Malformed::Value("credits"));
    }
    if !(PAYLOAD_BYTES_MIN..=PAYLOAD_BYTES_MAX).contains(&payload_bytes.into()) {
        return Err(Malformed::Value("payload_bytes"));
    }
    Ok(())
}

fn check_messages(request_bytes_max: u32, response_bytes_max: u32) -> Result<(), Malformed> {
    if request_bytes_max > MESSAGE_BYTES_MAX {
        return Err(Malformed::Value("request_bytes_max"));
    }
    if response_bytes_max > MESSAGE_BYTES_MAX {
        return Err(Malformed::Value("response_bytes_max"));
    }
    Ok(())
}
