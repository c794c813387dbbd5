//! What a router tells without being asked (RT36).

use core::net::SocketAddr;

use super::epoch::Epoch;
use super::table::Table;
use super::{
    KIND_ACTIVE, KIND_CLIENTS, KIND_EPOCH, KIND_MEMBERS, KIND_ROUTERS, KIND_TABLE, check_address,
    check_client,
};
use crate::Malformed;
use crate::address::DataAddress;
use crate::fields::{Reader, Write};
use crate::frame::BODY_BYTES_MAX;

/// The most routers of a group that are told.
pub const ROUTERS_MAX: usize = 8;
/// The most bytes of all names of one client, each behind its length in two bytes.
pub const NAMES_BYTES_MAX: usize = 4000;

const _: () = assert!(4 + 1 + 2 + NAMES_BYTES_MAX <= BODY_BYTES_MAX, "any client fits a message");

/// What a router tells (RT36). A list may be empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// To workers: a part of the table of methods.
    Table(Table),
    /// To clients: what has changed in the roster.
    Members(Vec<MemberChange>),
    /// To workers: what has changed among the clients.
    Clients(Vec<ClientChange>),
    /// An epoch begins.
    Epoch {
        /// The client whose attachment it is for; `None`: it is for workers.
        client: Option<u32>,
        /// The epoch.
        epoch: Epoch,
    },
    /// To clients: whether this router is the active one.
    Active(Active),
    /// The control addresses of the group's routers, at most [`ROUTERS_MAX`].
    Routers(Vec<SocketAddr>),
}

/// A worker, as clients hear of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberChange {
    /// Its number at the router; not 0.
    pub worker: u16,
    /// What holds of it now.
    pub state: MemberState,
}

/// The state of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberState {
    /// It is not a member any more.
    Gone,
    /// It is a member, at this data address: one with an IP address, and not of TCP.
    There(DataAddress),
    /// The same, and it gets no more requests.
    Draining(DataAddress),
}

/// A client, as workers hear of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientChange {
    /// Its number at the router (20 bits).
    pub client: u32,
    /// The names in its certificate, none without TLS; not empty, and together at most
    /// [`NAMES_BYTES_MAX`] bytes with their lengths. `None`: the client is gone.
    pub names: Option<Vec<String>>,
}

/// Whether a router is the active one of its group (RT38).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Active {
    /// It is; otherwise it stands by.
    pub is_active: bool,
    /// Which change of routers said so. The greatest counts.
    pub term: u32,
}

const GONE: u8 = 0;
const THERE: u8 = 1;
const DRAINING: u8 = 2;

impl Told {
    pub(super) const fn kind(&self) -> u8 {
        match self {
            Told::Table(_) => KIND_TABLE,
            Told::Members(_) => KIND_MEMBERS,
            Told::Clients(_) => KIND_CLIENTS,
            Told::Epoch { .. } => KIND_EPOCH,
            Told::Active(_) => KIND_ACTIVE,
            Told::Routers(_) => KIND_ROUTERS,
        }
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        match self {
            Told::Table(table) => table.write(out),
            Told::Members(changes) => changes.iter().for_each(|change| change.write(out)),
            Told::Clients(changes) => changes.iter().for_each(|change| change.write(out)),
            Told::Epoch { client, epoch } => epoch.write(*client, out),
            Told::Active(Active { is_active, term }) => {
                out.put_u8(u8::from(*is_active));
                out.put_u32(*term);
            }
            Told::Routers(addresses) => {
                addresses.iter().for_each(|address| DataAddress::of_name(*address).write(out));
            }
        }
    }

    pub(super) fn read(kind: u8, reader: &mut Reader<'_>) -> Result<Told, Malformed> {
        let told = match kind {
            KIND_TABLE => Told::Table(Table::read(reader)?),
            KIND_MEMBERS => Told::Members(reader.entries(MemberChange::read)?),
            KIND_CLIENTS => Told::Clients(reader.entries(ClientChange::read)?),
            KIND_EPOCH => {
                // Without a cipher beside it, the length says whether there is a secret.
                let is_sealed = reader.left() > 4 + 2 + 1;
                let (client, epoch) = Epoch::read(reader, is_sealed)?;
                Told::Epoch { client, epoch }
            }
            KIND_ACTIVE => {
                let is_active = match reader.u8()? {
                    0 => false,
                    1 => true,
                    _ => return Err(Malformed::Value("state")),
                };
                Told::Active(Active { is_active, term: reader.u32()? })
            }
            KIND_ROUTERS => {
                Told::Routers(reader.entries(|reader| DataAddress::read_name(reader, "address"))?)
            }
            unknown => return Err(Malformed::UnknownKind(unknown)),
        };
        told.validate()?;
        Ok(told)
    }

    /// Bytes of the message's body. What is told at a time has at most
    /// [`BODY_BYTES_MAX`](crate::BODY_BYTES_MAX).
    pub fn body_bytes(&self) -> usize {
        let mut body = Vec::new();
        self.write(&mut body);
        body.len()
    }

    pub(crate) fn validate(&self) -> Result<(), Malformed> {
        match self {
            Told::Table(table) => table.validate(),
            Told::Members(changes) => changes.iter().try_for_each(MemberChange::validate),
            Told::Clients(changes) => changes.iter().try_for_each(ClientChange::validate),
            Told::Epoch { client, epoch } => {
                client.map_or(Ok(()), check_client)?;
                epoch.validate(epoch.secret.is_some())
            }
            Told::Active(_) => Ok(()),
            Told::Routers(addresses) if addresses.len() > ROUTERS_MAX => {
                Err(Malformed::Value("routers"))
            }
            Told::Routers(addresses) => {
                addresses.iter().try_for_each(|it| DataAddress::of_name(*it).validate())
            }
        }
    }
}

impl MemberChange {
    fn write(&self, out: &mut Vec<u8>) {
        out.put_u16(self.worker);
        let (state, address) = match &self.state {
            MemberState::Gone => return out.put_u8(GONE),
            MemberState::There(address) => (THERE, address),
            MemberState::Draining(address) => (DRAINING, address),
        };
        out.put_u8(state);
        address.write(out);
    }

    fn read(reader: &mut Reader<'_>) -> Result<MemberChange, Malformed> {
        let worker = reader.u16()?;
        let state = match reader.u8()? {
            GONE => MemberState::Gone,
            THERE => MemberState::There(DataAddress::read(reader)?),
            DRAINING => MemberState::Draining(DataAddress::read(reader)?),
            _ => return Err(Malformed::Value("state")),
        };
        Ok(MemberChange { worker, state })
    }

    fn validate(&self) -> Result<(), Malformed> {
        if self.worker == 0 {
            return Err(Malformed::Value("worker"));
        }
        match &self.state {
            MemberState::Gone => Ok(()),
            MemberState::There(address) | MemberState::Draining(address) => {
                if address.ip.is_none() {
                    return Err(Malformed::Value("address"));
                }
                check_address(address)
            }
        }
    }
}

impl ClientChange {
    fn write(&self, out: &mut Vec<u8>) {
        out.put_u32(self.client);
        let Some(names) = &self.names else { return out.put_u8(GONE) };
        out.put_u8(THERE);
        out.put_u16(bytes_of(names) as u16);
        for name in names {
            out.put_u16(name.len() as u16);
            out.extend_from_slice(name.as_bytes());
        }
    }

    fn read(reader: &mut Reader<'_>) -> Result<ClientChange, Malformed> {
        let client = reader.u32()?;
        let names = match reader.u8()? {
            GONE => None,
            THERE => {
                let bytes = reader.u16()?.into();
                Some(reader.part(bytes)?.entries(read_name)?)
            }
            _ => return Err(Malformed::Value("state")),
        };
        Ok(ClientChange { client, names })
    }

    fn validate(&self) -> Result<(), Malformed> {
        check_client(self.client)?;
        let names = self.names.as_deref().unwrap_or_default();
        if bytes_of(names) > NAMES_BYTES_MAX || names.iter().any(String::is_empty) {
            return Err(Malformed::Value("names"));
        }
        Ok(())
    }
}

/// Bytes of names, each behind its length.
fn bytes_of(names: &[String]) -> usize {
    names.iter().map(|name| 2 + name.len()).sum()
}

fn read_name(reader: &mut Reader<'_>) -> Result<String, Malformed> {
    let length = reader.u16()?;
    let name = core::str::from_utf8(reader.bytes(length.into())?);
    Ok(name.map_err(|_| Malformed::Value("names"))?.to_owned())
}
