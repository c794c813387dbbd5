//! Joining a group as a worker (RT34).

use petasos_wire::{CREDITS_MAX, REQUEST_NUMBERS, SESSIONS_MAX};

use super::epoch::{Cipher, Epoch};
use super::{Detail, check_address, check_payload, read_flags};
use crate::Malformed;
use crate::address::DataAddress;
use crate::codes::RefuseCode;
use crate::fields::{Reader, Write};
use crate::session::check_session;

const FLAG_PRIMARY: u8 = 1;
/// Set in the index under which a worker knows a router (RT10).
const ROUTER_BIT: u32 = SESSIONS_MAX / 2;

/// What a worker offers (RT34).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JoinParams {
    /// The worker's own index of its endpoint.
    pub endpoint: u16,
    /// The worker's index of the router, for first packets (20 bits, the highest of them set).
    pub session: u32,
    /// The worker's tag for the router, for first packets (28 bits).
    pub tag: u32,
    /// The largest payload per packet that the worker can use, 1024 to 65000 bytes.
    pub payload_bytes_max: u16,
    /// *n*: how many requests it takes at a time, at most [`CREDITS_MAX`].
    pub bound: u16,
    /// Its part of the requests, in percent of what a worker of full weight gets: 1 to 100.
    pub weight: u16,
    /// Whether it joins as primary.
    pub is_primary: bool,
    /// The port at which clients that are placed dial it, over TCP (RT37). `None`: none are placed.
    pub dial_port: Option<u16>,
    /// Where the endpoint receives first packets, and sends from. Not of TCP.
    pub address: DataAddress,
}

/// A membership (RT34).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinGrant {
    /// The worker's number at the router; not 0.
    pub worker: u16,
    /// The router's index of the worker, for feedback (20 bits).
    pub session: u32,
    /// The router's tag for the worker, for feedback (28 bits).
    pub tag: u32,
    /// More bits that only the two know, for feedback (40 bits).
    pub secret: u64,
    /// The payload per packet of the group: at most what the worker can use.
    pub payload_bytes: u16,
    /// How many clients the router has at most.
    pub clients_max: u32,
    /// The most time until feedback, in microseconds (RT20); not 0.
    pub beat_us: u32,
    /// The time after which a number is written off, in microseconds (RT21); not 0.
    pub hole_us: u32,
    /// The time after which a claim lapses, in microseconds (RT17); not 0.
    pub claim_us: u32,
    /// What seals the group's packets; there is one exactly if the connection is over TLS.
    pub cipher: Option<Cipher>,
    /// The first epoch, with a secret exactly if there is a cipher.
    pub epoch: Epoch,
    /// Where first packets come from. Not of TCP.
    pub source: DataAddress,
    /// Where feedback goes. Not of TCP.
    pub feedback: DataAddress,
}

/// Why a router refuses a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The reason, for programs.
    pub code: RefuseCode,
    /// The reason, for people: the first field that is incompatible (RT31).
    pub detail: Detail,
}

impl JoinParams {
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.put_u16(self.endpoint);
        out.put_u32(self.session);
        out.put_u32(self.tag);
        out.put_u16(self.payload_bytes_max);
        out.put_u16(self.bound);
        out.put_u16(self.weight);
        out.put_u8(if self.is_primary { FLAG_PRIMARY } else { 0 });
        out.put_u16(self.dial_port.unwrap_or(0));
        self.address.write(out);
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<JoinParams, Malformed> {
        let params = JoinParams {
            endpoint: reader.u16()?,
            session: reader.u32()?,
            tag: reader.u32()?,
            payload_bytes_max: reader.u16()?,
            bound: reader.u16()?,
            weight: reader.u16()?,
            is_primary: read_flags(reader, FLAG_PRIMARY)? != 0,
            dial_port: Some(reader.u16()?).filter(|port| *port != 0),
            address: DataAddress::read(reader)?,
        };
        params.validate()?;
        Ok(params)
    }

    pub(crate) fn validate(&self) -> Result<(), Malformed> {
        check_session(self.session, self.tag)?;
        if self.session & ROUTER_BIT == 0 {
            return Err(Malformed::Value("session"));
        }
        check_payload(self.payload_bytes_max)?;
        if u32::from(self.bound) > CREDITS_MAX {
            return Err(Malformed::Value("n"));
        }
        if self.dial_port == Some(0) {
            return Err(Malformed::Value("dial_port"));
        }
        check_address(&self.address)
    }
}

impl JoinGrant {
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.put_u16(self.worker);
        out.put_u32(self.session);
        out.put_u32(self.tag);
        out.put_u40(self.secret);
        out.put_u16(self.payload_bytes);
        out.put_u32(self.clients_max);
        out.put_u32(self.beat_us);
        out.put_u32(self.hole_us);
        out.put_u32(self.claim_us);
        Cipher::write(self.cipher, out);
        self.epoch.write(None, out);
        self.source.write(out);
        self.feedback.write(out);
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<JoinGrant, Malformed> {
        let (worker, session, tag) = (reader.u16()?, reader.u32()?, reader.u32()?);
        let (secret, payload_bytes, clients_max) = (reader.u40()?, reader.u16()?, reader.u32()?);
        let (beat_us, hole_us, claim_us) = (reader.u32()?, reader.u32()?, reader.u32()?);
        let cipher = Cipher::read(reader)?;
        let (client, epoch) = Epoch::read(reader, cipher.is_some())?;
        if client.is_some() {
            return Err(Malformed::Value("client"));
        }
        let (source, feedback) = (DataAddress::read(reader)?, DataAddress::read(reader)?);
        let grant = JoinGrant {
            worker,
            session,
            tag,
            secret,
            payload_bytes,
            clients_max,
            beat_us,
            hole_us,
            claim_us,
            cipher,
            epoch,
            source,
            feedback,
        };
        grant.validate()?;
        Ok(grant)
    }

    pub(crate) fn validate(&self) -> Result<(), Malformed> {
        if self.worker == 0 {
            return Err(Malformed::Value("worker"));
        }
        check_session(self.session, self.tag)?;
        if self.secret >= REQUEST_NUMBERS {
            return Err(Malformed::Value("secret"));
        }
        check_payload(self.payload_bytes)?;
        let times = [(self.beat_us, "beat"), (self.hole_us, "hole"), (self.claim_us, "claim")];
        if let Some((_, name)) = times.into_iter().find(|(time, _)| *time == 0) {
            return Err(Malformed::Value(name));
        }
        self.epoch.validate(self.cipher.is_some())?;
        check_address(&self.source)?;
        check_address(&self.feedback)
    }
}
