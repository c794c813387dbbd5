//! The processes of a contender: workers, and who stands between them and the client.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use petasos_load::Target;
use petasos_queueing::Service;

use super::bare::BareTarget;
use super::client::{Asked, Client, http};
use super::link::Link;
use super::operator::Operator;
use super::part_args::PartName;
use super::plane::Plane;
use super::programs::{Balancer, ROUTER_CORE, Router, cpu_s_with_children, part};
use super::turns::{BareTurns, Between};
use super::workers::BOUND;
use crate::error::BenchError;
use crate::managed::sidecars::Running;
use crate::rpc::process::Process;

/// Who decides which worker gets a request.
#[derive(Clone, Copy, Debug)]
pub struct Contender {
    pub name: &'static str,
    pub kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The client, at random.
    Direct,
    /// The router, by this policy.
    Router(&'static str),
    /// The router, by [`PLANES_POLICY`], with this plane.
    Plane(Plane),
    /// One process's own queue, which its threads share.
    OneQueue(PartName),
    /// The client, of an HTTP server.
    Http,
    /// The client, at random, of HTTP servers.
    HttpAtRandom,
    Proxy(Balancer),
    /// Datagrams that are echoed, by way of a forwarder or not.
    Bare {
        is_forwarded: bool,
    },
    /// The same by way of a forwarder that is at the other end of a link, as routers with a plane
    /// are.
    BareAcross,
    /// Client and worker take turns in one thread.
    Turns(Between),
}

/// What workers are like.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    pub workers: usize,
    /// Of the workers.
    pub core: usize,
    pub service: Service,
    pub mean_ns: u64,
    pub way_ns: u64,
    /// More options of the router.
    pub router: &'static [&'static str],
    /// The router's plane, if it is at the other end of a link.
    pub plane: Option<Plane>,
    /// Whether a client in a closed loop looks for answers all the time: it has a core of its own,
    /// and nobody has to wake it.
    pub client_spins: bool,
}

/// The policy of a router whose plane is compared with others.
pub const PLANES_POLICY: &str = "jbsq16";

/// A contender's processes.
pub struct Side<'a> {
    client: &'a Client,
    kind: Kind,
    client_spins: bool,
    // Ends before those that it calls.
    proxy: Option<Running>,
    forwarder: Option<(Process, SocketAddr)>,
    /// Unless the client is the worker, too.
    workers: Option<Process>,
    addresses: Vec<SocketAddr>,
    router: Option<Router>,
    /// Of a client whose socket echoes.
    bare: Option<BareTurns>,
    /// Of a forwarder that is at its other end.
    _link: Option<Link>,
}

impl Setup {
    /// Workers that answer at once.
    pub fn at_once(workers: usize, core: usize) -> Setup {
        let service = Service::Deterministic;
        let (mean_ns, way_ns, router, plane, client_spins) = (0, 0, &[][..], None, false);
        Setup { workers, core, service, mean_ns, way_ns, router, plane, client_spins }
    }

    /// Starts a router with this policy.
    ///
    /// # Errors
    /// If it was not built, or does not come up.
    fn router(&self, policy: &'static str) -> Result<Router, BenchError> {
        match self.plane {
            None => Router::start(policy, self.router),
            Some(plane) => Router::by(plane, policy, self.router),
        }
    }

    /// Of a part with workers at this address.
    pub fn options(&self, ip: IpAddr) -> [(&'static str, String); 6] {
        [
            ("--ip", ip.to_string()),
            ("--workers", self.workers.to_string()),
            ("--service", self.service.to_string()),
            ("--mean-ns", self.mean_ns.to_string()),
            ("--way-ns", self.way_ns.to_string()),
            ("--bound", BOUND.to_string()),
        ]
    }
}

impl Kind {
    fn part(self) -> PartName {
        match self {
            Kind::Direct | Kind::Router(_) | Kind::Plane(_) => PartName::Workers,
            Kind::OneQueue(part) => part,
            Kind::Http | Kind::HttpAtRandom | Kind::Proxy(_) => PartName::Http,
            Kind::Bare { .. } | Kind::BareAcross => PartName::Echo,
            Kind::Turns(_) => unreachable!("the client is the worker"),
        }
    }
}

/// Whom a client calls, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reach {
    /// The group of a router, by Petasos.
    Group(SocketAddr),
    /// One of these servers, by Petasos.
    Servers(Vec<SocketAddr>),
    /// One of these, by HTTP.
    Http(Vec<SocketAddr>),
    /// An echo of datagrams.
    Bare(SocketAddr),
}

impl<'a> Side<'a> {
    /// Starts a contender's processes.
    ///
    /// # Errors
    /// If one does not come up.
    pub fn start(kind: Kind, setup: &Setup, client: &'a Client) -> Result<Side<'a>, BenchError> {
        if let Kind::Turns(between) = kind {
            return Side::in_turns(between, setup, client);
        }
        let router = match kind {
            Kind::Router(policy) => Some(setup.router(policy)?),
            Kind::Plane(plane) => Some(Router::by(plane, PLANES_POLICY, setup.router)?),
            _ => None,
        };
        let link = (kind == Kind::BareAcross).then(Link::new).transpose()?;
        let near = router.as_ref().map(Router::members_ip).or(link.as_ref().map(Link::near));
        let ip = near.unwrap_or(Ipv4Addr::LOCALHOST.into());
        let side = Side::start_with(kind, client, router, |routers| {
            part(kind.part(), setup.core, &setup.options(ip), routers)
        })?;
        let side = Side { client_spins: setup.client_spins, ..side };
        let Some(link) = link else { return Ok(side) };
        let options = [("--ip", link.far().to_string())];
        let (forwarder, at) =
            link.at_router(|| part(PartName::Forwarder, ROUTER_CORE, &options, &side.addresses))?;
        Ok(Side { forwarder: Some((forwarder, at[0])), _link: Some(link), ..side })
    }

    /// Starts who is between a client and itself, if somebody is.
    fn in_turns(
        between: Between,
        setup: &Setup,
        client: &'a Client,
    ) -> Result<Side<'a>, BenchError> {
        let mut side = Side::of(Kind::Turns(between), client);
        match between {
            Between::Nobody => side.addresses = vec![client.address()],
            Between::Router(policy) => {
                let router = setup.router(policy)?;
                client.join(router.address)?;
                side.router = Some(router);
            }
            Between::Bare => side.bare = Some(BareTurns::new(|own| Ok(((), own)))?.0),
            Between::Forwarder => {
                let (bare, forwarder) = BareTurns::new(|own| {
                    let (forwarder, at) = part(PartName::Forwarder, ROUTER_CORE, &[], &[own])?;
                    Ok(((forwarder, at[0]), at[0]))
                })?;
                (side.bare, side.forwarder) = (Some(bare), Some(forwarder));
            }
        }
        Ok(side)
    }

    /// Nobody yet.
    fn of(kind: Kind, client: &'a Client) -> Side<'a> {
        Side {
            client,
            kind,
            // In turns, it is its own worker.
            client_spins: matches!(kind, Kind::Turns(_)),
            proxy: None,
            forwarder: None,
            workers: None,
            addresses: Vec::new(),
            router: None,
            bare: None,
            _link: None,
        }
    }

    /// Starts a contender's other processes: its workers, which are told of the router, and who
    /// stands before them.
    ///
    /// # Errors
    /// If one does not come up.
    pub fn start_with(
        kind: Kind,
        client: &'a Client,
        router: Option<Router>,
        workers: impl FnOnce(&[SocketAddr]) -> Result<(Process, Vec<SocketAddr>), BenchError>,
    ) -> Result<Side<'a>, BenchError> {
        let routers: Vec<_> = router.iter().map(|router| router.address).collect();
        let (workers, addresses) = workers(&routers)?;
        let proxy = match kind {
            Kind::Proxy(balancer) => Some(balancer.start(&addresses)?),
            _ => None,
        };
        let forwarder = match kind {
            Kind::Bare { is_forwarded: true } => {
                let (forwarder, at) = part(PartName::Forwarder, ROUTER_CORE, &[], &addresses)?;
                Some((forwarder, at[0]))
            }
            _ => None,
        };
        let side = Side::of(kind, client);
        Ok(Side { proxy, forwarder, workers: Some(workers), addresses, router, ..side })
    }

    /// Whom its client calls.
    pub fn reach(&self) -> Reach {
        let first = || self.addresses[0];
        match (self.kind, &self.proxy, &self.router) {
            (_, Some(proxy), _) => Reach::Http(vec![proxy.address]),
            (_, _, Some(router)) => Reach::Group(router.address),
            (Kind::Bare { .. } | Kind::BareAcross, ..) => {
                Reach::Bare(self.forwarder.as_ref().map_or_else(first, |(_, at)| *at))
            }
            (Kind::Http | Kind::OneQueue(PartName::Pool), ..) => Reach::Http(vec![first()]),
            (Kind::HttpAtRandom, ..) => Reach::Http(self.addresses.clone()),
            _ => Reach::Servers(self.addresses.clone()),
        }
    }

    /// Connects a client.
    ///
    /// # Errors
    /// If nobody answers.
    pub fn connect(
        &self,
        asked: &Asked,
        outstanding_max: u32,
    ) -> Result<Box<dyn Target>, BenchError> {
        if let Some(bare) = &self.bare {
            return Ok(Box::new(bare.target(outstanding_max)?));
        }
        let stubs = match self.reach() {
            Reach::Http(servers) => return http(&servers, asked, outstanding_max),
            Reach::Bare(to) => return Ok(Box::new(BareTarget::new(to, outstanding_max)?)),
            Reach::Group(router) => vec![self.client.group(&[router])?],
            Reach::Servers(servers) => self.client.servers(&servers)?,
        };
        self.client.target(stubs, asked.clone(), outstanding_max)
    }

    /// The router's account.
    ///
    /// # Errors
    /// If there is none.
    pub fn operator(&self) -> Result<Operator, BenchError> {
        self.router.as_ref().ok_or("there is no router")?.operator()
    }

    /// Whether requests go by way of a router.
    pub fn has_router(&self) -> bool {
        self.router.is_some()
    }

    /// How many requests the workers have run.
    ///
    /// # Errors
    /// If they have died.
    pub fn ran(&mut self) -> Result<u64, BenchError> {
        let workers = self.workers.as_mut().ok_or("the client is the worker")?;
        let answer = workers.ask("count")?;
        let count = answer.strip_prefix("ran ").and_then(|count| count.parse().ok());
        count.ok_or_else(|| "a worker answered out of turn".into())
    }

    /// Processor time of the workers so far, in seconds.
    pub fn workers_cpu_s(&self) -> f64 {
        self.workers.as_ref().and_then(Process::cpu_s).unwrap_or_default()
    }

    /// Calls of the client to groups so far, and how many of these asked for a worker first.
    pub fn asked(&self) -> (u64, u64) {
        self.client.asked()
    }

    /// Whether the client looks for answers all the time.
    pub fn client_spins(&self) -> bool {
        self.client_spins
    }

    /// Processor time of who is between them and the client, if somebody is.
    pub fn between_cpu_s(&self) -> Option<f64> {
        let proxy = self.proxy.as_ref().map(|proxy| cpu_s_with_children(proxy.program.id()));
        let forwarder = self.forwarder.as_ref().and_then(|(process, _)| process.cpu_s());
        proxy.or(forwarder).or_else(|| self.router.as_ref().map(Router::cpu_s))
    }
}

/// Starts those that can be started; the others are skipped, which is said.
///
/// # Errors
/// If none can.
pub fn start_all<'a>(
    contenders: Vec<Contender>,
    start: impl Fn(&Contender) -> Result<Side<'a>, BenchError>,
    skipped: &mut Skipped,
) -> Result<Vec<(Contender, Side<'a>)>, BenchError> {
    let mut sides = Vec::new();
    for contender in contenders {
        match start(&contender) {
            Ok(side) => sides.push((contender, side)),
            Err(error) => {
                eprintln!("petasos bench: {} is skipped: {error}", contender.name);
                skipped.retain(|(name, _)| *name != contender.name);
                skipped.push((contender.name, error.to_string()));
            }
        }
    }
    match sides.is_empty() {
        true => Err("no contender can be measured".into()),
        false => Ok(sides),
    }
}

/// Who was not measured, and why.
pub type Skipped = Vec<(&'static str, String)>;
