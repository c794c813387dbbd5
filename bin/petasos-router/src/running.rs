//! The groups that run: how one starts, and what of it can change.

use std::net::SocketAddr;
use std::sync::mpsc::channel;
use std::time::Duration;

use petasos_endpoint::{Node, NodeConfig};
use petasos_netio::PacketIo;
use petasos_netio_udp::{UdpConfig, UdpIo};
use petasos_netio_xdp::{XdpIo, XdpMode};
use petasos_router_control::{Adjustment, GroupSettings, MemberSettings, Operator, RouterService};
use petasos_router_xdp::ProgramTier;

use crate::configuration::GroupOptions;
use crate::listing::Listing;
use crate::plane_options::{PlaneKind, PlaneOptions};
use crate::program::Program;
use crate::said::say;
use crate::security::SecurityOptions;
use crate::takeover::Takeover;

/// How long a thread of a group may take to do what an operator wants.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// A group that runs.
pub struct Group {
    // Ends first: nobody else is to find it.
    listing: Option<Listing>,
    // Ends then: clients are told that the router stands by.
    takeover: Option<Takeover>,
    // Ends before its node does, so that no packet comes for members that are told goodbye.
    service: RouterService,
    // Ends after the plane, which has what it passes on.
    program: Option<Program>,
    node: Node,
    listen: SocketAddr,
    /// What packets come and go by, for people.
    by: String,
    /// With what it was started.
    first: GroupOptions,
    /// What was read last.
    options: GroupOptions,
}

impl Group {
    /// Starts a group.
    ///
    /// # Errors
    /// A text that says what is wrong, and with which group.
    pub fn start(options: &GroupOptions) -> Result<Group, String> {
        start(options).map_err(|error| format!("group at {}: {error}", options.listen))
    }

    /// Says whether the host has what the group's plane needs, as far as can be known without
    /// taking an interface from who has it.
    ///
    /// # Errors
    /// A text that says what is wrong, and with which group.
    pub fn try_out(options: &GroupOptions) -> Result<(), String> {
        let (plane, data) = (options.plane(), options.data_address());
        let tried = match plane.plane {
            PlaneKind::Udp => Ok(()),
            PlaneKind::XdpSocket => plane.try_out_socket(data),
            PlaneKind::Xdp => {
                options.settings().and_then(|settings| Program::try_out(data, &plane, &settings))
            }
        };
        tried.map_err(|error| format!("group at {}: {error}", options.listen))
    }

    /// Its name: where clients attach and workers join.
    pub fn listen(&self) -> SocketAddr {
        self.listen
    }

    /// Where packets and binds come.
    pub fn addresses(&self) -> (SocketAddr, Option<SocketAddr>) {
        (self.service.data_address(), self.service.bind_address())
    }

    /// A line about it.
    pub fn line(&self) -> String {
        let ((data, binds), by) = (self.addresses(), &self.by);
        let more = [("binds", binds), ("feedback", self.service.feedback_address())];
        let more = more.map(|(what, at)| at.map(|at| format!(", {what} at udp {at}")));
        let [binds, feedback] = more.map(Option::unwrap_or_default);
        let listen = self.listen;
        format!("ready: attach and join at {listen}, packets at {by} {data}{feedback}{binds}")
    }

    /// What operators see and change of it.
    pub fn operator(&self) -> Operator {
        self.service.operator()
    }

    /// Whether all its threads run.
    pub fn is_running(&self) -> bool {
        self.service.is_running() && self.takeover.as_ref().is_none_or(Takeover::is_running)
    }

    /// Members hear that it ends, and have time to go elsewhere.
    pub fn drain(&self) {
        if let Some(listing) = &self.listing {
            listing.end();
        }
        if let Some(takeover) = &self.takeover {
            takeover.end();
        }
        self.node.drain();
    }

    /// A program of it leaves its interface to another group. Packets come all the same.
    pub fn leave_interface(&mut self) {
        self.program.iter_mut().for_each(Program::leave_interface);
    }

    /// The program goes back to its interface, if it has left that.
    ///
    /// # Errors
    /// A text that says why not. Packets come all the same.
    pub fn return_to_interface(&mut self) -> Result<(), String> {
        self.program.as_mut().map_or(Ok(()), Program::return_to_interface)
    }

    /// What was read last.
    pub fn options(&self) -> &GroupOptions {
        &self.options
    }

    /// Why it cannot go on with other options, if it cannot.
    pub fn refusal(&self, to: &GroupOptions) -> Option<String> {
        let GroupOptions { data, services, binds, standby, .. } = to;
        let first = &self.first;
        let fixed = [
            ("data", *data != first.data),
            ("payload_bytes", to.payload_bytes() != first.payload_bytes()),
            ("priority_max", to.priority_max != first.priority_max),
            ("when workers get less (hold, slow start, ejection)", !to.cares_like(first)),
            ("services", *services != first.services),
            ("binds", *binds != first.binds),
            ("standby", *standby != first.standby),
            ("the virtual address", to.of_takeover() != first.of_takeover()),
            ("the list in etcd", to.of_listing() != first.of_listing()),
            ("what packets come and go by", to.plane() != first.plane()),
            ("what secures the group", to.security() != first.security()),
        ];
        let changed: Vec<_> = fixed.iter().filter(|(_, is)| *is).map(|(name, _)| *name).collect();
        if !changed.is_empty() {
            let what = changed.join(", ");
            return Some(format!("{what} cannot change while the group runs: restart the router"));
        }
        if to.clients_max > first.clients_max {
            let most = first.clients_max;
            return Some(format!("clients_max is {most} at most while the group runs: restart"));
        }
        if to.routers.is_empty() && !self.options.routers.is_empty() {
            return Some("routers cannot be left out: members were told of some".to_owned());
        }
        None
    }

    /// Goes on with other options, which were checked. Gives what has changed.
    ///
    /// # Errors
    /// A thread of it has failed.
    pub fn change(&mut self, to: &GroupOptions) -> Result<Vec<String>, String> {
        let (operator, settings) = (self.operator(), to.settings()?);
        let gone = |_| format!("group at {}: it does not answer", self.listen);
        let (tell, told) = channel();
        let wanted = settings.plane.core.adjustment();
        let (before, in_force) = channel();
        let change = move |at: Adjustment| {
            let _ = before.send(at);
            wanted
        };
        operator.adjust(change, move |done| drop(tell.send(done)));
        let done = told.recv_timeout(ANSWER_MAX).map_err(gone)?;
        let after = done.map_err(|error| format!("group at {}: {error}", self.listen))?;
        let before = in_force.recv_timeout(ANSWER_MAX).map_err(gone)?;
        let (clients_max, asked_max) = (settings.plane.clients_max, settings.asked_max);
        let (workers, routers) = (settings.workers, settings.routers);
        let members = MemberSettings { workers, asked_max, clients_max, routers };
        let (tell, told) = channel();
        operator.set_members(members, move || {
            let _ = tell.send(());
        });
        told.recv_timeout(ANSWER_MAX).map_err(gone)?;
        let mut changed = differences(&before, &after);
        changed.extend(to.member_differences(&self.options));
        self.options = to.clone();
        let listen = self.listen;
        Ok(changed.into_iter().map(|what| format!("group at {listen}: {what}")).collect())
    }
}

/// What has changed, for people.
pub fn differences(before: &Adjustment, after: &Adjustment) -> Vec<String> {
    let mut all = Vec::new();
    if before.policy != after.policy {
        all.push(format!("policy {}, was {}", named(after), named(before)));
    }
    if before.waiting_max != after.waiting_max {
        all.push(format!("waiting_max {}, was {}", after.waiting_max, before.waiting_max));
    }
    if before.waiting_age_max != after.waiting_age_max {
        let ms = |of: &Adjustment| of.waiting_age_max.map_or(0, |age| age.as_millis());
        all.push(format!("waiting_age_ms {}, was {}", ms(after), ms(before)));
    }
    all
}

/// A policy, with its limit if its name does not have it.
fn named(of: &Adjustment) -> String {
    use petasos_router::{Bound, Rule};
    match (of.policy.rule, of.policy.bound) {
        (Rule::ShortestQueue, _) | (_, Bound::Announced) => of.policy.to_string(),
        (_, Bound::AtMost(limit)) => format!("{} with at most {limit}", of.policy),
    }
}

fn start(group: &GroupOptions) -> Result<Group, String> {
    let settings = group.settings()?;
    let config = NodeConfig {
        listen: Some(group.listen),
        name: "petasos-router".to_owned(),
        connections_max: settings.plane.clients_max as usize + 1024,
        ..NodeConfig::default()
    };
    let security = group.security();
    let config = security.of_node(config)?;
    let node = Node::start(config).map_err(|error| error.to_string())?;
    let listen = node.local_address().expect("it listens");
    let data = group.data_address();
    check_address("packets", data, listen, &security)?;
    let mut program = None;
    let (service, by) = match group.plane().plane {
        PlaneKind::Udp => {
            let io = udp("packets", data)?;
            let service = match group.plane().feedback {
                None => serve(&node, io, (group, listen), settings),
                Some(at) => {
                    check_address("feedback", at, listen, &security)?;
                    serve_split(&node, [io, udp("feedback", at)?], (group, listen), settings)
                }
            };
            (service, "udp".to_owned())
        }
        PlaneKind::Xdp => {
            let io = udp("packets", data)?;
            let (data, sealed) = (io.local_address(), node.is_secured());
            let attached = Program::attach(data, &group.plane(), &settings, sealed)?;
            let (by, tier) = (attached.line(), attached.tier());
            program = Some(attached);
            (serve_behind(&node, io, (group, listen), settings, tier), by)
        }
        PlaneKind::XdpSocket => {
            let io = xdp(data, &group.plane())?;
            let by = said_of(&io, group.plane().queue());
            (serve(&node, io, (group, listen), settings), by)
        }
    };
    let takeover = group.takeover()?;
    let service = service?;
    let takeover = takeover.map(|settings| Takeover::start(settings, listen, service.operator()));
    let takeover = takeover.transpose()?;
    let listing = group.listing()?.map(|settings| Listing::start(settings, listen)).transpose()?;
    let (first, options) = (group.clone(), group.clone());
    Ok(Group { listing, takeover, service, program, node, listen, by, first, options })
}

/// Makes the node a router, with a socket for binds if it has services.
fn serve(
    node: &Node,
    io: impl PacketIo + Send + 'static,
    (group, listen): (&GroupOptions, SocketAddr),
    settings: GroupSettings,
) -> Result<RouterService, String> {
    let service = if settings.services.is_empty() {
        RouterService::start(node, io, settings)
    } else {
        RouterService::start_with_table(node, io, bind_io(group, listen)?, settings)
    };
    service.map_err(|error| error.to_string())
}

/// The same with a program before the plane.
fn serve_behind(
    node: &Node,
    io: UdpIo,
    (group, listen): (&GroupOptions, SocketAddr),
    settings: GroupSettings,
    tier: Box<ProgramTier>,
) -> Result<RouterService, String> {
    let binds = binds_of(&settings, (group, listen))?;
    let service = RouterService::start_with_tier(node, io, binds, settings, tier);
    service.map_err(|error| error.to_string())
}

/// The same with a thread of its own for feedback.
fn serve_split(
    node: &Node,
    [io, feedback]: [UdpIo; 2],
    (group, listen): (&GroupOptions, SocketAddr),
    settings: GroupSettings,
) -> Result<RouterService, String> {
    let binds = binds_of(&settings, (group, listen))?;
    let service = RouterService::start_split(node, io, feedback, binds, settings);
    service.map_err(|error| error.to_string())
}

/// A socket for binds, if the group has services.
fn binds_of(
    settings: &GroupSettings,
    (group, listen): (&GroupOptions, SocketAddr),
) -> Result<Option<UdpIo>, String> {
    match settings.services.is_empty() {
        true => Ok(None),
        false => bind_io(group, listen).map(Some),
    }
}

/// Where binds come.
fn bind_io(group: &GroupOptions, listen: SocketAddr) -> Result<UdpIo, String> {
    let binds = group.binds.unwrap_or(SocketAddr::new(listen.ip(), 0));
    check_address("binds", binds, listen, &group.security())?;
    udp("binds", binds)
}

/// Whether members of a group may send there, and can.
fn check_address(
    what: &str,
    address: SocketAddr,
    listen: SocketAddr,
    security: &SecurityOptions,
) -> Result<(), String> {
    let is_exposed = !address.ip().to_canonical().is_loopback() && !security.may_leave_host();
    if is_exposed {
        let advice = "give certificates by tls_cert, tls_key and tls_ca; plaintext allows it";
        return Err(format!("{what} at {address} would be in plaintext: {advice}"));
    }
    if address.ip().is_loopback() && !listen.ip().is_loopback() {
        return Err(format!("members beyond this host cannot send {what} to {address}"));
    }
    Ok(())
}

/// A socket of the kernel for what members of a group send.
fn udp(what: &str, address: SocketAddr) -> Result<UdpIo, String> {
    UdpIo::bind(address, UdpConfig::default())
        .map_err(|error| format!("{what} cannot come to {address}: {error}"))
}

/// An AF_XDP socket for packets.
fn xdp(address: SocketAddr, options: &PlaneOptions) -> Result<XdpIo, String> {
    XdpIo::bind(address, &options.xdp())
        .map_err(|error| format!("packets cannot come to {address} by xdp-socket: {error}"))
}

/// What people have to know of an AF_XDP socket.
fn said_of(io: &XdpIo, queue: u32) -> String {
    let (interface, queues) = (io.interface(), io.interface_queues());
    if queues > 1 {
        let (port, family) = match io.local_address() {
            SocketAddr::V4(v4) => (v4.port(), "udp4"),
            SocketAddr::V6(v6) => (v6.port(), "udp6"),
        };
        say(&format!(
            "{interface} has {queues} queues, and packets are heard on queue {queue} only: \
             `ethtool -N {interface} flow-type {family} dst-port {port} action {queue}`"
        ));
    }
    let mode = match io.mode() {
        XdpMode::Native => "native",
        XdpMode::Generic => {
            say(&format!(
                "the driver of {interface} takes no XDP program, so the kernel runs it (generic \
                 mode): if {interface} is virtual, trains of packets from this host are lost"
            ));
            "generic"
        }
    };
    format!("xdp-socket on {interface} queue {queue} ({mode})")
}
