//! One service, or the frontend, as a process.

use std::net::SocketAddr;
use std::str::FromStr;
use std::sync::Arc;

use clap::Args;
use tokio::signal::unix::{SignalKind, signal};

use crate::cache::memcached::{Memcached, Place};
use crate::error::Error;
use crate::frontend::{self, Http};
use crate::logic::{GeoIndex, Profiles, Rates, Recommendations, Reservations, Searches, Users};
use crate::rpc::{OverPetasos, OverTonic, Rpc, RpcName};
use crate::service::{FRONTEND_CALLS, Service};
use crate::store::postgres::Postgres;

/// Where another service is.
#[derive(Clone, Copy, Debug)]
pub struct Peer {
    service: Service,
    address: SocketAddr,
}

impl FromStr for Peer {
    type Err = String;
    fn from_str(text: &str) -> Result<Peer, String> {
        let (name, address) = text.split_once('=').ok_or("not SERVICE=ADDRESS:PORT")?;
        let service = Service::named(name).ok_or_else(|| format!("no service is `{name}`"))?;
        let address = address.parse().map_err(|error| format!("{address}: {error}"))?;
        Ok(Peer { service, address })
    }
}

/// How a process calls and is called
#[derive(Args, Clone, Debug)]
pub struct CallArgs {
    /// What carries calls
    #[arg(long, default_value = "petasos")]
    rpc: RpcName,
    /// The address to serve at
    #[arg(long)]
    listen: SocketAddr,
    /// Where a service is that this one calls; once for each
    #[arg(long, value_name = "SERVICE=ADDRESS:PORT")]
    peer: Vec<Peer>,
    /// Consent to calls beyond this host without encryption
    #[arg(long)]
    plaintext: bool,
}

/// Serve one service until a signal comes
#[derive(Args, Clone, Debug)]
pub struct ServeArgs {
    service: Service,
    #[command(flatten)]
    calls: CallArgs,
    /// PostgreSQL, as libpq takes it, for example `host=/run/postgresql dbname=hotel`
    #[arg(long)]
    store: Option<String>,
    /// memcached: `unix:PATH` or `ADDRESS:PORT`
    #[arg(long)]
    cache: Option<Place>,
}

/// Serve the frontend over HTTP until a signal comes
#[derive(Args, Clone, Debug)]
pub struct FrontendArgs {
    #[command(flatten)]
    calls: CallArgs,
}

impl CallArgs {
    fn at(&self, service: Service) -> Result<SocketAddr, Error> {
        let peer = self.peer.iter().find(|peer| peer.service == service);
        let missing =
            || Error::invalid(format!("--peer {}=ADDRESS:PORT is missing", service.name()));
        peer.map(|peer| peer.address).ok_or_else(missing)
    }

    fn check(&self, wanted: &[Service]) -> Result<(), Error> {
        wanted.iter().try_for_each(|service| self.at(*service).map(drop))
    }
}

/// Serves a service. It has to run in a local set.
///
/// # Errors
/// An argument is missing, something it needs cannot be reached, or serving has ended.
pub async fn serve(args: &ServeArgs) -> Result<(), Error> {
    args.calls.check(args.service.calls())?;
    let listen = Some(args.calls.listen);
    match args.calls.rpc {
        RpcName::Petasos => serve_over(OverPetasos::new(listen, args.calls.plaintext)?, args).await,
        RpcName::Tonic => serve_over(OverTonic::new(listen), args).await,
    }
}

async fn serve_over(rpc: impl Rpc, args: &ServeArgs) -> Result<(), Error> {
    match args.service {
        Service::Search => {
            let geo = rpc.geo_client(args.calls.at(Service::Geo)?);
            let rate = rpc.rate_client(args.calls.at(Service::Rate)?);
            rpc.search_server(Searches { geo, rate }).await?;
        }
        Service::Geo => rpc.geo_server(GeoIndex::load(&store(args).await?).await?).await?,
        Service::Recommendation => {
            let all = Recommendations::load(&store(args).await?).await?;
            rpc.recommendation_server(all).await?;
        }
        Service::User => rpc.user_server(Users::load(&store(args).await?).await?).await?,
        Service::Rate => {
            let (store, cache) = (Arc::new(store(args).await?), cache(args)?);
            rpc.rate_server(Rates { store, cache }).await?;
        }
        Service::Profile => {
            let (store, cache) = (Arc::new(store(args).await?), cache(args)?);
            rpc.profile_server(Profiles { store, cache }).await?;
        }
        Service::Reservation => {
            let (store, cache) = (Arc::new(store(args).await?), cache(args)?);
            rpc.reservation_server(Reservations { store, cache }).await?;
        }
    }
    let address = rpc.address().ok_or_else(|| Error::internal("nothing is served"))?;
    println!("listening on {address}");
    tokio::select! {
        error = rpc.ended() => Err(error),
        outcome = told_to_end() => outcome,
    }
}

async fn store(args: &ServeArgs) -> Result<Postgres, Error> {
    let url = args.store.as_deref().ok_or_else(|| Error::invalid("--store is missing"))?;
    Postgres::connect(url).await
}

fn cache(args: &ServeArgs) -> Result<Arc<Memcached>, Error> {
    let place = args.cache.clone().ok_or_else(|| Error::invalid("--cache is missing"))?;
    Ok(Arc::new(Memcached::new(place)))
}

/// Serves the frontend. It has to run in a local set.
///
/// # Errors
/// As for [`serve`].
pub async fn serve_frontend(args: &FrontendArgs) -> Result<(), Error> {
    let calls = &args.calls;
    calls.check(&FRONTEND_CALLS)?;
    match calls.rpc {
        RpcName::Petasos => frontend_over(OverPetasos::new(None, calls.plaintext)?, calls).await,
        RpcName::Tonic => frontend_over(OverTonic::new(None), calls).await,
    }
}

async fn frontend_over<R: Rpc>(rpc: R, args: &CallArgs) -> Result<(), Error> {
    let at = |service| args.at(service).expect("all were there before");
    let frontend = frontend::over(&rpc, at);
    let http = Http::bind(args.listen).await?;
    println!("listening on {}", http.address()?);
    tokio::select! {
        error = rpc.ended() => Err(error),
        () = frontend::serve(http, frontend) => Ok(()),
        outcome = told_to_end() => outcome,
    }
}

/// Ready when the process is told to end.
pub async fn told_to_end() -> Result<(), Error> {
    let of = |kind| signal(kind).map_err(|error| Error::internal(error.to_string()));
    let (mut terminate, mut interrupt) =
        (of(SignalKind::terminate())?, of(SignalKind::interrupt())?);
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}
