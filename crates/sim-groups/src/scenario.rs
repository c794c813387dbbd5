//! What a run has in it.

use core::time::Duration;

/// How many parties there are, what befalls them, and for how long.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    /// By which command lines and failures name it.
    pub name: &'static str,
    /// Clients, at most 200.
    pub clients: u8,
    /// Routers, of which each knows all clients and workers; at least 1.
    pub routers: u8,
    /// Workers; at least 1.
    pub workers: u8,
    /// How many requests a worker takes at a time.
    pub bound: u16,
    /// The part of packets that is lost.
    pub loss: f64,
    /// The part of packets that is copied.
    pub copies: f64,
    /// The part of packets that come late, by up to 30 ms.
    pub late: f64,
    /// How often each party crashes, per second.
    pub crashes_per_s: f64,
    /// How often each worker but the primary drains, unless another does, and joins anew when it
    /// has nothing left, per second.
    pub drains_per_s: f64,
    /// How often each client is told that another router is active, per second.
    pub switches_per_s: f64,
    /// The part of feedback, and of what routers give, beside which somebody on the path sends what
    /// is forged.
    pub forged: f64,
    /// Claims of one more client, which confirms none of them, per second.
    pub claims_per_s: f64,
    /// Calls that each client begins, per second.
    pub calls_per_s: f64,
    /// For how long there are calls and faults. What follows is quiet.
    pub time: Duration,
}

impl Scenario {
    /// All of them.
    pub const ALL: [Scenario; 7] = [
        Scenario::CALM,
        Scenario::LOSSY,
        Scenario::CRASHES,
        Scenario::ROLLING,
        Scenario::OVERLOAD,
        Scenario::FORGED,
        Scenario::CLAIMS,
    ];

    /// A network without faults.
    pub const CALM: Scenario = Scenario {
        name: "calm",
        clients: 3,
        routers: 1,
        workers: 3,
        bound: 3,
        loss: 0.0,
        copies: 0.0,
        late: 0.0,
        crashes_per_s: 0.0,
        drains_per_s: 0.0,
        switches_per_s: 0.0,
        forged: 0.0,
        claims_per_s: 0.0,
        calls_per_s: 500.0,
        time: Duration::from_millis(500),
    };

    /// Packets are lost, copied and late.
    pub const LOSSY: Scenario =
        Scenario { name: "lossy", loss: 0.05, copies: 0.05, late: 0.05, ..Scenario::CALM };

    /// Two routers, each of which some clients use, and every party crashes.
    pub const CRASHES: Scenario = Scenario {
        name: "crashes",
        routers: 2,
        crashes_per_s: 2.0,
        drains_per_s: 1.0,
        switches_per_s: 5.0,
        time: Duration::from_millis(1500),
        calls_per_s: 200.0,
        ..Scenario::LOSSY
    };

    /// Workers that drain, and routers that become active, without any fault.
    pub const ROLLING: Scenario = Scenario {
        name: "rolling",
        routers: 2,
        drains_per_s: 4.0,
        switches_per_s: 50.0,
        time: Duration::from_millis(1000),
        ..Scenario::CALM
    };

    /// Far more calls than workers can take.
    pub const OVERLOAD: Scenario = Scenario {
        name: "overload",
        workers: 1,
        bound: 1,
        calls_per_s: 3000.0,
        time: Duration::from_millis(300),
        ..Scenario::LOSSY
    };
    /// Somebody on the path forges feedback and probes, and gives first packets again.
    pub const FORGED: Scenario =
        Scenario { name: "forged", forged: 0.1, loss: 0.01, ..Scenario::CALM };

    /// One client only claims.
    pub const CLAIMS: Scenario =
        Scenario { name: "claims", claims_per_s: 3000.0, ..Scenario::CALM };
}
