//! Commands that write and read items.

use std::io::Read;

use clap::Args;
use petasos_cli::failure::Failure;
use petasos_cli::output;
use petasos_quorum::member::Freshness;
use petasos_quorum::table::{Item, KEY_BYTES_MAX, VALUE_BYTES_MAX};
use serde_json::{Value, json};

use crate::client::{GroupArgs, failure};
use crate::keeps::{Change, Wanted, keeps};

/// The arguments of `petasos quorum put`.
#[derive(Args)]
pub struct PutArgs {
    #[command(flatten)]
    group: GroupArgs,
    /// The key.
    key: String,
    /// The value; `-` takes it from standard input.
    #[arg(allow_hyphen_values = true)]
    value: String,
    /// Only if the item has this stamp, which `get --json` tells; 0 stands for no item. Of etcd's
    /// model, it is the revision that wrote the key last.
    #[arg(long, value_name = "N")]
    if_stamp: Option<u64>,
    /// Delete the key when this lease ends; of etcd's model only.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i64).range(1..))]
    lease: Option<i64>,
}

/// Stores a value.
///
/// # Errors
/// If there is no answer, or it was refused.
pub fn put(args: &PutArgs) -> Result<(), Failure> {
    let mut read = Vec::new();
    let value = match args.value.as_str() {
        "-" => {
            // One byte more than can be stored is enough to be refused.
            let mut input = std::io::stdin().take(VALUE_BYTES_MAX as u64 + 1);
            let come = input.read_to_end(&mut read);
            come.map_err(|error| Failure::new(format!("cannot read the value: {error}")))?;
            &read[..]
        }
        text => text.as_bytes(),
    };
    if value.len() > VALUE_BYTES_MAX {
        return Err(Failure::with_advice("a value has at most 1 MiB", "shorten it"));
    }
    let (if_stamp, lease) = (args.if_stamp, args.lease.unwrap_or(0));
    change(&args.group, &Change::Put { key: key(&args.key)?, value, if_stamp, lease })
}

fn key(text: &str) -> Result<&[u8], Failure> {
    match text.len() {
        1..=KEY_BYTES_MAX => Ok(text.as_bytes()),
        _ => Err(Failure::with_advice("a key has 1 to 1024 bytes", "give another one")),
    }
}

fn change(group: &GroupArgs, change: &Change<'_>) -> Result<(), Failure> {
    let mut connected = group.connect()?;
    let keeps = keeps(&mut connected)?;
    let command = keeps.command(change)?;
    let done = connected.client.command(&command).map_err(|error| failure(&error));
    // The session would end by itself: whether this succeeds does not matter.
    let _ = connected.client.close();
    keeps.result(&done?.bytes)
}

/// The arguments of `petasos quorum delete`.
#[derive(Args)]
pub struct DeleteArgs {
    #[command(flatten)]
    group: GroupArgs,
    /// The key.
    key: String,
}

/// Deletes an item.
///
/// # Errors
/// If there is no answer, or there was no item.
pub fn delete(args: &DeleteArgs) -> Result<(), Failure> {
    change(&args.group, &Change::Delete { key: key(&args.key)? })
}

/// How reads are answered.
#[derive(Args)]
struct ReadArgs {
    /// Take what the member has that is asked first, also if it is old.
    #[arg(long)]
    stale: bool,
    /// Print an object for each item, one per line, with its stamp.
    #[arg(long)]
    json: bool,
}

impl ReadArgs {
    fn read(&self, group: &GroupArgs, wanted: &Wanted<'_>) -> Result<(Vec<Item>, bool), Failure> {
        let freshness = if self.stale { Freshness::Stale } else { Freshness::Latest };
        let mut connected = group.connect()?;
        let keeps = keeps(&mut connected)?;
        let done = connected.client.read(freshness, &keeps.query(wanted));
        let done = done.map_err(|error| failure(&error))?;
        keeps.items(&done.bytes)
    }
}

pub fn text(bytes: &[u8]) -> Value {
    // Bytes that are no text are told as numbers.
    core::str::from_utf8(bytes).map_or_else(|_| json!(bytes), |text| json!(text))
}

fn in_json(item: &Item) -> Value {
    json!({ "key": text(&item.key), "value": text(&item.value), "stamp": item.stamp })
}

/// The arguments of `petasos quorum get`.
#[derive(Args)]
pub struct GetArgs {
    #[command(flatten)]
    group: GroupArgs,
    /// The key.
    key: String,
    #[command(flatten)]
    read: ReadArgs,
}

/// Prints a value as it is stored.
///
/// # Errors
/// If there is no answer, or no item.
pub fn get(args: &GetArgs) -> Result<(), Failure> {
    let (items, _) = args.read.read(&args.group, &Wanted::One(key(&args.key)?))?;
    match items.first() {
        Some(item) if args.read.json => output::answer(in_json(item).to_string().as_bytes()),
        Some(item) => output::answer(&item.value),
        None => Err(Failure::with_advice(
            format_args!("there is nothing at `{}`", args.key),
            "`put` stores a value",
        )),
    }
}

/// The arguments of `petasos quorum range`.
#[derive(Args)]
pub struct RangeArgs {
    #[command(flatten)]
    group: GroupArgs,
    /// The first key.
    #[arg(long, value_name = "KEY", default_value = "")]
    from: String,
    /// The first key that is not meant [default: none].
    #[arg(long, value_name = "KEY", default_value = "", hide_default_value = true)]
    until: String,
    /// How many items at most.
    #[arg(long, value_name = "N", default_value_t = 100,
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: u32,
    #[command(flatten)]
    read: ReadArgs,
}

/// Prints items, a line each: the key, a tab and the value.
///
/// # Errors
/// If there is no answer.
pub fn range(args: &RangeArgs) -> Result<(), Failure> {
    let (from, until) = (args.from.as_bytes(), args.until.as_bytes());
    if from.len() > KEY_BYTES_MAX || until.len() > KEY_BYTES_MAX {
        return Err(Failure::with_advice("a key has at most 1024 bytes", "give another one"));
    }
    let wanted = Wanted::Range { from, until, limit: args.limit };
    let (items, has_more) = args.read.read(&args.group, &wanted)?;
    for item in &items {
        let line = match args.read.json {
            true => in_json(item).to_string().into_bytes(),
            false => [&item.key[..], b"\t", &item.value].concat(),
        };
        output::answer(&line)?;
    }
    if has_more {
        output::note("petasos: there are more: give --limit, or --from the last key");
    }
    Ok(())
}
