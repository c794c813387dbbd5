//! Commands for groups that keep etcd's model: changes as they happen, and leases.

use std::collections::VecDeque;
use std::net::SocketAddr;

use clap::{Args, Subcommand};
use petasos_cli::failure::Failure;
use petasos_cli::output;
use petasos_quorum::etcd::{
    End, EtcdCommand, EtcdQuery, Event, EventsAnswer, EventsQuery, Keys, LeaseAnswer, read_lease,
};
use petasos_quorum::member::Freshness;
use petasos_quorum::service::{MachineKind, MemberStatus};
use serde_json::json;

use crate::ask::text;
use crate::client::{Connected, GroupArgs, failure};
use crate::keeps::{etcd_answer, no_leases, other_version};

/// Connects to a group that keeps etcd's model. Also what a member has said of it.
fn connect(group: &GroupArgs) -> Result<(Connected, MemberStatus), Failure> {
    let mut connected = group.connect()?;
    let status = connected.status()?;
    match status.charter.machine {
        MachineKind::Etcd => Ok((connected, status)),
        _ => Err(no_leases()),
    }
}

/// The arguments of `petasos quorum watch`.
#[derive(Args)]
pub struct WatchArgs {
    #[command(flatten)]
    group: GroupArgs,
    /// The key.
    key: String,
    /// All keys that begin with it.
    #[arg(long)]
    prefix: bool,
    /// Begin with this revision, in the past [default: with the next change].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i64).range(1..))]
    revision: Option<i64>,
    /// End after so many changes [default: watch until a signal comes].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Print an object for each change, one per line.
    #[arg(long)]
    json: bool,
}

/// The first key behind all that begin with a prefix, if there is one.
fn behind(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte < u8::MAX)?;
    let mut behind = prefix[..=last].to_vec();
    behind[last] += 1;
    Some(behind)
}

/// Prints changes as they happen, a line each: `put`, a tab, the key, a tab and the value; or
/// `delete`, a tab and the key.
///
/// # Errors
/// If there is no answer, or what is wanted was compacted.
pub fn watch(args: &WatchArgs) -> Result<(), Failure> {
    let (mut connected, status) = connect(&args.group)?;
    let behind = args.prefix.then(|| behind(args.key.as_bytes()));
    let end = match &behind {
        None => End::Single,
        Some(None) => End::Last,
        Some(Some(behind)) => End::Before(behind),
    };
    let keys = Keys { from: args.key.as_bytes(), end };
    // The one that has answered comes first; the others take over if it ends.
    let mut listed = status.members;
    listed.sort_by_key(|listed| listed.member != status.member);
    let known = listed.iter().filter_map(|listed| listed.address.parse().ok());
    let mut members: VecDeque<SocketAddr> = known.collect();
    if members.is_empty() {
        return Err(other_version());
    }
    let (mut from, mut index, mut left) = (args.revision, 0, args.count);
    let mut failures = 0;
    while left != Some(0) {
        let query = EventsQuery { keys, from: from.unwrap_or(i64::MAX), wants_previous: false };
        let query = EtcdQuery::Events(query).to_bytes();
        let done = match connected.client.follow(members[0], index, &query) {
            Ok(done) => done,
            Err(error) if failures >= members.len() => return Err(failure(&error)),
            Err(_) => {
                (index, failures) = (0, failures + 1);
                members.rotate_left(1);
                continue;
            }
        };
        (index, failures) = (done.index, 0);
        let (revision, mut body) = etcd_answer(&done.bytes)?;
        let EventsAnswer { until, events } =
            EventsAnswer::read(&mut body).ok_or_else(other_version)?;
        for event in &events {
            print(event, args.json)?;
            left = left.map(|left| left - 1);
            if left == Some(0) {
                return Ok(());
            }
        }
        if until < revision {
            index = 0;
        }
        from = Some(from.map_or(revision, |from| until.max(from - 1)) + 1);
    }
    Ok(())
}

fn print(event: &Event<'_>, in_json: bool) -> Result<(), Failure> {
    let item = &event.item;
    let kind = if event.is_delete { "delete" } else { "put" };
    if in_json {
        let (key, value) = (text(item.key), text(item.value));
        let revision = item.modified;
        let object = json!({ "change": kind, "key": key, "value": value, "revision": revision });
        return output::answer(object.to_string().as_bytes());
    }
    let parts: &[&[u8]] = match event.is_delete {
        true => &[kind.as_bytes(), item.key],
        false => &[kind.as_bytes(), item.key, item.value],
    };
    output::answer(&parts.join(&b'\t'))
}

/// The arguments of `petasos quorum lease`.
#[derive(Args)]
pub struct LeaseArgs {
    #[command(subcommand)]
    command: LeaseCommand,
}

#[derive(Subcommand)]
enum LeaseCommand {
    /// Grant a lease, and print its number.
    Grant {
        #[command(flatten)]
        group: GroupArgs,
        /// How long it lives without being renewed, in seconds, at least 2.
        #[arg(long, value_name = "SECONDS",
              value_parser = clap::value_parser!(i64).range(1..=9_000_000_000))]
        ttl: i64,
    },
    /// Renew a lease.
    Renew {
        #[command(flatten)]
        group: GroupArgs,
        /// Its number.
        lease: i64,
    },
    /// End a lease, and delete its keys.
    Revoke {
        #[command(flatten)]
        group: GroupArgs,
        /// Its number.
        lease: i64,
    },
    /// Print how long a lease has left, in seconds, and its keys.
    Show {
        #[command(flatten)]
        group: GroupArgs,
        /// Its number.
        lease: i64,
    },
}

fn no_lease() -> Failure {
    Failure::with_advice("there is no such lease", "it may have ended; `lease grant` makes one")
}

/// Does what is to be done with a lease.
///
/// # Errors
/// If there is no answer, or no such lease.
pub fn lease(args: &LeaseArgs) -> Result<(), Failure> {
    let command = |group: &GroupArgs, command: EtcdCommand<'_>| -> Result<Vec<u8>, Failure> {
        let (mut connected, _) = connect(group)?;
        let done = connected.client.command(&command.to_bytes()).map_err(|error| failure(&error));
        // The session would end by itself: whether this succeeds does not matter.
        let _ = connected.client.close();
        Ok(done?.bytes)
    };
    match &args.command {
        LeaseCommand::Grant { group, ttl } => {
            let bytes = command(group, EtcdCommand::Grant { id: 0, ttl_s: *ttl })?;
            let (_, mut body) = etcd_answer(&bytes)?;
            let (id, _) = read_lease(&mut body).ok_or_else(other_version)?;
            output::answer(id.to_string().as_bytes())
        }
        LeaseCommand::Renew { group, lease } => {
            let bytes = command(group, EtcdCommand::KeepAlive(*lease))?;
            let (_, mut body) = etcd_answer(&bytes)?;
            match read_lease(&mut body).ok_or_else(other_version)? {
                (_, 0) => Err(no_lease()),
                _ => Ok(()),
            }
        }
        LeaseCommand::Revoke { group, lease } => {
            let bytes = command(group, EtcdCommand::Revoke(*lease))?;
            etcd_answer(&bytes).map(drop)
        }
        LeaseCommand::Show { group, lease } => show(group, *lease),
    }
}

fn show(group: &GroupArgs, id: i64) -> Result<(), Failure> {
    let (mut connected, _) = connect(group)?;
    let query = EtcdQuery::Lease { id, wants_keys: true }.to_bytes();
    let done = connected.client.read(Freshness::Latest, &query).map_err(|error| failure(&error))?;
    let (_, mut body) = etcd_answer(&done.bytes)?;
    let lease = LeaseAnswer::read(&mut body).ok_or_else(other_version)?.ok_or_else(no_lease)?;
    let left_s = lease.left_ms.div_ceil(1000);
    output::answer(format!("{left_s} of {} seconds left", lease.ttl_s).as_bytes())?;
    lease.keys.iter().try_for_each(|key| output::answer(key))
}
