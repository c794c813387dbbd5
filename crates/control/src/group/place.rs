//! Workers for callers that stay (RT37), and the end of attachments and memberships (RT35).

use core::net::SocketAddr;

use petasos_wire::{RoutePolicy, TAG_MAX};

use super::check_client;
use crate::Malformed;
use crate::address::DataAddress;
use crate::fields::{Reader, Write};

/// What a client wants to be placed by (RT37).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlaceParams {
    /// Its number at the router (20 bits).
    pub client: u32,
    /// How the worker is picked; not [`RoutePolicy::Probe`].
    pub policy: RoutePolicy,
    /// CRC32C of the key with [`RoutePolicy::Hash`], otherwise 0.
    pub key_hash: u32,
    /// A worker that has just failed it.
    pub avoid: Option<u16>,
}

/// A worker to connect to (RT37).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlaceGrant {
    /// Its number at the router; not 0.
    pub worker: u16,
    /// Its control address.
    pub address: SocketAddr,
}

/// Who is a member, and by which number of the router.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Member {
    /// A client, by its number (20 bits).
    Client(u32),
    /// A worker, by its number; not 0.
    Worker(u16),
}

/// The end of an attachment or a membership (RT35). The answer is the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Leave {
    /// Who leaves, or has to.
    pub member: Member,
    /// The tag that the router gave with the number (28 bits).
    pub tag: u32,
}

const ROLE_CLIENT: u8 = 0;
const ROLE_WORKER: u8 = 1;

impl PlaceParams {
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.put_u32(self.client);
        out.put_u8(self.policy as u8);
        out.put_u32(self.key_hash);
        out.put_u16(self.avoid.unwrap_or(0));
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<PlaceParams, Malformed> {
        let client = reader.u32()?;
        let policy = RoutePolicy::from_number(reader.u8()?).ok_or(Malformed::Value("policy"))?;
        let key_hash = reader.u32()?;
        let avoid = Some(reader.u16()?).filter(|worker| *worker != 0);
        let params = PlaceParams { client, policy, key_hash, avoid };
        params.validate()?;
        Ok(params)
    }

    pub(crate) fn validate(&self) -> Result<(), Malformed> {
        check_client(self.client)?;
        if self.policy == RoutePolicy::Probe {
            return Err(Malformed::Value("policy"));
        }
        if self.avoid == Some(0) {
            return Err(Malformed::Value("avoid"));
        }
        Ok(())
    }
}

impl PlaceGrant {
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.put_u16(self.worker);
        DataAddress::of_name(self.address).write(out);
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<PlaceGrant, Malformed> {
        let worker = reader.u16()?;
        let grant = PlaceGrant { worker, address: DataAddress::read_name(reader, "address")? };
        grant.validate()?;
        Ok(grant)
    }

    pub(crate) fn validate(&self) -> Result<(), Malformed> {
        Member::Worker(self.worker).validate()?;
        DataAddress::of_name(self.address).validate()
    }
}

impl Member {
    fn validate(self) -> Result<(), Malformed> {
        match self {
            Member::Client(client) => check_client(client),
            Member::Worker(0) => Err(Malformed::Value("worker")),
            Member::Worker(_) => Ok(()),
        }
    }
}

impl Leave {
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let (role, number) = match self.member {
            Member::Client(client) => (ROLE_CLIENT, client),
            Member::Worker(worker) => (ROLE_WORKER, worker.into()),
        };
        out.put_u8(role);
        out.put_u32(number);
        out.put_u32(self.tag);
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Leave, Malformed> {
        let (role, number) = (reader.u8()?, reader.u32()?);
        let member = match role {
            ROLE_CLIENT => Member::Client(number),
            ROLE_WORKER => {
                Member::Worker(number.try_into().map_err(|_| Malformed::Value("worker"))?)
            }
            _ => return Err(Malformed::Value("role")),
        };
        let leave = Leave { member, tag: reader.u32()? };
        leave.validate()?;
        Ok(leave)
    }

    pub(crate) fn validate(&self) -> Result<(), Malformed> {
        self.member.validate()?;
        if self.tag >= TAG_MAX {
            return Err(Malformed::Value("tag"));
        }
        Ok(())
    }
}
