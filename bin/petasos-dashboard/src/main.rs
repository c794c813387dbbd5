//! `petasos dashboard`: a web page that shows the managed service of this host.
//!
//! A process of its own, so that the service has no web server: it watches the service as any
//! viewer may (`WatchOverview`), keeps the last minutes, and serves them (ADR 26). It never calls
//! what changes something, whoever it runs as. `petasos dashboard` runs this program, so that
//! everyday builds of `petasos` have no web server either.

mod guard;
mod history;
mod secret;
mod sessions;
mod site;
mod view;
mod watch;

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use http::Request;
use petasos_cli::admin::{self, ServiceArgs};
use petasos_cli::failed::Failed;
use petasos_cli::output;
use petasos_web::{Limits, Tls};
use serde_json::json;

use guard::Guard;
use history::History;
use secret::Secret;
use site::Site;

/// What those who look may take.
const LIMITS: Limits = Limits {
    connections_max: 64,
    // Browsers send the cookies of all ports of a host.
    head_bytes_max: 16 << 10,
    patience: Duration::from_secs(10),
    age_max: Duration::from_secs(60),
    keep_alive: true,
};

/// Serve a web page that shows the managed service of this host: who calls whom, rates, latencies,
/// datapaths, policies. It changes nothing.
#[derive(Parser)]
#[command(name = "petasos dashboard", bin_name = "petasos dashboard", version)]
struct Cli {
    #[command(flatten)]
    service: ServiceArgs,
    /// Where the page is served.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:9470")]
    listen: SocketAddr,
    /// A file with the token that those who look must show: 32 characters or more, and not readable
    /// by everybody [default: a new token, which is printed].
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// A name by which browsers reach this host, besides localhost and addresses; may be given
    /// several times.
    #[arg(long, value_name = "NAME")]
    host: Vec<String>,
    /// A certificate, in PEM, with which the page is served over TLS.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The certificate's private key, in PEM.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Allow an address beyond this host without encryption, where everybody in the network can
    /// read the token and what is shown.
    #[arg(long, conflicts_with = "tls_cert")]
    plaintext: bool,
}

/// Serves the page until the process is ended.
fn main() -> ExitCode {
    let args = Cli::parse();
    admin::ended(&args.service, serve(&args))
}

fn serve(args: &Cli) -> Result<(), Failed> {
    let tls = args.tls()?;
    let token = match &args.token_file {
        Some(path) => Secret::read(path)?,
        None => Secret::new(),
    };
    let failed = |error: std::io::Error| {
        Failed::new(format!("cannot serve at {}: {error}", args.listen))
            .with_advice("give another address with --listen")
    };
    let listener = TcpListener::bind(args.listen).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(failed)?;
    let history = Arc::new(History::new());
    let guard = Guard::new(token.clone(), args.host.clone(), tls.is_some());
    let site = Arc::new(Site::new(guard, history.clone()));
    let answer = move |request: Request<()>| {
        let site = site.clone();
        async move { site.answer(&request) }
    };
    let entered = runtime.enter();
    let listener = tokio::net::TcpListener::from_std(listener).map_err(failed)?;
    drop(entered);
    args.tell(address, tls.is_some(), &token)?;
    std::thread::scope(|scope| {
        // A thread of its own waits for the service.
        let watching = std::thread::Builder::new().name("petasos-watch".to_owned());
        let follow = || watch::follow(&args.service, &history);
        watching.spawn_scoped(scope, follow).map_err(failed)?;
        runtime.block_on(petasos_web::serve(listener, tls, LIMITS, answer));
        Ok(())
    })
}

impl Cli {
    /// How browsers are served.
    fn tls(&self) -> Result<Option<Tls>, Failed> {
        let (Some(certificate), Some(key)) = (&self.tls_cert, &self.tls_key) else {
            return match self.listen.ip().is_loopback() || self.plaintext {
                true => Ok(None),
                false => Err(Failed::new(format!(
                    "at {} other hosts would see the token and the page unencrypted",
                    self.listen
                ))
                .with_advice("give --tls-cert and --tls-key, or allow it with --plaintext")),
            };
        };
        Tls::from_files(certificate.clone(), key.clone()).map(Some).map_err(|error| {
            Failed::new(error.to_string()).with_advice("check what --tls-cert and --tls-key name")
        })
    }

    /// Says where the page is. A token that nobody has given is told here, and only here.
    fn tell(&self, address: SocketAddr, is_tls: bool, token: &Secret) -> Result<(), Failed> {
        let scheme = if is_tls { "https" } else { "http" };
        let mut url = format!("{scheme}://{address}/");
        if self.token_file.is_none() {
            // What is behind a `#` is not sent, nor logged, by anybody.
            url = format!("{url}#token={}", token.text());
        }
        let line = match self.service.json {
            true => json!({ "url": url }).to_string(),
            false => format!("dashboard at {url}"),
        };
        Ok(output::answer(line.as_bytes())?)
    }
}
