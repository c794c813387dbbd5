//! A program that follows that of the process before (ADR 47).

use std::os::fd::AsFd;
use std::time::Duration;

use petasos_base::Clock;
use petasos_netio_xdp::{has_program, program_id};

use crate::rig::{Became, CLIENT, Rig, config, given, rig, worker_address};

/// The number of the client that has attached to the later process only.
const LATER: u32 = CLIENT.0 + 1;

/// Two programs of one address: the earlier one has client 3 and worker 0, the later one client 4
/// and worker 1.
fn generations() -> Option<[Rig; 2]> {
    let (earlier, later) = (rig(config())?, rig(config())?);
    earlier.join(0, 1);
    later.program.detach_client(CLIENT.0);
    later.program.attach_client(LATER, CLIENT.1, later.client);
    later.join(1, 1);
    Some([earlier, later])
}

/// A frame with the next first packet of a client, and the packet.
fn asked(rig: &mut Rig, client: u32) -> (Vec<u8>, Vec<u8>) {
    let packet = rig.first(b"x", |block| block.client = client);
    (rig.frame(rig.client, &packet), packet)
}

/// RT35: members of the process before are served by its program, others by the new one, each with
/// numbers, slots and windows of its own, and strangers by neither.
#[test]
fn rt35_what_a_program_does_not_know_goes_to_the_earlier_one() {
    let Some([mut earlier, mut later]) = generations() else { return };
    let (old, old_packet) = asked(&mut earlier, CLIENT.0);
    assert_eq!(later.run(&old), Became::Passed, "there is no earlier one");
    later.program.follow(Some(earlier.program.as_fd())).expect("it is a program");
    assert_eq!(given(&later.run(&old), 0, &old_packet), 1);
    let (new, new_packet) = asked(&mut later, LATER);
    assert_eq!(given(&later.run(&new), 1, &new_packet), 1);
    for again in [&old, &new] {
        assert_eq!(later.run(again), Became::Passed, "each number is taken once");
    }
    for stranger in [LATER + 1, 1 << 19] {
        let (frame, _) = asked(&mut later, stranger);
        assert_eq!(later.run(&frame), Became::Passed);
    }
    // Each hears its own workers.
    assert_eq!(later.run(&earlier.told(0, 2, (1, 1), 1)), Became::Dropped);
    assert_eq!(later.run(&later.told(1, 2, (1, 1), 1)), Became::Dropped);
    let strange = later.told(2, 2, (1, 1), 1);
    assert_eq!(later.run(&strange), Became::Passed);
    for rig in [&earlier, &later] {
        let stats = rig.program.stats();
        assert_eq!((stats.given, stats.feedback), (1, 2), "one of them from when it joined");
    }
    // Without it, its members are strangers.
    later.program.follow(None).expect("it is there");
    let (old, _) = asked(&mut earlier, CLIENT.0);
    assert_eq!(later.run(&old), Became::Passed);
    assert_eq!(later.run(&earlier.told(0, 3, (1, 1), 1)), Became::Passed);
    assert_eq!(earlier.program.stats().given, 1);
    later.program.follow(None).expect_err("it is not there");
}

/// A process that sleeps, has something waiting, or has not begun keeps no packet from the earlier
/// program, which wakes nobody.
#[test]
fn the_state_of_the_new_process_does_not_concern_members_of_the_earlier_one() {
    let Some([mut earlier, mut later]) = generations() else { return };
    later.program.follow(Some(earlier.program.as_fd())).expect("it is a program");
    let mut settled = 0;
    let mut serves_old = |later: &Rig| {
        let (frame, packet) = asked(&mut earlier, CLIENT.0);
        settled += 1;
        assert_eq!(given(&later.run(&frame), 0, &packet), settled);
        let told = earlier.told(0, settled + 1, (settled, settled), 1);
        assert_eq!(later.run(&told), Became::Dropped);
    };
    later.program.doze();
    serves_old(&later);
    let (new, packet) = asked(&mut later, LATER);
    assert_eq!(later.run(&new), Became::Passed, "it wakes the process");
    assert_eq!(given(&later.run(&new), 1, &packet), 1);
    assert_eq!(later.run(&later.told(1, 2, (1, 1), 1)), Became::Dropped);
    later.program.set_above(true);
    serves_old(&later);
    let (new, _) = asked(&mut later, LATER);
    assert_eq!(later.run(&new), Became::Passed);
    later.program.start(false);
    serves_old(&later);
}

/// An earlier generation is there as long as somebody may need it, and there is one at most.
#[test]
fn what_is_not_followed_any_more_is_gone() {
    let Some([first, second]) = generations() else { return };
    let Some(third) = rig(config()) else { return };
    let id = |rig: &Rig| program_id(rig.program.as_fd()).expect("it is a program");
    let ids = [id(&first), id(&second)];
    second.program.follow(Some(first.program.as_fd())).expect("it is a program");
    third.program.follow(Some(second.program.as_fd())).expect("it is a program");
    drop(first);
    assert!(has_program(ids[0]).expect("root may ask"), "the second one follows it");
    // With the second process goes its map, and with that what it has followed.
    drop(second);
    until_gone(ids[0]);
    assert!(has_program(ids[1]).expect("root may ask"), "the third one follows it");
    third.program.follow(None).expect("it is there");
    until_gone(ids[1]);
}

fn until_gone(id: u32) {
    let clock = Clock::system();
    let end = clock.now() + Duration::from_secs(60);
    while has_program(id).expect("root may ask") {
        assert!(clock.now() < end, "program {id} is gone in the end");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A chain of its own serves who goes through two programs.
#[test]
fn the_earlier_program_sends_as_if_it_were_alone() {
    let Some([mut earlier, later]) = generations() else { return };
    later.program.follow(Some(earlier.program.as_fd())).expect("it is a program");
    let (first, _) = asked(&mut earlier, CLIENT.0);
    let Became::Sent(address, _) = later.run(&first) else { panic!("it is sent") };
    assert_eq!(address, worker_address(0));
    // All is full: it waits in the earlier program's queue, and its feedback takes it along.
    let (second, packet) = asked(&mut earlier, CLIENT.0);
    assert_eq!(later.run(&second), Became::Dropped);
    assert_eq!((earlier.program.parked(), later.program.parked()), (1, 0));
    let told = earlier.told(0, 2, (1, 1), 1);
    assert_eq!(given(&later.run(&told), 0, &packet), 2);
}
