//! `petasos raw`: makes one call of plain bytes, and prints the answer and the duration.

use std::io::{self, Read};

use core::time::Duration;

use clap::{Args, Subcommand};
use petasos_report::duration_us;

use crate::client::{Client, resolve};
use petasos_cli::failure::Failure;
use petasos_cli::output;
use petasos_cli::security::SecurityArgs;
use petasos_cli::service::{self, Query, Status};
use petasos_cli::transport::TransportArgs;

/// The arguments of `petasos raw`.
#[derive(Args)]
pub struct CallArgs {
    /// The server, as HOST:PORT.
    #[arg(value_name = "ADDR")]
    server: String,
    #[command(subcommand)]
    what: What,
    #[command(flatten)]
    transport: TransportArgs,
    #[command(flatten)]
    security: SecurityArgs,
    /// How long to wait, for the session and for the answer.
    #[arg(long, value_name = "MS", default_value_t = 5000, global = true,
          value_parser = clap::value_parser!(u64).range(1..=86_400_000))]
    timeout: u64,
    /// Print the answer as one JSON object.
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Subcommand)]
enum What {
    /// Send a text and get it back.
    Echo {
        /// The text.
        #[arg(allow_hyphen_values = true)]
        text: String,
    },
    /// Store a value under a key.
    Put {
        /// The key, a number.
        key: u64,
        /// The value; `-` takes it from standard input.
        #[arg(allow_hyphen_values = true)]
        value: String,
    },
    /// Print the value of a key.
    Get {
        /// The key, a number.
        key: u64,
    },
    /// Print what the server holds and has counted.
    Stats,
    /// Call any method of any server with a text. For looking around.
    Method {
        /// The method's number.
        method: u16,
        /// The request.
        #[arg(allow_hyphen_values = true)]
        text: String,
    },
}

/// Makes the call, and prints the answer.
///
/// # Errors
/// If there is no answer, or an unexpected one.
pub fn run(args: &CallArgs) -> Result<(), Failure> {
    let timeout = Duration::from_millis(args.timeout);
    let servers = resolve(&args.server)?;
    let (method, request) = request_of(&args.what)?;
    let mut client = Client::connect(&args.transport, &args.security, &servers, timeout)?;
    let (response, took) = client.call(method, &request, timeout)?;
    let answer = read_answer(&args.what, &response)?;
    let took_us = took.as_nanos() as f64 / 1000.0;
    if args.json {
        let object = serde_json::json!({
            "server": client.server().to_string(),
            "method": method,
            "answer": String::from_utf8_lossy(answer),
            "answer_bytes": answer.len(),
            "round_trip_us": took_us,
        });
        return output::answer(object.to_string().as_bytes());
    }
    output::answer(answer)?;
    output::note(&format!("round trip {}", duration_us(took_us)));
    Ok(())
}

fn request_of(what: &What) -> Result<(u16, Vec<u8>), Failure> {
    Ok(match what {
        What::Echo { text } => (service::ECHO, text.as_bytes().to_vec()),
        What::Method { method, text } => (*method, text.as_bytes().to_vec()),
        What::Stats => (service::STATS, Vec::new()),
        What::Put { key, value } => {
            let mut request = key.to_le_bytes().to_vec();
            match value.as_str() {
                "-" => read_stdin(&mut request)?,
                text => request.extend_from_slice(text.as_bytes()),
            }
            (service::PUT, request)
        }
        What::Get { key } => {
            let (query, mut bytes) = (Query::Get { key: *key }, [0; service::QUERY_BYTES_MAX]);
            let len = query.encode(&mut bytes);
            (query.method(), bytes[..len].to_vec())
        }
    })
}

fn read_stdin(request: &mut Vec<u8>) -> Result<(), Failure> {
    let mut input = io::stdin().lock().take(VALUE_BYTES_MAX + 1);
    let read = input.read_to_end(request);
    let read = read.map_err(|e| Failure::new(format!("cannot read standard input: {e}")))?;
    if read as u64 > VALUE_BYTES_MAX {
        let what = "the value on standard input is longer than any message";
        return Err(Failure::with_advice(what, "use a smaller value"));
    }
    Ok(())
}

/// The bytes to print, if the server did what was requested.
fn read_answer<'r>(what: &What, response: &'r [u8]) -> Result<&'r [u8], Failure> {
    let key = match what {
        What::Echo { .. } | What::Method { .. } | What::Stats => return Ok(response),
        What::Put { key, .. } | What::Get { key } => key,
    };
    match Status::split(response) {
        Some((Status::Done, _)) if matches!(what, What::Put { .. }) => Ok(b"stored"),
        Some((Status::Done, value)) => Ok(value),
        Some((Status::NotFound, _)) => Err(Failure::with_advice(
            format_args!("the server has no value under key {key}"),
            format_args!("store one with `petasos raw ADDR put {key} VALUE`"),
        )),
        Some((Status::Full, _)) => Err(Failure::with_advice(
            "the server has no room for the value; nothing was changed",
            "start it with a larger --memory-max",
        )),
        Some((status, _)) => Err(Failure::with_advice(
            format_args!("the server refused the request ({status:?})"),
            "check that it is of this program's version",
        )),
        None => Err(Failure::with_advice(
            "the answer is none of the key-value service's",
            "check that the server is `petasos serve` of this program's version",
        )),
    }
}

/// Longer values do not fit into a message.
const VALUE_BYTES_MAX: u64 = 1 << 28;
