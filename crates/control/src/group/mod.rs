//! What clients and workers of a group agree on with its router, since version 1.4.
//!
//! A client *attaches*, a worker *joins*; the router tells both what they have to know, and places
//! callers that want to stay with one worker. `docs/spec/route.md` specifies the messages (RT33 to
//! RT37). Who may say which of them when is the affair of [`crate::Connection`].

mod attach;
mod epoch;
mod join;
mod place;
mod table;
mod told;

use crate::address::DataAddress;
use crate::carrier::Carrier;
use crate::codes::RefuseCode;
use crate::fields::{Reader, Write};
use crate::frame::FRAME_HEADER_BYTES;
use crate::text::{DETAIL_BYTES_MAX, Text};
use crate::{Malformed, PAYLOAD_BYTES_MAX};

pub use attach::{ASKED_MAX, AttachGrant, AttachParams};
pub(crate) use epoch::is_older;
pub use epoch::{Cipher, Epoch, Secret};
pub use join::{JoinGrant, JoinParams, Refusal};
pub use place::{Leave, Member, PlaceGrant, PlaceParams};
pub use table::{NAME_MAX, Table};
pub use told::{
    Active, ClientChange, MemberChange, MemberState, NAMES_BYTES_MAX, ROUTERS_MAX, Told,
};

/// A message between a router and a client or worker of its group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupMessage {
    /// An endpoint wants to send requests to the group (RT33).
    Attach {
        /// Names the attempt; no other one of the process, on any connection, has it.
        attach_id: u64,
        /// What it asks for.
        params: AttachParams,
    },
    /// The router's answer.
    Attached {
        /// The attempt that is answered.
        attach_id: u64,
        /// The attachment, or why there is none.
        result: Result<AttachGrant, RefuseCode>,
    },
    /// An endpoint wants to serve requests to the group (RT34).
    Join {
        /// Names the attempt; no other one of the process, on any connection, has it.
        join_id: u64,
        /// What it offers.
        params: JoinParams,
    },
    /// The router's answer.
    Joined {
        /// The attempt that is answered.
        join_id: u64,
        /// The membership, or why there is none.
        result: Result<JoinGrant, Refusal>,
    },
    /// What the router tells without being asked (RT36).
    Told(Told),
    /// A worker process has an epoch, and takes requests of it (RT36).
    EpochHeard {
        /// Its number.
        epoch: u16,
    },
    /// A client asks for a worker to connect to (RT37).
    Place {
        /// Names the attempt; no other one of the process, on any connection, has it.
        place_id: u64,
        /// What it asks for.
        params: PlaceParams,
    },
    /// The router's answer.
    Placed {
        /// The attempt that is answered.
        place_id: u64,
        /// The worker, or why there is none.
        result: Result<PlaceGrant, RefuseCode>,
    },
    /// The end of an attachment or a membership, and its confirmation (RT35).
    Leave(Leave),
}

const KIND_ATTACH: u8 = 15;
const KIND_ATTACHED: u8 = 16;
const KIND_JOIN: u8 = 17;
const KIND_JOINED: u8 = 18;
pub(crate) const KIND_TABLE: u8 = 19;
pub(crate) const KIND_MEMBERS: u8 = 20;
pub(crate) const KIND_CLIENTS: u8 = 21;
pub(crate) const KIND_EPOCH: u8 = 22;
const KIND_EPOCH_HEARD: u8 = 23;
pub(crate) const KIND_ACTIVE: u8 = 24;
pub(crate) const KIND_ROUTERS: u8 = 25;
const KIND_PLACE: u8 = 26;
const KIND_PLACED: u8 = 27;
const KIND_LEAVE: u8 = 28;

/// Bytes of an epoch with a secret.
const EPOCH_BYTES_MAX: usize = 4 + 2 + 1 + 32;
/// Bytes of the longest data address.
const ADDRESS_BYTES_MAX: usize = 2 + 1 + 16;
/// Bytes of the longest answer to a join, without a refusal's text.
pub(crate) const JOINED_BODY_BYTES_MAX: usize =
    8 + 1 + 2 + 4 + 4 + 5 + 2 + 4 + 3 * 4 + 1 + EPOCH_BYTES_MAX + 2 * ADDRESS_BYTES_MAX;
/// Bytes of the longest answer to an attach, with the message that follows it.
const ATTACHED_BYTES_MAX: usize =
    8 + 1 + 4 + 4 + 2 + 4 + 1 + 1 + EPOCH_BYTES_MAX + ADDRESS_BYTES_MAX + FRAME_HEADER_BYTES + 5;

const _: () = assert!(ATTACHED_BYTES_MAX <= JOINED_BODY_BYTES_MAX, "no answer is longer");

/// The text of a refusal.
type Detail = Text<DETAIL_BYTES_MAX>;

/// Means "granted" in the place of a refuse code.
const GRANTED: u8 = 0;

impl GroupMessage {
    /// Whether `kind` is one of these messages'.
    pub(crate) const fn has_kind(kind: u8) -> bool {
        KIND_ATTACH <= kind && kind <= KIND_LEAVE
    }

    pub(crate) const fn kind(&self) -> u8 {
        match self {
            GroupMessage::Attach { .. } => KIND_ATTACH,
            GroupMessage::Attached { .. } => KIND_ATTACHED,
            GroupMessage::Join { .. } => KIND_JOIN,
            GroupMessage::Joined { .. } => KIND_JOINED,
            GroupMessage::Told(told) => told.kind(),
            GroupMessage::EpochHeard { .. } => KIND_EPOCH_HEARD,
            GroupMessage::Place { .. } => KIND_PLACE,
            GroupMessage::Placed { .. } => KIND_PLACED,
            GroupMessage::Leave(_) => KIND_LEAVE,
        }
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        match self {
            GroupMessage::Attach { attach_id, params } => {
                out.put_u64(*attach_id);
                params.write(out);
            }
            GroupMessage::Attached { attach_id, result } => {
                out.put_u64(*attach_id);
                write_result(out, result, AttachGrant::write);
            }
            GroupMessage::Join { join_id, params } => {
                out.put_u64(*join_id);
                params.write(out);
            }
            GroupMessage::Joined { join_id, result } => {
                out.put_u64(*join_id);
                let code = result.as_ref().map_err(|refusal| refusal.code);
                write_result(out, &code, |grant, out| grant.write(out));
                if let Err(refusal) = result {
                    out.put_text(&refusal.detail);
                }
            }
            GroupMessage::Told(told) => told.write(out),
            GroupMessage::EpochHeard { epoch } => out.put_u16(*epoch),
            GroupMessage::Place { place_id, params } => {
                out.put_u64(*place_id);
                params.write(out);
            }
            GroupMessage::Placed { place_id, result } => {
                out.put_u64(*place_id);
                write_result(out, result, PlaceGrant::write);
            }
            GroupMessage::Leave(leave) => leave.write(out),
        }
    }

    /// Reads the body of a kind for which [`GroupMessage::has_kind`] is true.
    pub(crate) fn read(kind: u8, reader: &mut Reader<'_>) -> Result<GroupMessage, Malformed> {
        Ok(match kind {
            KIND_ATTACH => GroupMessage::Attach {
                attach_id: reader.u64()?,
                params: AttachParams::read(reader)?,
            },
            KIND_ATTACHED => GroupMessage::Attached {
                attach_id: reader.u64()?,
                result: read_result(reader, AttachGrant::read)?,
            },
            KIND_JOIN => {
                GroupMessage::Join { join_id: reader.u64()?, params: JoinParams::read(reader)? }
            }
            KIND_JOINED => GroupMessage::Joined {
                join_id: reader.u64()?,
                result: match read_result(reader, JoinGrant::read)? {
                    Ok(grant) => Ok(grant),
                    Err(code) => Err(Refusal { code, detail: reader.text("detail")? }),
                },
            },
            KIND_EPOCH_HEARD => {
                GroupMessage::EpochHeard { epoch: epoch::checked_number(reader.u16()?)? }
            }
            KIND_PLACE => {
                GroupMessage::Place { place_id: reader.u64()?, params: PlaceParams::read(reader)? }
            }
            KIND_PLACED => GroupMessage::Placed {
                place_id: reader.u64()?,
                result: read_result(reader, PlaceGrant::read)?,
            },
            KIND_LEAVE => GroupMessage::Leave(Leave::read(reader)?),
            _ => GroupMessage::Told(Told::read(kind, reader)?),
        })
    }
}

fn write_result<T>(
    out: &mut Vec<u8>,
    result: &Result<T, RefuseCode>,
    write: impl FnOnce(&T, &mut Vec<u8>),
) {
    match result {
        Ok(grant) => {
            out.put_u8(GRANTED);
            write(grant, out);
        }
        Err(code) => out.put_u8(code.to_bits()),
    }
}

fn read_result<T>(
    reader: &mut Reader<'_>,
    read: impl FnOnce(&mut Reader<'_>) -> Result<T, Malformed>,
) -> Result<Result<T, RefuseCode>, Malformed> {
    match reader.u8()? {
        GRANTED => read(reader).map(Ok),
        code => Ok(Err(RefuseCode::from_bits(code))),
    }
}

/// Checks where packets of a group go. They do not travel over TCP.
fn check_address(address: &DataAddress) -> Result<(), Malformed> {
    if address.carrier == Carrier::Tcp {
        return Err(Malformed::Value("address"));
    }
    address.validate()
}

/// Checks the number of a client (RT2).
fn check_client(client: u32) -> Result<(), Malformed> {
    if client >= petasos_wire::CLIENTS_MAX {
        return Err(Malformed::Value("client"));
    }
    Ok(())
}

/// Checks a payload size, or the greatest that a member can use (RT32).
fn check_payload(bytes: u16) -> Result<(), Malformed> {
    if !(petasos_wire::PAYLOAD_BYTES_MIN..=PAYLOAD_BYTES_MAX).contains(&bytes.into()) {
        return Err(Malformed::Value("payload_bytes"));
    }
    Ok(())
}

/// Reads a byte of flags, of which only `known` may be set.
fn read_flags(reader: &mut Reader<'_>, known: u8) -> Result<u8, Malformed> {
    let flags = reader.u8()?;
    if flags & !known != 0 {
        return Err(Malformed::Value("flags"));
    }
    Ok(flags)
}
