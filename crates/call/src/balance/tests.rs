//! Test cases for each policy. `tests/balance_queues.rs` compares the policies.

use super::*;

fn servers(running: &[u32]) -> Vec<Server> {
    let server = |(number, &running)| Server { number, running, has_room: running < 8 };
    (0..).zip(running).map(server).collect()
}

fn report(running: u16, time_us: u32) -> Report {
    Report { latency: Duration::from_millis(9), load: Some(Load { running, time_us }) }
}

const ALL: [Balance; 4] =
    [Balance::PickFirst, Balance::RoundRobin, Balance::PowerOfTwo, Balance::Prequal];

#[test]
fn whoever_has_room_is_picked_and_nobody_else() {
    let mut rng = Rng::new(1);
    for balance in ALL {
        let mut balancer = Balancer::new(balance);
        assert_eq!(balancer.pick(&[], &Avoid::default(), Time::ZERO, &mut rng), None);
        assert_eq!(balancer.pick(&servers(&[8, 9]), &Avoid::default(), Time::ZERO, &mut rng), None);
        for _ in 0..100 {
            let picked =
                balancer.pick(&servers(&[8, 8, 7, 8]), &Avoid::default(), Time::ZERO, &mut rng);
            assert_eq!(picked, Some(2), "{balance:?}");
        }
    }
}

#[test]
fn a_server_is_avoided_if_another_has_room() {
    let mut rng = Rng::new(2);
    for balance in ALL {
        let mut balancer = Balancer::new(balance);
        for _ in 0..100 {
            let picked =
                balancer.pick(&servers(&[0, 5, 8]), &Avoid::of_peer(0), Time::ZERO, &mut rng);
            assert_eq!(picked, Some(1), "{balance:?}");
            let alone =
                balancer.pick(&servers(&[0, 8, 8]), &Avoid::of_peer(0), Time::ZERO, &mut rng);
            assert_eq!(alone, Some(0), "{balance:?}");
        }
    }
}

#[test]
fn round_robin_takes_each_in_turn_and_passes_over_full_ones() {
    let (mut balancer, mut rng) = (Balancer::new(Balance::RoundRobin), Rng::new(3));
    let mut pick =
        |running: &[u32]| balancer.pick(&servers(running), &Avoid::default(), Time::ZERO, &mut rng);
    let turns: Vec<_> = (0..5).map(|_| pick(&[0, 8, 0, 0])).collect();
    assert_eq!(turns, [0, 2, 3, 0, 2].map(Some));
    assert_eq!(pick(&[0, 0]), Some(0), "the list has become shorter");
}

#[test]
fn power_of_two_never_takes_the_busiest_of_distinct_ones() {
    let mut rng = Rng::new(4);
    let servers = servers(&[3, 1, 2, 0]);
    let mut picks = [0; 4];
    for _ in 0..12_000 {
        picks[power_of_two(&servers, &mut rng).expect("there is room")] += 1;
    }
    assert_eq!(picks[0], 0, "it loses against each other");
    // The least loaded server wins all pairs that it is part of: half of them. The next one wins a
    // third, the one after it a sixth.
    for (at, share) in [(3, 6000), (1, 4000), (2, 2000)] {
        assert!(i32::abs(picks[at] - share) < 400, "{picks:?}");
    }
}

/// Answers all requested probes.
fn answer(balancer: &mut Balancer, answers: &[Report], now: Time, rng: &mut Rng) -> Vec<u32> {
    let mut probed = Vec::new();
    while let Some(number) = balancer.poll_probe() {
        balancer.handle_probed(number, answers[number as usize], now, rng);
        probed.push(number);
    }
    probed
}

#[test]
fn prequal_probes_whom_it_has_not_heard_of_lately() {
    let (mut balancer, mut rng) = (Balancer::new(Balance::Prequal), Rng::new(5));
    let servers = servers(&[0; 20]);
    let answers = [report(1, 100); 20];
    let mut now = Time::ZERO;
    balancer.pick(&servers, &Avoid::default(), now, &mut rng);
    let probed = answer(&mut balancer, &answers, now, &mut rng);
    assert!((1..=3).contains(&probed.len()), "three random ones, perhaps the same: {probed:?}");
    for _ in 0..200 {
        balancer.pick(&servers, &Avoid::default(), now, &mut rng);
        answer(&mut balancer, &answers, now, &mut rng);
    }
    balancer.pick(&servers, &Avoid::default(), now, &mut rng);
    assert_eq!(balancer.poll_probe(), None, "each of them has just answered");
    now = now + Duration::from_millis(3);
    for number in 0..20 {
        balancer.handle_report(number, report(1, 100), now);
    }
    balancer.pick(&servers, &Avoid::default(), now, &mut rng);
    assert_eq!(balancer.poll_probe(), None, "responses are as good as probes");
    now = now + Duration::from_millis(3);
    balancer.pick(&servers, &Avoid::default(), now, &mut rng);
    assert!(balancer.poll_probe().is_some());
}

#[test]
fn prequal_does_not_probe_twice_at_once_and_gives_lost_probes_up() {
    let (mut balancer, mut rng) = (Balancer::new(Balance::Prequal), Rng::new(6));
    let pair = servers(&[0, 0]);
    for _ in 0..100 {
        balancer.pick(&pair, &Avoid::default(), Time::ZERO, &mut rng);
    }
    let wanted: Vec<u32> = core::iter::from_fn(|| balancer.poll_probe()).collect();
    assert_eq!(wanted.len(), 2, "{wanted:?}");
    let later = Time::ZERO + Duration::from_secs(2);
    balancer.pick(&pair, &Avoid::default(), later, &mut rng);
    assert!(balancer.poll_probe().is_some());
}

#[test]
fn prequal_prefers_fast_servers_among_the_cold_and_idle_ones_among_the_hot() {
    let mut rng = Rng::new(7);
    // Server 0 is the fastest but has many calls; 1 is slow, 2 is fast; all others are in between.
    let mut answers = [report(2, 500); 12];
    answers[0] = report(50, 10);
    answers[1] = report(2, 9000);
    answers[2] = report(2, 20);
    let mut balancer = Balancer::new(Balance::Prequal);
    let list = servers(&[0; 12]);
    let mut picks = [0; 12];
    let mut now = Time::ZERO;
    for _ in 0..2000 {
        now = now + Duration::from_millis(3);
        let picked = balancer.pick(&list, &Avoid::default(), now, &mut rng).expect("there is room");
        picks[picked] += 1;
        answer(&mut balancer, &answers, now, &mut rng);
    }
    assert!(picks[2] > 350, "twice the share of the others, of 167 each: {picks:?}");
    assert!(picks[0] < 60 && picks[1] < 60, "hot, and slow: {picks:?}");
}

#[test]
fn prequal_forgets_servers_that_are_gone_and_what_is_old() {
    let (mut balancer, mut rng) = (Balancer::new(Balance::Prequal), Rng::new(8));
    let list = servers(&[0; 4]);
    for _ in 0..50 {
        balancer.pick(&list, &Avoid::default(), Time::ZERO, &mut rng);
        answer(&mut balancer, &[report(1, 9); 4], Time::ZERO, &mut rng);
    }
    let rest = &list[1..];
    balancer.handle_gone(0);
    for _ in 0..200 {
        let picked =
            balancer.pick(rest, &Avoid::default(), Time::ZERO, &mut rng).expect("there is room");
        assert!(picked < 3);
    }
    // Two seconds later all probes have expired, and calls use power of two choices.
    let later = Time::ZERO + Duration::from_secs(2);
    let mut uneven = servers(&[0, 4]);
    uneven.iter_mut().for_each(|server| server.number += 1);
    for _ in 0..100 {
        assert_eq!(balancer.pick(&uneven, &Avoid::default(), later, &mut rng), Some(0));
    }
}

#[test]
fn a_probe_that_failed_takes_its_server_out_of_the_pool() {
    let (mut balancer, mut rng) = (Balancer::new(Balance::Prequal), Rng::new(9));
    let list = servers(&[0; 6]);
    let failing = |number: u32| number == 0;
    let mut picks = 0;
    let mut now = Time::ZERO;
    for _ in 0..1000 {
        now = now + Duration::from_millis(3);
        let picked = balancer.pick(&list, &Avoid::default(), now, &mut rng).expect("there is room");
        picks += u32::from(failing(list[picked].number));
        while let Some(number) = balancer.poll_probe() {
            if failing(number) {
                balancer.handle_probe_failed(number);
            } else {
                balancer.handle_probed(number, report(1, 100), now, &mut rng);
            }
        }
    }
    assert!(picks < 20, "only before the pool fills: {picks}");
}
