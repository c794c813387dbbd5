//! Attaching a client to a group (RT33).

use super::epoch::{Cipher, Epoch};
use super::{check_address, check_client, check_payload, read_flags};
use crate::Malformed;
use crate::address::DataAddress;
use crate::fields::{Reader, Write};
use crate::session::check_session;

/// The most pairs that a client may have asked at a time: as many as it can tell apart.
pub const ASKED_MAX: u32 = 1 << 19;

const FLAG_NO_WINDOW: u8 = 1;

/// What a client asks for (RT33).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttachParams {
    /// The client's own index of its endpoint.
    pub endpoint: u16,
    /// The largest payload per packet that the client can use, 1024 to 65000 bytes.
    pub payload_bytes_max: u16,
    /// Asked pairs at a time that the client wants, 1 to [`ASKED_MAX`].
    pub asked_max: u32,
    /// Where the endpoint sends from, and receives answers. Not of TCP.
    pub address: DataAddress,
}

/// An attachment (RT33).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttachGrant {
    /// The client's number at the router (20 bits).
    pub client: u32,
    /// The router's tag for the client (28 bits).
    pub tag: u32,
    /// The payload per packet of the group: at most what the client can use.
    pub payload_bytes: u16,
    /// Asked pairs at a time: at most as many as wished, and at least 1.
    pub asked_max: u32,
    /// Whether the router does not remember the numbers of first packets (RT3).
    pub has_no_window: bool,
    /// What seals the group's packets; there is one exactly if the connection is over TLS.
    pub cipher: Option<Cipher>,
    /// The first epoch, with a secret exactly if there is a cipher.
    pub epoch: Epoch,
    /// Where first packets go. Not of TCP.
    pub address: DataAddress,
}

impl AttachParams {
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.put_u16(self.endpoint);
        out.put_u16(self.payload_bytes_max);
        out.put_u32(self.asked_max);
        self.address.write(out);
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<AttachParams, Malformed> {
        let params = AttachParams {
            endpoint: reader.u16()?,
            payload_bytes_max: reader.u16()?,
            asked_max: reader.u32()?,
            address: DataAddress::read(reader)?,
        };
        params.validate()?;
        Ok(params)
    }

    pub(crate) fn validate(&self) -> Result<(), Malformed> {
        check_payload(self.payload_bytes_max)?;
        check_asked(self.asked_max)?;
        check_address(&self.address)
    }
}

impl AttachGrant {
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.put_u32(self.client);
        out.put_u32(self.tag);
        out.put_u16(self.payload_bytes);
        out.put_u32(self.asked_max);
        out.put_u8(if self.has_no_window { FLAG_NO_WINDOW } else { 0 });
        Cipher::write(self.cipher, out);
        self.epoch.write(Some(self.client), out);
        self.address.write(out);
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<AttachGrant, Malformed> {
        let (client, tag) = (reader.u32()?, reader.u32()?);
        let (payload_bytes, asked_max) = (reader.u16()?, reader.u32()?);
        let has_no_window = read_flags(reader, FLAG_NO_WINDOW)? != 0;
        let cipher = Cipher::read(reader)?;
        let (named, epoch) = Epoch::read(reader, cipher.is_some())?;
        if named != Some(client) {
            return Err(Malformed::Value("client"));
        }
        let address = DataAddress::read(reader)?;
        let grant = AttachGrant {
            client,
            tag,
            payload_bytes,
            asked_max,
            has_no_window,
            cipher,
            epoch,
            address,
        };
        grant.validate()?;
        Ok(grant)
    }

    pub(crate) fn validate(&self) -> Result<(), Malformed> {
        check_client(self.client)?;
        check_session(self.client, self.tag)?;
        check_payload(self.payload_bytes)?;
        check_asked(self.asked_max)?;
        self.epoch.validate(self.cipher.is_some())?;
        check_address(&self.address)
    }
}

fn check_asked(asked_max: u32) -> Result<(), Malformed> {
    if !(1..=ASKED_MAX).contains(&asked_max) {
        return Err(Malformed::Value("asked_max"));
    }
    Ok(())
}
