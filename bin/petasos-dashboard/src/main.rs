//! `petasos dashboard`: a web page that shows the managed service of this host, and one for a
//! router.
//!
//! A process of its own, so that the service has no web server: it watches the service as any
//! viewer may (`WatchOverview`), keeps the last minutes, and serves them (ADR 26). It never calls
//! what changes something, whoever it runs as. `petasos dashboard` runs this program, so that
//! everyday builds of `petasos` have no web server either.

mod guard;
mod history;
mod router_view;
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
use petasos_admin::DEFAULT_ROUTER_SOCKET;
use petasos_cli::admin::{self, ServiceArgs};
use petasos_cli::failed::Failed;
use petasos_cli::output;
use petasos_web::{Limits, Tls};
use serde_json::json;

use guard::{Guard, ROUTER_PAGE};
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
/// datapaths, policies; and one that shows a router's groups. It changes nothing.
#[derive(Parser)]
#[command(name = "petasos dashboard", bin_name = "petasos dashboard", version)]
struct Cli {
    #[command(flatten)]
    service: ServiceArgs,
    /// Show a router as well, whose socket for operators this is [default, without a path:
    /// /run/petasos-router/admin.sock].
    #[arg(long, value_name = "PATH", num_args = 0..=1,
        default_missing_value = DEFAULT_ROUTER_SOCKET)]
    router: Option<PathBuf>,
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
    let router = args.router.as_ref().map(|path| (args.service.at(path.clone()), History::new()));
    let router = router.map(|(router, history)| (router, Arc::new(history)));
    let guard = Guard::new(token.clone(), args.host.clone(), tls.is_some());
    let routed = router.as_ref().map(|(_, history)| history.clone());
    let site = Arc::new(Site::new(guard, history.clone(), routed));
    let answer = move |request: Request<()>| {
        let site = site.clone();
        async move { site.answer(&request) }
    };
    let entered = runtime.enter();
    let listener = tokio::net::TcpListener::from_std(listener).map_err(failed)?;
    drop(entered);
    args.tell(address, tls.is_some(), &token)?;
    std::thread::scope(|scope| {
        // Threads of their own wait for the service and the router.
        let watching = || std::thread::Builder::new().name("petasos-watch".to_owned());
        let follow = || watch::follow_service(&args.service, &history);
        watching().spawn_scoped(scope, follow).map_err(failed)?;
        if let Some((router, history)) = &router {
            let follow = || watch::follow_router(router, history);
            watching().spawn_scoped(scope, follow).map_err(failed)?;
        }
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
        let shown = match self.token_file {
            // What is behind a `#` is not sent, nor logged, by anybody.
            None => format!("#token={}", token.text()),
            Some(_) => String::new(),
        };
        let url = format!("{scheme}://{address}/{shown}");
        let router = self.router.is_some();
        let router = router.then(|| format!("{scheme}://{address}{ROUTER_PAGE}{shown}"));
        let text = match (self.service.json, router) {
            (true, router) => json!({ "url": url, "router_url": router }).to_string(),
            (false, Some(router)) => format!("dashboard at {url}\nrouter at {router}"),
            (false, None) => format!("dashboard at {url}"),
        };
        Ok(output::answer(text.as_bytes())?)
    }
}
