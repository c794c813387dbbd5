//! `petasos demo`: two processes, real sockets, every byte checked.
//!
//! The demo starts a server process (this program again). It stores every line of a text in it
//! under the line's number, and the whole text as separate values. Then it reads everything back in
//! pieces of many sizes, compares every byte, and reports the speed. It succeeds only if every byte
//! was right.

mod child;
mod driver;
mod outcome;
mod plan;
mod text;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::Args;
use petasos_report::{Progress, write_atomically};

use crate::client::resolve;
use child::ServerProcess;
use driver::Driver;
use outcome::{Measured, Outcome};
use petasos_cli::failure::Failure;
use petasos_cli::output;
use petasos_cli::security::SecurityArgs;
use petasos_cli::size::in_words;
use petasos_cli::transport::{Transport, TransportArgs};
use plan::Plan;
use text::Text;

/// The arguments of `petasos demo`.
#[derive(Args)]
pub struct DemoArgs {
    /// The text to store, any file of 1 byte to 1 GiB. Without it: the Jargon File, which the
    /// program carries.
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Use the `petasos serve` at HOST:PORT instead of starting a server. The demo overwrites
    /// what that holds under the numbers of the text's lines.
    #[arg(long, value_name = "ADDR")]
    connect: Option<String>,
    /// Where to write the report with figures, in HTML.
    #[arg(long, value_name = "FILE", default_value = "petasos-report.html")]
    report: PathBuf,
    #[command(flatten)]
    transport: TransportArgs,
    #[command(flatten)]
    security: SecurityArgs,
    /// Where to write the figures as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Runs the demo.
///
/// # Errors
/// If anything fails.
pub fn run(args: &DemoArgs) -> Result<(), Failure> {
    let text = match &args.file {
        Some(path) => Text::read(path)?,
        None => Text::carried()?,
    };
    check_folder(&args.report)?;
    args.json.as_deref().map_or(Ok(()), check_folder)?;
    let elsewhere = match args.transport.transport {
        Transport::Xdp => Some(("AF_XDP", "xdp")),
        Transport::Dpdk => Some(("DPDK", "dpdk")),
        _ => None,
    };
    if let Some((name, word)) = elsewhere.filter(|_| args.connect.is_none()) {
        let what = format_args!("{name} does not lead to a server on this host");
        let advice =
            format_args!("start `petasos serve --transport {word}` on another and use --connect");
        return Err(Failure::with_advice(what, advice));
    }
    output::note(&format!("text: {text}"));
    let plan = Plan::new(&text)?;
    let security = security(args);
    let mut server = match &args.connect {
        Some(_) => None,
        None => {
            let memory_bytes = plan.server_memory_bytes();
            Some(ServerProcess::start(&args.transport, &security, memory_bytes)?)
        }
    };
    let outcome = match (&server, &args.connect) {
        (Some(server), _) => exchange((args, &security), &text, &plan, &[server.address()]),
        (None, Some(address)) => exchange((args, &security), &text, &plan, &resolve(address)?),
        (None, None) => unreachable!("a server is started unless one is named"),
    };
    let outcome = match (outcome, &mut server) {
        (Err(failure), Some(server)) => return Err(server.explain(failure)),
        (outcome, _) => outcome?,
    };
    if let Some(server) = server {
        server.stop()?;
    }
    present(args, &outcome)
}

/// The requested security. The default is plaintext between the two processes of one host, even
/// beyond loopback, because some transports send packets over the interface's address.
fn security(args: &DemoArgs) -> SecurityArgs {
    match args.connect.is_none() && args.security == SecurityArgs::default() {
        true => SecurityArgs::plaintext(),
        false => args.security.clone(),
    }
}

/// Stores the text, reads it back and compares.
fn exchange(
    (args, security): (&DemoArgs, &SecurityArgs),
    text: &Text,
    plan: &Plan,
    servers: &[SocketAddr],
) -> Result<Outcome, Failure> {
    let mut driver = Driver::connect(&args.transport, security, servers, text.bytes())?;
    let process = std::process::id();
    output::note(&format!("client: process {process}, {} sessions", driver.sessions()));
    let mut measured = Vec::new();
    for phase in plan.phases() {
        let label = match phase.window {
            1 => format!("{}, one at a time", phase.name),
            window => format!("{}, {window} at a time", phase.name),
        };
        let mut progress = Progress::new(&label, phase.calls.len() as u64);
        let result = driver.run(phase, |done| progress.set(done))?;
        progress.finish(&format!(
            "{} call{}, {}, {:.2} s",
            result.calls,
            if result.calls == 1 { "" } else { "s" },
            in_words(result.bytes),
            result.seconds
        ));
        measured.push(result);
    }
    Ok(Outcome::new(text.to_string(), driver.server(), measured))
}

fn present(args: &DemoArgs, outcome: &Outcome) -> Result<(), Failure> {
    output::finished(outcome.table().print())?;
    let command = command_line();
    outcome.report(&command).write(&args.report)?;
    let mut last = format!("\n{}\nreport: {}", outcome.verdict(), args.report.display());
    if let Some(path) = &args.json {
        write_atomically(path, outcome.to_json(&command).as_bytes())?;
        last += &format!("\njson: {}", path.display());
    }
    output::answer(last.as_bytes())
}

/// The command line, for the report.
fn command_line() -> String {
    let words: Vec<_> =
        std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    format!("petasos {}", words.join(" "))
}

/// Checks before the work whether the result can be written.
fn check_folder(file: &Path) -> Result<(), Failure> {
    let folder = match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let advice = "name a file in a folder that exists";
    if !folder.is_dir() {
        let what =
            format!("cannot write {}: there is no folder {}", file.display(), folder.display());
        return Err(Failure::with_advice(what, advice));
    }
    if file.is_dir() {
        return Err(Failure::with_advice(format!("{} is a folder", file.display()), advice));
    }
    Ok(())
}
