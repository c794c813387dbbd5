//! How a member joins a group: it is told its number, and becomes a voter once it has caught up
//! (QR8).

use std::net::SocketAddr;
use std::time::Duration;

use petasos_cli::failure::Failure;
use petasos_cli::output;
use petasos_quorum::client::ClientError;
use petasos_quorum::contact::Contact;
use petasos_quorum::member::Admin;
use petasos_raft::MemberId;

use crate::client::{CallArgs, connect, failure};
use crate::data::{MemberFile, secret};

/// Asks the group that has `members` for a number.
///
/// # Errors
/// If it gives none.
pub fn join(
    members: &[String],
    call: &CallArgs,
    address: SocketAddr,
) -> Result<MemberFile, Failure> {
    let mut connected = connect(members, call)?;
    let status = connected.status()?;
    let group = u128::from_str_radix(&status.group, 16);
    let group = group.map_err(|_| failure(&ClientError::Malformed))?;
    let contact = Contact { incarnation: secret(), address };
    let number = connected.client.admin(&Admin::Add(contact)).map_err(|error| failure(&error))?;
    Ok(MemberFile::new(group, number, contact, status.charter))
}

/// How long a member waits before it asks again to become a voter.
const PAUSE: Duration = Duration::from_millis(200);

/// Asks the group to make a learner a voter, until it does, or never will.
pub fn become_voter(members: &[String], call: &CallArgs, number: u64) {
    loop {
        let asked = connect(members, call)
            .map(|mut connected| connected.client.admin(&Admin::Promote(MemberId(number))));
        match asked {
            Ok(Ok(_)) => return output::note(&format!("petasos: member {number} votes")),
            // An earlier attempt whose answer was lost has done it.
            Ok(Err(ClientError::NotAllowed(why))) => {
                return output::note(&format!("petasos: member {number}: {why}"));
            }
            Ok(Err(_)) => std::thread::sleep(PAUSE),
            Err(failure) => return output::note(&format!("petasos: {failure}")),
        }
    }
}
