//! What each member says of itself.

use std::net::SocketAddr;

use clap::Args;
use petasos_cli::failure::Failure;
use petasos_cli::output;
use petasos_quorum::client::ClientError;
use petasos_quorum::service::MemberStatus;
use petasos_report::{Column, Table};
use serde_json::json;

use crate::client::{Connected, GroupArgs, failure};

/// The arguments of `petasos quorum status`.
#[derive(Args)]
pub struct StatusArgs {
    #[command(flatten)]
    group: GroupArgs,
    /// Print an object for each member, one per line.
    #[arg(long)]
    json: bool,
}

/// A member's address, and what it says.
pub type Asked = (SocketAddr, Result<MemberStatus, ClientError>);

/// Asks all members that the first one that answers knows.
///
/// # Errors
/// If none answers.
pub fn statuses(connected: &mut Connected) -> Result<Vec<Asked>, Failure> {
    let Connected { client, members, .. } = connected;
    let mut first = Err(ClientError::Unavailable);
    for member in members {
        first = client.status_of(*member);
        if first.is_ok() {
            break;
        }
    }
    let listed = first.map_err(|error| failure(&error))?.members;
    let addresses = listed.iter().filter_map(|member| member.address.parse().ok());
    let addresses: Vec<SocketAddr> = addresses.collect();
    Ok(addresses.into_iter().map(|address| (address, client.status_of(address))).collect())
}

/// Prints a line for each member.
///
/// # Errors
/// If none answers.
pub fn run(args: &StatusArgs) -> Result<(), Failure> {
    let all = statuses(&mut args.group.connect()?)?;
    if args.json {
        for (address, status) in &all {
            let object = match status {
                Ok(status) => json!({ "address": address, "status": status }),
                Err(error) => json!({ "address": address, "error": error.to_string() }),
            };
            output::answer(object.to_string().as_bytes())?;
        }
        return Ok(());
    }
    let numbers = ["term", "applied", "last", "sessions"].map(|name| Column::number(name, ""));
    let texts = ["member", "address", "role"].map(Column::text);
    let mut table = Table::new(texts.into_iter().chain(numbers));
    for (address, status) in all {
        let row = match status {
            Ok(status) => [
                status.member.to_string(),
                address.to_string(),
                role(&status),
                status.term.to_string(),
                status.applied.to_string(),
                status.last.to_string(),
                status.sessions.to_string(),
            ],
            Err(_) => ["?", &address.to_string(), "silent", "", "", "", ""].map(str::to_owned),
        };
        table.push(row);
    }
    output::finished(table.print())
}

/// What it does: a follower that does not vote is a learner.
fn role(status: &MemberStatus) -> String {
    let own = status.members.iter().find(|member| member.member == status.member);
    let part = own.map_or("removed", |member| member.part.as_str());
    let full = if status.is_full { ", full" } else { "" };
    match part {
        "voter" => format!("{}{full}", status.role),
        part => format!("{part}{full}"),
    }
}
