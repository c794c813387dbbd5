//! Commands for those who operate a group.

use core::time::Duration;

use clap::{Args, Subcommand};
use petasos_cli::failure::Failure;
use petasos_cli::output;
use petasos_quorum::client::ClientError;
use petasos_quorum::member::Admin;
use petasos_raft::MemberId;

use crate::client::{GroupArgs, failure};
use crate::status::statuses;

/// The arguments of `petasos quorum member`.
#[derive(Args)]
pub struct MemberArgs {
    #[command(subcommand)]
    command: MemberCommand,
}

#[derive(Subcommand)]
enum MemberCommand {
    /// Make a learner a voter, once it has caught up. `serve --join` does that by itself.
    Promote(OneArgs),
    /// Remove a member. It takes part in nothing any more.
    Remove(RemoveArgs),
}

/// A member of a group.
#[derive(Args)]
struct OneArgs {
    #[command(flatten)]
    group: GroupArgs,
    /// The member's number, which `status` tells.
    #[arg(value_name = "NUMBER")]
    number: u64,
}

#[derive(Args)]
struct RemoveArgs {
    #[command(flatten)]
    one: OneArgs,
    /// Also if too few of those that remain are heard.
    #[arg(long)]
    force: bool,
}

/// Changes who belongs to the group.
///
/// # Errors
/// If there is no answer, or it was refused.
pub fn member(args: &MemberArgs) -> Result<(), Failure> {
    match &args.command {
        MemberCommand::Promote(one) => ask(&one.group, &Admin::Promote(MemberId(one.number))),
        MemberCommand::Remove(RemoveArgs { one, force }) => {
            let (member, forced) = (MemberId(one.number), *force);
            ask(&one.group, &Admin::Remove { member, forced })
        }
    }
}

fn ask(group: &GroupArgs, admin: &Admin) -> Result<(), Failure> {
    let mut connected = group.connect()?;
    connected.client.admin(admin).map(drop).map_err(|error| match error {
        ClientError::NotAllowed(why) => {
            Failure::with_advice(why, "`petasos quorum status` shows the group")
        }
        error => failure(&error),
    })
}

/// The arguments of `petasos quorum transfer`.
#[derive(Args)]
pub struct TransferArgs {
    #[command(flatten)]
    one: OneArgs,
}

/// Has the leader hand over.
///
/// # Errors
/// If there is no answer, or it was refused.
pub fn transfer(args: &TransferArgs) -> Result<(), Failure> {
    ask(&args.one.group, &Admin::HandOver(MemberId(args.one.number)))
}

/// The arguments of `petasos quorum snapshot`.
#[derive(Args)]
pub struct SnapshotArgs {
    #[command(flatten)]
    group: GroupArgs,
}

/// Has each member that was named write a snapshot.
///
/// # Errors
/// If one does not.
pub fn snapshot(args: &SnapshotArgs) -> Result<(), Failure> {
    let mut connected = args.group.connect()?;
    for member in connected.members.clone() {
        connected.client.snapshot(member).map_err(|error| failure(&error))?;
    }
    Ok(())
}

/// The arguments of `petasos quorum compare`.
#[derive(Args)]
pub struct CompareArgs {
    #[command(flatten)]
    group: GroupArgs,
}

/// How often a member is asked whether it has come to the entry, and how long in between.
const ATTEMPTS: usize = 100;
const PAUSE: Duration = Duration::from_millis(50);

/// Compares the state of all members at one entry.
///
/// # Errors
/// If they differ, or one does not answer.
pub fn compare(args: &CompareArgs) -> Result<(), Failure> {
    let mut connected = args.group.connect()?;
    let listed = statuses(&mut connected)?;
    let client = &mut connected.client;
    let index = client.mark().map_err(|error| failure(&error))?;
    let mut digests = Vec::new();
    for (address, status) in &listed {
        let number = status.as_ref().map(|status| status.member).map_err(failure)?;
        let digest = (0..ATTEMPTS).find_map(|attempt| {
            if attempt > 0 {
                std::thread::sleep(PAUSE);
            }
            client.digest_of(*address).ok().filter(|digest| digest.index == index)
        });
        let digest = digest.ok_or_else(|| {
            Failure::with_advice(
                format_args!("member {number} has not come to entry {index}, or is beyond it"),
                "try again; `petasos quorum status` shows how far each member is",
            )
        })?;
        output::answer(format!("member {number}: {:032x} at {index}", digest.value).as_bytes())?;
        digests.push(digest.value);
    }
    match digests.iter().all(|digest| *digest == digests[0]) {
        true => Ok(()),
        false => Err(Failure::with_advice(
            "the members' states differ",
            "report this; remove the member that differs from the majority, and have it join anew",
        )),
    }
}
