//! Random calls over random links, against the oracle of the plans.

use proptest::prelude::*;

use super::link::Link;
use super::pair::{Config, PAYLOAD, Pair};
use super::plan::{Answer, Outcome, Plan};
use crate::{AlgorithmConfig, CongestionConfig, DctcpConfig, Recovery, SwiftConfig, TimelyConfig};
use petasos_wire::{CREDITS_MAX, RejectCode};

/// Sizes around the edges of packets, and some of many packets.
pub(super) fn message_bytes() -> impl Strategy<Value = u32> {
    prop_oneof![
        Just(0),
        Just(1),
        Just(PAYLOAD - 1),
        Just(PAYLOAD),
        Just(PAYLOAD + 1),
        0..PAYLOAD * 2,
        0..PAYLOAD * 70,
    ]
}

fn answer() -> impl Strategy<Value = Answer> {
    prop_oneof![
        4 => Just(Answer::Now),
        3 => (0u64..60_000_000).prop_map(Answer::After),
        2 => (0u64..30_000).prop_map(Answer::After),
        1 => Just(Answer::Never),
        1 => Just(Answer::Reject(RejectCode::Declined)),
    ]
}

/// A call, when it starts, and when it is cancelled after that.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub(super) plan: Plan,
    pub(super) start_ns: u64,
    pub(super) cancel_ns: Option<u64>,
}

pub(super) fn step() -> impl Strategy<Value = Step> {
    let waits = (
        prop::option::weighted(0.3, 0u64..80_000_000),
        prop::option::weighted(0.1, 0u64..20_000_000),
    );
    let limit = prop_oneof![9 => Just(u32::MAX), 1 => 0..PAYLOAD * 3];
    (message_bytes(), message_bytes(), limit, answer(), waits, 0u64..10_000_000).prop_map(
        |(request_bytes, response_bytes, response_bytes_max, answer, waits, start_ns)| {
            let (timeout_ns, cancel_ns) = waits;
            // What is never answered has to end in some other way.
            let never = matches!(answer, Answer::Never);
            let timeout_ns = timeout_ns.or(never.then_some(50_000_000));
            let plan =
                Plan { request_bytes, response_bytes, response_bytes_max, answer, timeout_ns };
            Step { plan, start_ns, cancel_ns }
        },
    )
}

fn link() -> impl Strategy<Value = Link> {
    let loss = prop_oneof![Just(0.0), 0.0..0.05, 0.0..0.6];
    let duplication = prop_oneof![Just(0.0), 0.0..0.5];
    let jitter_ns = prop_oneof![Just(0u64), 0u64..5_000, 0u64..3_000_000];
    (1u64..100_000, jitter_ns, loss, duplication).prop_map(
        |(delay_ns, jitter_ns, loss, duplication)| Link { delay_ns, jitter_ns, loss, duplication },
    )
}

/// Every algorithm, also such that reacts to the slightest sign, with each bypass on and off.
pub(super) fn congestion() -> impl Strategy<Value = CongestionConfig> {
    let nervous = SwiftConfig { base_target_ns: 1, flow_range_ns: 0, ..SwiftConfig::default() };
    let algorithm = prop_oneof![
        Just(AlgorithmConfig::None),
        Just(AlgorithmConfig::Timely(TimelyConfig::default())),
        Just(AlgorithmConfig::Swift(SwiftConfig::default())),
        Just(AlgorithmConfig::Swift(nervous)),
        Just(AlgorithmConfig::Dctcp(DctcpConfig::default())),
    ];
    let burst_ns = prop_oneof![Just(0u64), Just(4_000), Just(50_000)];
    (algorithm, burst_ns, any::<[bool; 2]>()).prop_map(
        |(algorithm, burst_ns, [rate_bypass, pacing_bypass])| CongestionConfig {
            algorithm,
            burst_ns,
            rate_bypass,
            pacing_bypass,
            ..CongestionConfig::default()
        },
    )
}

pub(super) fn config() -> impl Strategy<Value = Config> {
    let sizes = (0u32..4, prop_oneof![1u32..5, 1u32..100, Just(4095)], 0u32..40);
    let recovery = prop_oneof![Just(Recovery::Selective), Just(Recovery::GoBackN)];
    let marks = prop_oneof![Just(0.0), 0.0..1.0];
    let control = prop_oneof![Just(CongestionConfig::none()), congestion()];
    (sizes, recovery, link(), any::<u64>(), any::<[bool; 2]>(), control, marks).prop_map(
        |(sizes, recovery, link, seed, [done, short_cuts], congestion, marks)| {
            let (slots_log, credits, backlog_max) = sizes;
            Config {
                slots: 1 << slots_log,
                credits,
                recovery,
                backlog_max,
                link,
                seed,
                done,
                short_cuts,
                congestion,
                marks,
                ..Config::default()
            }
        },
    )
}

/// Congestion control that is told everything and never holds a packet back: where window or pace
/// do, slots take turns, and calls sent in one step take no part in these.
fn wide_open() -> impl Strategy<Value = CongestionConfig> {
    let swift = SwiftConfig {
        base_target_ns: 1_000_000_000,
        decrease_max: 1e-4,
        window_initial: f64::from(CREDITS_MAX),
        timeouts_max: u32::MAX,
        ..SwiftConfig::default()
    };
    let swift = AlgorithmConfig::Swift(swift);
    let algorithm = prop_oneof![Just(AlgorithmConfig::None), Just(swift)];
    (algorithm, any::<bool>()).prop_map(|(algorithm, rate_bypass)| CongestionConfig {
        algorithm,
        rate_bypass,
        ..CongestionConfig::default()
    })
}

/// What may have become of a call; the harness has checked bytes, runs and that it ended once.
pub(super) fn is_right(step: &Step, outcome: &Outcome, elapsed_ns: u64) -> bool {
    let plan = &step.plan;
    match outcome {
        Outcome::Answered => {
            let answers = matches!(plan.answer, Answer::Now | Answer::After(_));
            answers && plan.response_bytes <= plan.response_bytes_max
        }
        Outcome::Overlong => plan.response_bytes > plan.response_bytes_max,
        Outcome::Rejected(code) => {
            *code == Some(RejectCode::Declined) && matches!(plan.answer, Answer::Reject(_))
        }
        Outcome::Expired => plan.timeout_ns.is_some_and(|ns| elapsed_ns >= ns),
        Outcome::Cancelled => step.cancel_ns.is_some_and(|ns| elapsed_ns >= ns),
        Outcome::Refused => elapsed_ns == 0,
        Outcome::Reset => false,
    }
}

fn begin(pair: &mut Pair, steps: &[Step]) {
    for step in steps {
        let method = pair.call_after(step.plan, step.start_ns);
        if let Some(cancel_ns) = step.cancel_ns {
            pair.cancel_after(method, step.start_ns + cancel_ns);
        }
    }
}

proptest! {
    /// Every call ends exactly once, as its plan allows, with the right bytes, after its handler
    /// ran at most once; credits and buffers are conserved (the harness checks these at each
    /// turn); and once faults stop, everything comes to rest.
    #[test]
    fn w15_every_call_ends_once_and_rightly(
        config in config(), steps in prop::collection::vec(step(), 1..40),
    ) {
        let mut pair = Pair::new(config);
        let start = pair.now;
        begin(&mut pair, &steps);
        pair.run_for_us(100_000);
        pair.network.heal();
        let healed = pair.now;
        pair.run();
        for (step, (outcome, at)) in steps.iter().zip(pair.outcomes.values()) {
            let elapsed_ns = at.nanos_since(start.plus_nanos(step.start_ns));
            prop_assert!(is_right(step, outcome, elapsed_ns), "{step:?}: {outcome:?}");
        }
        let rest_ns = pair.now.nanos_since(healed);
        prop_assert!(rest_ns < 30_000_000_000, "at rest {rest_ns} ns after the last fault");
    }

    /// The one-step ways of the common case come to the same as the long ones. (They do not take
    /// part in the turns that slots take for credits, so there are enough of these.)
    #[test]
    fn short_cuts_change_nothing(
        config in config(), congestion in wide_open(),
        steps in prop::collection::vec(step(), 1..20),
    ) {
        let [long, short] = [false, true].map(|short_cuts| {
            let credits = CREDITS_MAX;
            let mut pair = Pair::new(Config { short_cuts, credits, congestion, ..config });
            begin(&mut pair, &steps);
            pair.run_for_us(100_000);
            pair.network.heal();
            pair.run();
            (pair.outcomes.clone(), pair.client.stats(), *pair.server.stats())
        });
        prop_assert_eq!(long, short);
    }

    /// A link without faults wastes nothing: no call is sent twice unless its handler is slow.
    #[test]
    fn w16_w17_a_clean_link_wastes_nothing(
        mut config in config(),
        sizes in prop::collection::vec((message_bytes(), message_bytes()), 1..20),
    ) {
        config.link = Link::CLEAN;
        config.backlog_max = 20;
        let mut pair = Pair::new(config);
        for (request_bytes, response_bytes) in &sizes {
            pair.call(Plan::new(*request_bytes, *response_bytes));
        }
        pair.run();
        prop_assert!(pair.outcomes.values().all(|(outcome, _)| *outcome == Outcome::Answered));
        prop_assert_eq!(pair.client.stats().retransmissions, 0);
        prop_assert_eq!(pair.server.stats().duplicates, 0);
    }
}
