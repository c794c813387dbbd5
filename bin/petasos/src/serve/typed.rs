//! `petasos serve --typed` and `--grpc`: the typed demonstration services, for programs that know
//! their schema. They run in a separate server, because the methods of the plain services have
//! fixed numbers that clients choose.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use clap::Args;
use petasos::grpc::{GrpcConfig, ServerTls};
use petasos::{Join, Server, StartError};

use super::{DRAIN_TIMEOUT, parse_address};
use petasos_cli::failure::Failure;
use petasos_cli::listed;
use petasos_cli::output;
use petasos_cli::security::SecurityArgs;
use petasos_cli::service::{Shared, typed};

/// Where the typed services listen.
#[derive(Args)]
pub(super) struct TypedArgs {
    /// Where to serve the demonstration services with types, as ADDRESS:PORT, with health and
    /// reflection: for `petasos list`, `describe`, `call` and `health`. Over sockets and shared
    /// memory, whatever --transport says.
    #[arg(long, value_name = "ADDR", value_parser = parse_address)]
    typed: Option<SocketAddr>,
    /// The same for gRPC clients. With --tls-cert it is TLS, and clients need certificates.
    #[arg(long, value_name = "ADDR", value_parser = parse_address)]
    grpc: Option<SocketAddr>,
    /// Join a group of workers by its routers, as router://HOST:PORT[,HOST:PORT...], or as
    /// router+etcd://HOST:PORT/PREFIX if they are listed in etcd: calls to the group come to the
    /// typed services as well.
    #[arg(long, value_name = "ROUTERS", requires = "typed")]
    join: Option<String>,
    /// How many requests each loop takes at a time from each router of the group.
    #[arg(long, value_name = "N", default_value_t = 16, requires = "join",
        value_parser = clap::value_parser!(u16).range(1..=4095))]
    join_bound: u16,
    /// Let each loop choose that number from its idle time, up to --join-bound: as few as keep it
    /// busy.
    #[arg(long, requires = "join")]
    join_by_idle_time: bool,
}

/// A running server, and the URL scheme of its gRPC port.
pub(super) struct Typed {
    server: Server,
    grpc_scheme: &'static str,
    has_joined: bool,
}

impl TypedArgs {
    /// Starts the server, if requested. It uses the same store as the plain services.
    pub(super) fn start(
        &self,
        store: &Shared,
        security: &SecurityArgs,
    ) -> Result<Option<Typed>, Failure> {
        if self.typed.is_none() && self.grpc.is_none() {
            return Ok(None);
        }
        let mut server = typed::services(store).security(security.of_channel()?);
        if let Some(address) = self.typed {
            server = server.listen(address);
        }
        if let Some(group) = &self.join {
            let join = match listed::is_listed(group) {
                true => listed::join(group, security)?,
                false => Join::new(group.as_str()),
            };
            let join = join.bound(self.join_bound);
            server = server.join(match self.join_by_idle_time {
                true => join.by_idle_time(1),
                false => join,
            });
        }
        let tls = security.of_grpc_server()?;
        let grpc_scheme = if tls.is_some() { "grpcs" } else { "grpc" };
        if let Some(address) = self.grpc {
            server = server.grpc(address, config(tls));
        }
        let server = server.start().map_err(not_started)?;
        Ok(Some(Typed { server, grpc_scheme, has_joined: self.join.is_some() }))
    }
}

fn config(tls: Option<ServerTls>) -> GrpcConfig {
    let mut config = GrpcConfig::default();
    config.tls = tls;
    config
}

fn not_started(error: StartError) -> Failure {
    Failure::with_advice(
        format!("the typed server does not start: {error}"),
        "check --typed, --grpc, --join and the options about security",
    )
}

/// What the server's routers have said, as far as it was printed.
pub(super) struct Memberships<'a> {
    server: &'a Server,
    reported: BTreeMap<SocketAddr, String>,
}

impl Typed {
    /// What is to be reported of the group that the server joins, if it does.
    pub(super) fn memberships(&self) -> Option<Memberships<'_>> {
        self.has_joined.then(|| Memberships { server: &self.server, reported: BTreeMap::new() })
    }
}

impl Memberships<'_> {
    /// Prints what has changed.
    pub(super) fn report(&mut self) {
        for at in self.server.routers() {
            let text = match (at.is_member, at.failure) {
                (true, _) => format!("joined the group of router {}", at.router),
                (false, Some(why)) => format!("not in the group of router {}: {why}", at.router),
                (false, None) => continue,
            };
            if self.reported.insert(at.router, text.clone()).as_ref() != Some(&text) {
                output::note(&format!("petasos: {text}"));
            }
        }
    }
}

/// Prints the addresses.
pub(super) fn announce(typed: &Typed) -> Result<(), Failure> {
    let Typed { server, grpc_scheme, .. } = typed;
    let datagrams = server.local_address().map(|address| format!("petasos://{address}"));
    let grpc = server.grpc_address().map(|address| format!("{grpc_scheme}://{address}"));
    let mut targets = datagrams.into_iter().chain(grpc);
    targets.try_for_each(|target| output::answer(format!("typed services on {target}").as_bytes()))
}

/// Lets the running calls finish.
pub(super) fn end(typed: Typed) {
    let ended = petasos::block_on(typed.server.drain(DRAIN_TIMEOUT));
    if ended.calls > 0 {
        output::note(&format!("petasos: {} typed calls were cut off", ended.calls));
    }
}
