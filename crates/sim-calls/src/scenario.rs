//! The parameters of a run.

use petasos_base::{Rng, Time};
use petasos_endpoint::{EndpointConfig, KeyLife, PoolConfig};
use petasos_netio::memory::RingConfig;
use petasos_sim::{Action, FaultProfile};

use crate::check::Excuses;

/// What happens to the cluster at a set time.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// A change of the network, or a pause. Use the steps below for crashes.
    World(Action),
    /// A host dies. The others are not told.
    Crash(u32),
    /// The others learn that a host has died.
    Tell(u32),
    /// A dead host restarts; the others learn of its death if they do not know it yet.
    Revive(u32),
    /// A host accepts no more calls, and finishes those that it has.
    Drain(u32),
    /// A router dies. The others learn of it a while later.
    CrashRouter(u32),
    /// A dead router begins anew.
    ReviveRouter(u32),
}

/// A cluster, its workload, and its faults.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The scenario's name.
    pub name: &'static str,
    /// The number of hosts that call or serve. The first ones make calls.
    pub hosts: u32,
    /// The number of routers, by which all calls go if there are some. Each has two more hosts.
    pub routers: u32,
    /// How many requests each server takes at a time from each router.
    pub bound: u16,
    /// The number of hosts that make calls.
    pub clients: u32,
    /// Whether hosts that make calls also serve.
    pub clients_serve: bool,
    /// Tasks that make calls on each client.
    pub tasks: u32,
    /// Calls of each task.
    pub calls: u32,
    /// Mean pause between two calls of a task.
    pub think_nanos: u64,
    /// Whether calls are spread over the servers.
    pub spreads: bool,
    /// Whether calls wait while no server can be reached.
    pub waits_for_ready: bool,
    /// Whether streams have a retry policy.
    pub retries_streams: bool,
    /// Whether packets are sealed, as over TLS. The harness provides the keys, without a handshake.
    pub sealed: bool,
    /// Shared memory between hosts, so that sessions within a machine go over rings.
    pub rings: Option<RingConfig>,
    /// Every endpoint's settings.
    pub endpoint: EndpointConfig,
    /// The faults of all links until [`Scenario::calm_at`].
    pub faults: FaultProfile,
    /// Other events, by time, before [`Scenario::calm_at`].
    pub script: Vec<(Time, Step)>,
    /// When all faults end.
    pub calm_at: Time,
}

type Make = fn(&mut Rng) -> Scenario;

const SCENARIOS: [(&str, Make); 18] = [
    ("calls", calls),
    ("calls-lossy", lossy),
    ("calls-hostile", hostile),
    ("calls-pause", pause),
    ("calls-partition", partition),
    ("calls-crash", crash),
    ("calls-drain", drain),
    ("calls-tiny-pool", tiny_pool),
    ("calls-rings", rings),
    ("calls-sealed", sealed),
    ("streams-retried", retried),
    ("streams-retried-crash", retried_crash),
    ("groups", groups),
    ("groups-lossy", groups_lossy),
    ("groups-crash-workers", groups_crash_workers),
    ("groups-crash-routers", groups_crash_routers),
    ("groups-crash", groups_crash),
    ("groups-drain", groups_drain),
];

/// The names of all scenarios.
pub fn names() -> impl Iterator<Item = &'static str> {
    SCENARIOS.iter().map(|(name, _)| *name)
}

/// The scenario with this name. `seed` may choose its faults and their times.
pub fn by_name(name: &str, seed: u64) -> Option<Scenario> {
    let (name, make) = SCENARIOS.iter().find(|(known, _)| *known == name)?;
    let mut scenario = make(&mut Rng::new(seed ^ 0xca11_5eed));
    scenario.name = name;
    scenario.script.sort_by_key(|(at, _)| *at);
    Some(scenario)
}

impl Scenario {
    pub(crate) fn is_client(&self, host: u32) -> bool {
        host < self.clients
    }

    pub(crate) fn servers(&self) -> impl Iterator<Item = u32> {
        let first = if self.clients_serve && self.routers == 0 { 0 } else { self.clients };
        first..self.hosts
    }

    /// The hosts of each router: where it is asked, and its plane's.
    pub(crate) fn routers(&self) -> impl Iterator<Item = (u32, u32)> {
        (0..self.routers).map(|router| (self.hosts + 2 * router, self.hosts + 2 * router + 1))
    }

    /// Whether a host is that of a router's plane.
    pub(crate) fn is_plane(&self, host: u32) -> bool {
        self.routers().any(|(_, plane)| plane == host)
    }

    /// All hosts.
    pub(crate) fn all_hosts(&self) -> u32 {
        self.hosts + 2 * self.routers
    }

    pub(crate) fn excuses(&self) -> Excuses {
        let disrupts = |(_, step): &(Time, Step)| {
            matches!(step, Step::Crash(_) | Step::Drain(_) | Step::CrashRouter(_))
        };
        let short_memory = self.endpoint.pool.lent_bytes_max < PoolConfig::default().lent_bytes_max;
        let disruptions = self.script.iter().any(disrupts);
        let (retries_streams, is_routed) = (self.retries_streams, self.routers > 0);
        Excuses { short_memory, disruptions, retries_streams, is_routed }
    }
}

fn millis(millis: u64) -> Time {
    Time::from_nanos(millis * 1_000_000)
}

fn nanos(nanos: u64) -> Time {
    Time::from_nanos(nanos)
}

/// A clean network. The other scenarios are variations of this one.
fn calls(rng: &mut Rng) -> Scenario {
    Scenario {
        name: "",
        hosts: 4,
        routers: 0,
        bound: 0,
        clients: 2,
        clients_serve: rng.chance(0.5),
        tasks: 6,
        calls: 40,
        think_nanos: 50_000,
        spreads: rng.chance(0.5),
        waits_for_ready: rng.chance(0.5),
        retries_streams: false,
        sealed: false,
        rings: None,
        endpoint: EndpointConfig::default(),
        faults: FaultProfile::clean(),
        script: Vec::new(),
        calm_at: millis(20),
    }
}

fn lossy(rng: &mut Rng) -> Scenario {
    Scenario { faults: FaultProfile::lossy(), calm_at: millis(1000), ..calls(rng) }
}

fn hostile(rng: &mut Rng) -> Scenario {
    let faults = FaultProfile { undetected: 0.0, ..FaultProfile::hostile() };
    Scenario { faults, calls: 20, ..lossy(rng) }
}

fn pause(rng: &mut Rng) -> Scenario {
    let mut scenario = Scenario { calm_at: millis(200), think_nanos: 1_500_000, ..calls(rng) };
    for _ in 0..10 {
        let begin = rng.below(100_000_000);
        let until = nanos(begin + rng.below(60_000_000));
        let host = rng.below(u64::from(scenario.hosts)) as u32;
        let action = Action::Pause { host, until };
        scenario.script.push((nanos(begin), Step::World(action)));
    }
    scenario
}

fn partition(rng: &mut Rng) -> Scenario {
    let mut scenario = Scenario { calm_at: millis(300), think_nanos: 1_500_000, ..calls(rng) };
    for _ in 0..3 {
        let begin = 1_000_000 + rng.below(60_000_000);
        let groups = (0..scenario.hosts).map(|_| rng.below(2) as u32).collect();
        let split = Step::World(Action::Partition(groups));
        let end = nanos(begin + rng.below(150_000_000));
        scenario.script.extend([(nanos(begin), split), (end, Step::World(Action::Heal))]);
    }
    scenario
}

/// Hosts die while they have calls; the others learn of it later, or when the host is back.
fn crash(rng: &mut Rng) -> Scenario {
    let faults = FaultProfile::random(rng);
    let mut scenario =
        Scenario { faults, calm_at: millis(400), think_nanos: 1_500_000, ..calls(rng) };
    for host in 0..scenario.hosts {
        let mut at = rng.below(60_000_000);
        for _ in 0..rng.below(3) {
            scenario.script.push((nanos(at), Step::Crash(host)));
            let told = at + rng.below(30_000_000);
            if rng.chance(0.5) {
                scenario.script.push((nanos(told), Step::Tell(host)));
            }
            at = told + rng.below(30_000_000);
            scenario.script.push((nanos(at), Step::Revive(host)));
            at += 1_000_000 + rng.below(50_000_000);
        }
    }
    scenario
}

/// Servers are replaced one by one: each drains, dies and restarts.
fn drain(rng: &mut Rng) -> Scenario {
    let faults = FaultProfile::random(rng);
    let mut scenario =
        Scenario { faults, calm_at: millis(500), think_nanos: 1_500_000, ..calls(rng) };
    let mut at = rng.below(20_000_000);
    for host in scenario.clients..scenario.hosts {
        scenario.script.push((nanos(at), Step::Drain(host)));
        at += rng.below(60_000_000);
        scenario.script.push((nanos(at), Step::Crash(host)));
        at += 1 + rng.below(10_000_000);
        scenario.script.push((nanos(at), Step::Revive(host)));
        at += rng.below(30_000_000);
    }
    scenario
}

/// Servers refuse requests, and handlers find no memory for their answers.
fn tiny_pool(rng: &mut Rng) -> Scenario {
    let pool = PoolConfig { lent_bytes_max: 64 << 10 << rng.below(3), ..PoolConfig::default() };
    let endpoint = EndpointConfig { pool, ..EndpointConfig::default() };
    Scenario { endpoint, calls: 20, ..lossy(rng) }
}

/// Two machines whose rings are often full; hosts pause and die.
fn rings(rng: &mut Rng) -> Scenario {
    let ring_bytes = 4096 << rng.below(6);
    let rings = RingConfig { machines: 2, ring_bytes, forge_every: 1 + rng.below(20) };
    let other = if rng.chance(0.5) { crash(rng) } else { pause(rng) };
    Scenario { rings: Some(rings), ..other }
}

/// Damage that UDP's checksum misses and seals detect. Keys change often, hosts pause, die or are
/// replaced, and streams have a retry policy or not.
fn sealed(rng: &mut Rng) -> Scenario {
    let others = [lossy, pause, retried, retried_crash];
    let other = others[rng.below(4) as usize](rng);
    let faults = FaultProfile {
        corrupt: 0.05,
        undetected: 0.2 * (1 + rng.below(5)) as f64,
        ..FaultProfile::lossy()
    };
    let key_life = KeyLife::of_log2(6 + rng.below(4) as u32);
    let endpoint = EndpointConfig { key_life, ..EndpointConfig::default() };
    Scenario { sealed: true, endpoint, faults, ..other }
}

/// Streams have a retry policy: those that fail before anything was delivered restart.
fn retried(rng: &mut Rng) -> Scenario {
    let other = if rng.chance(0.5) { lossy(rng) } else { pause(rng) };
    Scenario { retries_streams: true, ..other }
}

/// The same, while servers die or are replaced.
fn retried_crash(rng: &mut Rng) -> Scenario {
    let other = if rng.chance(0.5) { crash(rng) } else { drain(rng) };
    Scenario { retries_streams: true, ..other }
}

/// Calls by way of two routers to three workers.
fn groups(rng: &mut Rng) -> Scenario {
    Scenario {
        hosts: 5,
        routers: 2,
        bound: 1 + rng.below(16) as u16,
        clients_serve: false,
        think_nanos: 1_000_000,
        calm_at: millis(300),
        ..calls(rng)
    }
}

fn groups_lossy(rng: &mut Rng) -> Scenario {
    let faults =
        FaultProfile { loss: 0.01, duplicate: 0.02, reorder: 0.05, ..FaultProfile::clean() };
    Scenario { faults, ..groups(rng) }
}

/// Workers die, one at a time, and begin anew.
fn groups_crash_workers(rng: &mut Rng) -> Scenario {
    let mut scenario = long_groups(rng);
    let mut at = 20_000_000 + rng.below(40_000_000);
    for _ in 0..4 {
        at = crash_worker(&mut scenario, rng, at);
    }
    scenario
}

/// Routers die, one at a time, and begin anew.
fn groups_crash_routers(rng: &mut Rng) -> Scenario {
    let mut scenario = long_groups(rng);
    let mut at = 20_000_000 + rng.below(40_000_000);
    for _ in 0..4 {
        at = crash_router(&mut scenario, rng, at);
    }
    scenario
}

/// Both die, each one at a time.
fn groups_crash(rng: &mut Rng) -> Scenario {
    let mut scenario = long_groups(rng);
    let mut workers_at = rng.below(100_000_000);
    let mut routers_at = rng.below(100_000_000);
    for _ in 0..4 {
        workers_at = crash_worker(&mut scenario, rng, workers_at);
        routers_at = crash_router(&mut scenario, rng, routers_at);
    }
    scenario
}

/// Workers are replaced one by one: each drains, dies and begins anew.
fn groups_drain(rng: &mut Rng) -> Scenario {
    let mut scenario = long_groups(rng);
    let mut at = 20_000_000 + rng.below(40_000_000);
    for host in scenario.clients..scenario.hosts {
        scenario.script.push((nanos(at), Step::Drain(host)));
        at += rng.below(100_000_000);
        at = die(&mut scenario, rng, at, (Step::Crash(host), Step::Revive(host)));
    }
    scenario
}

/// Calls that take long enough for several crashes.
fn long_groups(rng: &mut Rng) -> Scenario {
    let other = if rng.chance(0.5) { groups_lossy(rng) } else { groups(rng) };
    Scenario { calm_at: millis(1200), think_nanos: 8_000_000, ..other }
}

fn crash_worker(scenario: &mut Scenario, rng: &mut Rng, at: u64) -> u64 {
    let workers = u64::from(scenario.hosts - scenario.clients);
    let host = scenario.clients + rng.below(workers) as u32;
    die(scenario, rng, at, (Step::Crash(host), Step::Revive(host)))
}

fn crash_router(scenario: &mut Scenario, rng: &mut Rng, at: u64) -> u64 {
    let router = rng.below(u64::from(scenario.routers)) as u32;
    die(scenario, rng, at, (Step::CrashRouter(router), Step::ReviveRouter(router)))
}

/// One dies and begins anew. Returns when all have noticed, and joined and attached again.
fn die(scenario: &mut Scenario, rng: &mut Rng, at: u64, (end, begin): (Step, Step)) -> u64 {
    let again = at + 1_000_000 + rng.below(80_000_000);
    scenario.script.extend([(nanos(at), end), (nanos(again), begin)]);
    again + 200_000_000
}
