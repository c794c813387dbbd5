//! Figures 4, 5 and 8: requests in a closed loop, whose workers answer at once.
//!
//! Contenders take turns at each point. Ratios and differences are medians of those of the same
//! rounds.

mod outcome;
mod rounds;

use std::net::Ipv4Addr;

use super::args::RouterArgs;
use super::client::{Asked, Client};
use super::plane::Plane;
use super::programs::{Balancer, CLIENT_CORE, ROUTER_CORE};
use super::side::{Contender, Kind, Setup, Side, start_all};
use super::turns::Between;
use crate::error::BenchError;
use crate::report::Report;
pub use outcome::{contenders, table};
use rounds::Rounds;
#[cfg(test)]
pub use rounds::Turn;
pub use rounds::{PointRounds, Row, turn};

/// What is measured.
#[derive(Clone, Debug)]
pub struct Setting {
    pub figure: &'static str,
    pub title: &'static str,
    pub points: Vec<Point>,
    pub contenders: &'static [Contender],
    pub setup: Setup,
    pub note: &'static str,
    pub shows: Shows,
}

/// What pictures show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shows {
    /// Latency by rate over all points; besides, latency at the point with one request at a time,
    /// rate and processor time at that with most.
    Echo,
    Goodput,
}

/// Requests of one kind.
#[derive(Clone, Debug)]
pub struct Point {
    pub label: String,
    pub asked: Asked,
    pub outstanding: usize,
}

const DIRECT: Contender = Contender { name: "direct", kind: Kind::Direct };
const HTTP: Contender = Contender { name: "http", kind: Kind::Http };
const NGINX: Contender = Contender {
    name: "nginx",
    kind: Kind::Proxy(Balancer::Nginx { processes: 1, has_zone: false }),
};
const HAPROXY: Contender = Contender { name: "haproxy", kind: Kind::Proxy(Balancer::Haproxy) };
const ROUTER: Contender = Contender { name: "router", kind: Kind::Router("jbsq16") };

const ECHO: &[Contender] = &[
    DIRECT,
    ROUTER,
    Contender { name: "bare", kind: Kind::Bare { is_forwarded: false } },
    Contender { name: "bare-forwarded", kind: Kind::Bare { is_forwarded: true } },
    DIRECT_TURNS,
    ROUTER_TURNS,
    turns("bare-turns", Between::Bare),
    turns("bare-forwarded-turns", Between::Forwarder),
    HTTP,
    NGINX,
    HAPROXY,
];
const GOODPUT: &[Contender] = &[DIRECT, ROUTER, HTTP, NGINX, HAPROXY];
const PACKETS: &[Contender] = &[DIRECT, ROUTER, DIRECT_TURNS, ROUTER_TURNS];

const DIRECT_TURNS: Contender = turns("direct-turns", Between::Nobody);
const ROUTER_TURNS: Contender = turns("router-turns", Between::Router("jbsq16"));

const fn turns(name: &'static str, between: Between) -> Contender {
    Contender { name, kind: Kind::Turns(between) }
}

const fn plane(name: &'static str, plane: Plane) -> Contender {
    Contender { name, kind: Kind::Plane(plane) }
}

const PLANES: &[Contender] = &[
    Contender { name: "bare", kind: Kind::Bare { is_forwarded: false } },
    Contender { name: "bare-forwarded", kind: Kind::BareAcross },
    DIRECT,
    plane("udp", Plane::Udp),
    plane("udp-split", Plane::UdpSplit),
    plane("xdp-socket", Plane::XdpSocket),
    plane("xdp", Plane::Xdp),
];

/// Who is behind whom: what the second takes more than the first.
pub const HOPS: [(&str, &str); 10] = [
    ("direct", "router"),
    ("bare", "bare-forwarded"),
    ("direct-turns", "router-turns"),
    ("bare-turns", "bare-forwarded-turns"),
    ("http", "nginx"),
    ("http", "haproxy"),
    ("direct", "udp"),
    ("direct", "udp-split"),
    ("direct", "xdp-socket"),
    ("direct", "xdp"),
];

/// Figure 4's sizes of answers, in bytes.
const SIZES: [u32; 6] = [2 << 10, 8 << 10, 32 << 10, 64 << 10, 256 << 10, 1 << 20];
const QUICK_SIZES: [u32; 2] = [2 << 10, 64 << 10];
/// The most bytes of answers that are asked for at once.
const OUTSTANDING_BYTES_MAX: usize = 2 << 20;
/// The most requests at a time.
const OUTSTANDING_MAX: usize = 64;
/// Figure 5's numbers of requests at a time.
const OUTSTANDING: [usize; 7] = [1, 2, 4, 8, 16, 32, OUTSTANDING_MAX];
const QUICK_OUTSTANDING: [usize; 2] = [1, OUTSTANDING_MAX];
/// Workers of a contender.
const WORKERS: usize = 4;
/// A request of so many bytes is the longest that fits a packet of the router's default payload,
/// 1400 bytes. It travels as it lies in memory: the call's head takes 8 bytes, the image's header
/// 8, and the message's struct 40.
const WHOLE_BYTES: usize = 1400 - 8 - 8 - 40;

impl Setting {
    /// Figure 5: an echo of 8 bytes.
    pub fn figure_5(args: &RouterArgs) -> Setting {
        let at_once: &[usize] = if args.quick { &QUICK_OUTSTANDING } else { &OUTSTANDING };
        let point = |outstanding: &usize| Point {
            label: match outstanding {
                1 => "one at a time".to_owned(),
                many => format!("{many} at a time"),
            },
            asked: Asked::short(0),
            outstanding: *outstanding,
        };
        Setting {
            figure: "5",
            title: "Echo of 8 B",
            points: at_once.iter().map(point).collect(),
            contenders: ECHO,
            setup: Setup { plane: args.plane, ..Setup::at_once(WORKERS, CLIENT_CORE) },
            note: "Client and workers share a core, where one sleeps while the other works, or \
                   (`turns`) are one thread that takes turns and never sleeps; the router, the \
                   proxies and the forwarder have the other core.",
            shows: Shows::Echo,
        }
    }

    /// An echo by way of each plane.
    pub fn planes(args: &RouterArgs) -> Setting {
        Setting {
            figure: "planes",
            title: "Planes: echo of 8 B",
            contenders: PLANES,
            note: "Client and workers share a core, where one sleeps while the other works. Each \
                   router, and the forwarder of bare datagrams, has the other core and a link of \
                   its own (veth, on which the program runs in the kernel's generic mode, and gets \
                   packets one by one); direct calls cross none.",
            ..Setting::figure_5(args)
        }
    }

    /// Figure 4: goodput.
    pub fn figure_4(args: &RouterArgs) -> Setting {
        let sizes: &[u32] = if args.quick { &QUICK_SIZES } else { &SIZES };
        let point = |bytes: &u32| Point {
            label: format!("{} KiB", bytes >> 10),
            asked: Asked { wanted_bytes: *bytes, ..Asked::short(0) },
            outstanding: (OUTSTANDING_BYTES_MAX / *bytes as usize).clamp(2, OUTSTANDING_MAX),
        };
        // As long as those of sessions on this host. Links have shorter packets.
        const ROUTER_OPTIONS: &[&str] = &["--payload-bytes", "8900"];
        let router = if args.plane.is_some() { &[] } else { ROUTER_OPTIONS };
        let (plane, at_once) = (args.plane, Setup::at_once(WORKERS, ROUTER_CORE));
        let setup = Setup { router, plane, client_spins: true, ..at_once };
        Setting {
            figure: "4",
            title: "Goodput by size of answer",
            points: sizes.iter().map(point).collect(),
            contenders: GOODPUT,
            setup,
            note: "The client has one core, and looks for answers all the time; workers, the \
                   router and the proxies share the other.",
            shows: Shows::Goodput,
        }
    }

    /// Figure 8: a request that fits a packet, and one of a byte more.
    pub fn figure_8(args: &RouterArgs) -> Setting {
        let point = |bytes: usize| Point {
            label: format!("{bytes} B"),
            asked: Asked { bytes: vec![1; bytes].into(), ..Asked::short(0) },
            outstanding: 1,
        };
        Setting {
            figure: "8",
            title: "Requests of one packet and of two",
            points: vec![point(WHOLE_BYTES), point(WHOLE_BYTES + 1)],
            contenders: PACKETS,
            ..Setting::figure_5(args)
        }
    }
}

/// Measures a figure.
///
/// # Errors
/// If nothing can be measured, or a contender fails.
pub fn run(args: &RouterArgs, setting: &Setting) -> Result<Report, BenchError> {
    let ip = if args.leaves_host() { Ipv4Addr::UNSPECIFIED } else { Ipv4Addr::LOCALHOST };
    let contenders = args.chosen(setting.contenders, |contender| contender.name)?;
    let is_worker = contenders.iter().any(|it| matches!(it.kind, Kind::Turns(_)));
    let client = if is_worker { Client::that_serves(ip.into())? } else { Client::new()? };
    let mut skipped = Vec::new();
    let sides = start_all(
        contenders,
        |contender| Side::start(contender.kind, &setting.setup, &client),
        &mut skipped,
    )?;
    let rounds = Rounds::measure(args, setting, &sides)?;
    let mut report = outcome::report(args, setting, &rounds, skipped);
    report.with("given", outcome::given(&sides)?);
    Ok(report)
}
