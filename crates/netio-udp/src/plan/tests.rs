use std::net::SocketAddr;

use proptest::prelude::*;

use super::*;

const LIMIT: usize = 9000;

fn routes(count: u16) -> RouteTable {
    let mut table = RouteTable::new(count as usize);
    for port in 1..=count {
        let peer = SocketAddr::from(([127, 0, 0, 1], port));
        table.insert(peer, LIMIT).expect("there is room");
    }
    table
}

static BYTES: [u8; LIMIT + 1] = [0; LIMIT + 1];

/// A batch of packets given as (route, length).
fn packets(shape: &[(u32, usize)]) -> Vec<TxPacket<'static>> {
    shape
        .iter()
        .map(|&(route, len)| TxPacket { route: Route(route), head: &BYTES[..len], body: &[] })
        .collect()
}

fn cut(shape: &[(u32, usize)], routes: &mut RouteTable, trains: bool) -> Plan {
    let mut plan = Plan::default();
    plan.cut(&packets(shape), routes, trains);
    plan
}

/// The runs of a batch as positions.
fn runs(shape: &[(u32, usize)], trains: bool) -> Vec<Vec<usize>> {
    let plan = cut(shape, &mut routes(8), trains);
    plan.runs().iter().map(|run| plan.ranges(run).flatten().collect()).collect()
}

#[test]
fn equal_neighbours_make_one_run() {
    assert_eq!(runs(&[(0, 56); 5], true), [[0, 1, 2, 3, 4]]);
}

#[test]
fn without_trains_every_packet_is_a_run() {
    assert_eq!(runs(&[(0, 56), (0, 56), (1, 9)], false), [[0], [1], [2]]);
}

#[test]
fn one_shorter_packet_ends_a_run() {
    let shape = [(0, 1400), (0, 1400), (0, 20), (0, 1400), (0, 20)];
    assert_eq!(runs(&shape, true), [vec![0, 1, 2], vec![3, 4]]);
}

#[test]
fn a_longer_packet_starts_a_run() {
    assert_eq!(runs(&[(0, 20), (0, 30)], true), [[0], [1]]);
}

#[test]
fn packets_of_other_routes_do_not_end_a_run() {
    let shape = [(0, 56), (1, 56), (0, 56), (1, 40), (0, 56), (1, 56)];
    assert_eq!(runs(&shape, true), [vec![0, 2, 4], vec![1, 3], vec![5]]);
}

#[test]
fn a_run_of_an_earlier_batch_is_not_joined() {
    let (mut routes, mut plan) = (routes(1), Plan::default());
    for _ in 0..2 {
        plan.cut(&packets(&[(0, 56); 2]), &mut routes, true);
        assert_eq!(plan.runs().len(), 1);
        assert_eq!(plan.runs()[0].packets, 2);
    }
}

#[test]
fn what_can_never_be_sent_is_rejected() {
    let shape = [(0, 56), (0, 0), (0, LIMIT + 1), (7, 56), (8, 56), (0, 56)];
    let plan = cut(&shape, &mut routes(8), true);
    let positions: Vec<Vec<usize>> =
        plan.runs().iter().map(|run| plan.ranges(run).flatten().collect()).collect();
    assert_eq!(positions, [vec![0, 5], vec![3]]);
    assert_eq!(
        [1, 2, 3, 4, 5, 6].map(|count| plan.rejected_before(count).count_ones()),
        [0, 1, 2, 2, 3, 3]
    );
}

#[test]
fn the_last_of_64_packets_can_be_rejected() {
    let mut shape = [(0, 56); 64];
    shape[63] = (0, 0);
    let plan = cut(&shape, &mut routes(1), true);
    assert_eq!((plan.rejected_before(63), plan.rejected_before(64)), (0, 1 << 63));
}

fn shapes() -> impl Strategy<Value = Vec<(u32, usize)>> {
    let len = prop_oneof![Just(56usize), Just(57), Just(1472), Just(8000), 0..LIMIT + 2];
    proptest::collection::vec((0u32..4, len), 0..=TX_BATCH_MAX)
}

proptest! {
    #[test]
    fn every_batch_is_cut_as_the_invariants_say(shape in shapes(), trains: bool) {
        let plan = cut(&shape, &mut routes(3), trains);
        let mut seen = Vec::new();
        let mut last_of_route = [None; 3];
        for run in plan.runs() {
            let positions: Vec<usize> = plan.ranges(run).flatten().collect();
            let lens: Vec<usize> = positions.iter().map(|at| shape[*at].1).collect();
            let (last, rest) = lens.split_last().expect("no run is empty");
            prop_assert!(rest.iter().all(|len| *len == run.segment_bytes));
            prop_assert!(*last <= run.segment_bytes);
            prop_assert_eq!(run.packets, lens.len());
            prop_assert_eq!(run.bytes, lens.iter().sum::<usize>());
            prop_assert!(run.packets == 1 || trains && run.bytes <= RUN_BYTES_MAX);
            prop_assert!(run.packets <= RUN_PACKETS_MAX);
            prop_assert!(positions.iter().all(|at| shape[*at].0 == run.route.0));
            prop_assert!(positions.is_sorted());
            let previous = last_of_route[run.route.0 as usize].replace(positions[lens.len() - 1]);
            prop_assert!(previous < Some(positions[0]), "the order per route holds");
            prop_assert_eq!(plan.first_packet(run), positions[0]);
            seen.extend(positions);
        }
        prop_assert!(plan.runs().is_sorted_by_key(|run| plan.first_packet(run)));
        seen.sort_unstable();
        let sendable = |&(route, len): &(u32, usize)| route < 3 && len > 0 && len <= LIMIT;
        let expected: Vec<usize> =
            (0..shape.len()).filter(|at| sendable(&shape[*at])).collect();
        let rejected = plan.rejected_before(shape.len()).count_ones() as usize;
        prop_assert_eq!(rejected, shape.len() - seen.len());
        prop_assert_eq!(seen, expected);
    }
}
