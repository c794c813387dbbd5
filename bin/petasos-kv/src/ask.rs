//! Commands that ask a server once.

use std::io::Read;

use clap::Args;
use petasos_cli::failure::Failure;
use petasos_cli::output;
use petasos_kv::{ClientError, Found, KvStats, Operation, Request, Status};
use petasos_report::{Column, Table};
use serde_json::{Value, json};

use crate::client::{ServerArgs, of_status};

/// The arguments of `petasos kv get`.
#[derive(Args)]
pub struct GetArgs {
    #[command(flatten)]
    to: ServerArgs,
    /// The keys.
    #[arg(required = true, value_name = "KEY")]
    keys: Vec<String>,
    /// Print an object for each key, one per line, with flags and stamp.
    #[arg(long)]
    json: bool,
}

/// Prints values, a line each. A single one is printed as it is stored.
///
/// # Errors
/// If there is no answer, or a key has no item.
pub fn get(args: &GetArgs) -> Result<(), Failure> {
    let mut connected = args.to.connect()?;
    let keys: Vec<_> = args.keys.iter().map(String::as_bytes).collect();
    let found = connected.client.get_many(&keys);
    let found = found.map_err(|error| args.to.failure(connected.server, &error))?;
    let mut missing = Vec::new();
    for (key, found) in args.keys.iter().zip(found) {
        match (found, args.json) {
            (found, true) => output::answer(in_json(key, found.as_ref()).to_string().as_bytes())?,
            (Some(found), false) => output::answer(&found.value)?,
            (None, false) => missing.push(format!("`{key}`")),
        }
    }
    match missing.is_empty() {
        true => Ok(()),
        false => Err(Failure::with_advice(
            format_args!("there is nothing at {}", missing.join(", ")),
            "`set` stores a value",
        )),
    }
}

fn in_json(key: &str, found: Option<&Found>) -> Value {
    let Some(Found { value, flags, stamp }) = found else {
        return json!({ "key": key, "found": false });
    };
    // Bytes that are no text are told as numbers.
    let value = match std::str::from_utf8(value) {
        Ok(text) => json!(text),
        Err(_) => json!(value),
    };
    json!({ "key": key, "found": true, "value": value, "flags": flags, "stamp": stamp })
}

/// The arguments of `petasos kv set`.
#[derive(Args)]
pub struct SetArgs {
    #[command(flatten)]
    to: ServerArgs,
    /// The key.
    key: String,
    /// The value; `-` takes it from standard input.
    #[arg(allow_hyphen_values = true)]
    value: String,
    /// When it expires, in milliseconds from now [default: never].
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..1 << 48))]
    expire: Option<u64>,
    /// A number for its readers.
    #[arg(long, value_name = "N", default_value_t = 0)]
    flags: u16,
    /// Only if the key has no item.
    #[arg(long, conflicts_with_all = ["if_present", "if_stamp"])]
    if_absent: bool,
    /// Only if the key has one.
    #[arg(long, conflicts_with = "if_stamp")]
    if_present: bool,
    /// Only if its item has this stamp, which `get --json` tells.
    #[arg(long, value_name = "N")]
    if_stamp: Option<u64>,
}

/// Stores a value.
///
/// # Errors
/// If there is no answer, or it was refused.
pub fn set(args: &SetArgs) -> Result<(), Failure> {
    let mut read = Vec::new();
    let value = match args.value.as_str() {
        "-" => {
            // One byte more than can be stored is enough to be refused.
            let mut input = std::io::stdin().take(petasos_store::VALUE_BYTES_MAX as u64 + 1);
            let come = input.read_to_end(&mut read);
            come.map_err(|error| Failure::new(format!("cannot read the value: {error}")))?;
            if read.len() > petasos_store::VALUE_BYTES_MAX {
                return Err(of_status(Status::TooLong));
            }
            &read[..]
        }
        text => text.as_bytes(),
    };
    let operation = match args {
        SetArgs { if_absent: true, .. } => Operation::Add,
        SetArgs { if_present: true, .. } => Operation::Replace,
        SetArgs { if_stamp: Some(_), .. } => Operation::CompareAndSet,
        _ => Operation::Set,
    };
    let request = Request {
        operation,
        flags: args.flags,
        expiry_ms: args.expire.unwrap_or(0),
        operand: args.if_stamp.unwrap_or(0),
        ..Request::set(args.key.as_bytes(), value)
    };
    change(&args.to, &request).map(drop)
}

/// The arguments of `petasos kv delete`.
#[derive(Args)]
pub struct DeleteArgs {
    #[command(flatten)]
    to: ServerArgs,
    /// The key.
    key: String,
}

/// Deletes an item.
///
/// # Errors
/// If there is no answer, or there was no item.
pub fn delete(args: &DeleteArgs) -> Result<(), Failure> {
    change(&args.to, &Request::new(Operation::Delete, args.key.as_bytes())).map(drop)
}

/// The arguments of `petasos kv touch`.
#[derive(Args)]
pub struct TouchArgs {
    #[command(flatten)]
    to: ServerArgs,
    /// The key.
    key: String,
    /// When it expires, in milliseconds from now; 0 for never.
    #[arg(value_parser = clap::value_parser!(u64).range(..1 << 48))]
    expire_ms: u64,
}

/// Gives an item another expiry.
///
/// # Errors
/// If there is no answer, or there is no item.
pub fn touch(args: &TouchArgs) -> Result<(), Failure> {
    let touch = Request::new(Operation::Touch, args.key.as_bytes());
    change(&args.to, &Request { expiry_ms: args.expire_ms, ..touch }).map(drop)
}

/// The arguments of `petasos kv add`.
#[derive(Args)]
pub struct AddArgs {
    #[command(flatten)]
    to: ServerArgs,
    /// The key, whose value is a number of 8 bytes, or none.
    key: String,
    /// What is added.
    #[arg(default_value_t = 1, allow_hyphen_values = true)]
    number: i64,
}

/// Adds to a number, and prints the sum.
///
/// # Errors
/// If there is no answer, the value is no number, or the sum would be none.
pub fn add(args: &AddArgs) -> Result<(), Failure> {
    let key = args.key.as_bytes();
    let zero = 0u64.to_le_bytes();
    let begin = Request { operation: Operation::Add, ..Request::set(key, &zero) };
    let add = Request { operand: args.number as u64, ..Request::new(Operation::AddNumber, key) };
    let mut connected = args.to.connect()?;
    let mut ask = |request: &Request<'_>| connected.client.change(request);
    let sum = match ask(&add) {
        Err(ClientError::Refused(Status::Absent)) => match ask(&begin) {
            // Somebody else may have begun meanwhile.
            Ok(_) | Err(ClientError::Refused(Status::Present)) => ask(&add),
            Err(error) => Err(error),
        },
        outcome => outcome,
    };
    let sum = sum.map_err(|error| args.to.failure(connected.server, &error))?;
    output::answer(sum.number.unwrap_or_default().to_string().as_bytes())
}

fn change(to: &ServerArgs, request: &Request<'_>) -> Result<petasos_kv::Changed, Failure> {
    let mut connected = to.connect()?;
    let changed = connected.client.change(request);
    changed.map_err(|error| to.failure(connected.server, &error))
}

/// The arguments of `petasos kv stats`.
#[derive(Args)]
pub struct StatsArgs {
    #[command(flatten)]
    to: ServerArgs,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Prints what a server holds and has counted.
///
/// # Errors
/// If there is no answer.
pub fn stats(args: &StatsArgs) -> Result<(), Failure> {
    let mut connected = args.to.connect()?;
    let stats = connected.client.stats();
    let stats: KvStats = stats.map_err(|error| args.to.failure(connected.server, &error))?;
    let object = serde_json::to_value(stats).expect("numbers are JSON");
    if args.json {
        return output::answer(object.to_string().as_bytes());
    }
    let mut table = Table::new([Column::text("what"), Column::number("number", "")]);
    for (name, number) in object.as_object().into_iter().flatten() {
        table.push([name.replace('_', " "), number.to_string()]);
    }
    output::finished(table.print())
}
