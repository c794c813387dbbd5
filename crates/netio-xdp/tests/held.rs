//! A router's program at an interface, in the hands of a process that keeps it while routers are
//! replaced.

use std::os::fd::{AsFd, OwnedFd};

use petasos_netio_xdp::{AttachMode, BpfFiles, BpfLink, InterfacePlace, XdpMode, has_program};
use petasos_router_xdp::{HeldProgram, RouterProgram};

#[allow(dead_code, reason = "each test program uses its own part")]
#[path = "../../router-xdp/tests/program/rig.rs"]
mod frames;
mod rig;

use frames::{Became, Rig, config, given};

/// An interface, and a program at it that has a worker and a client.
fn attached(mode: AttachMode) -> Option<(rig::Namespace, Rig, BpfLink)> {
    if !rig::available() {
        return None;
    }
    let host = rig::Namespace::new();
    host.ip("link add v0 type veth peer name v1");
    host.ip("link set v0 up");
    let rig = frames::rig(config())?;
    let link = host.run(|| rig.program.attach("v0", mode)).expect("a fresh interface is free");
    Some((host, rig, link))
}

fn files(program: &RouterProgram, link: &impl AsFd) -> BpfFiles {
    program.files(link.as_fd()).expect("there are descriptors")
}

fn id_at(host: &rig::Namespace) -> Option<u32> {
    let text = host.ip("-d link show dev v0");
    let id = text.split("prog/xdp id ").nth(1)?;
    id.split(' ').next().and_then(|id| id.parse().ok())
}

/// Without its process, a program does not wait for it: not to be woken, and not for what is above.
#[test]
fn a_program_that_is_left_alone_decides_by_itself() {
    let Some((_host, mut rig, link)) = attached(AttachMode::Native) else { return };
    rig.join(0, 2);
    let mode = link.mode();
    let held = HeldProgram::new(files(&rig.program, &link), mode).expect("all is right");
    rig.program.doze();
    rig.program.set_above(true);
    assert_eq!(rig.ask(b"x"), Became::Passed, "it wakes the process");
    assert_eq!(rig.ask(b"x"), Became::Passed, "something waits above");
    rig.program.doze();
    held.leave_alone();
    for number in 1..=2 {
        let asked = rig.first(b"x", |_| {});
        assert_eq!(given(&rig.run(&rig.frame(rig.client, &asked)), 0, &asked), number);
    }
    let waiting: Vec<_> = (0..2).map(|at| rig.first(&[at], |_| {})).collect();
    for asked in &waiting {
        assert_eq!(rig.run(&rig.frame(rig.client, asked)), Became::Dropped);
    }
    // Two slots are free, and one goes in this frame. The other one goes with the next.
    assert_eq!(given(&rig.feed_back(0, 2, (2, 2), 2), 0, &waiting[0]), 3);
    assert_eq!(given(&rig.feed_back(0, 3, (2, 2), 2), 0, &waiting[1]), 4);
    // It was only lost to sight: its process is there.
    drop(held);
    HeldProgram::new(files(&rig.program, &link), mode).expect("all is right");
    assert_eq!(rig.ask(b"x"), Became::Passed);
}

/// Where frames cannot grow, a request that waited would wait for ever.
#[test]
fn nothing_waits_in_a_program_that_is_left_alone_in_generic_mode() {
    let Some((_host, mut rig, link)) = attached(AttachMode::Generic) else { return };
    rig.join(0, 1);
    assert!(matches!(rig.ask(b"x"), Became::Sent(..)));
    assert_eq!(rig.ask(b"waits"), Became::Dropped);
    let held = HeldProgram::new(files(&rig.program, &link), XdpMode::Generic);
    held.expect("all is right").leave_alone();
    assert_eq!(rig.ask(b"is full"), Became::Passed);
    assert_eq!(rig.feed_back(0, 2, (1, 1), 1), Became::Dropped);
    let asked = rig.first(b"y", |_| {});
    assert_eq!(given(&rig.run(&rig.frame(rig.client, &asked)), 0, &asked), 2);
}

/// The interface has a program all the time, and is free when nobody has the link any more.
#[test]
fn rt35_a_successor_takes_the_place_of_a_program_that_is_kept() {
    let Some((host, first, link)) = attached(AttachMode::Native) else { return };
    let held = HeldProgram::new(files(&first.program, &link), link.mode()).expect("all is right");
    let place = host.run(|| InterfacePlace::of("v0")).expect("it is there");
    assert_eq!(held.interface(), place.interface);
    let before = id_at(&host).expect("it has one");
    let Some(second) = frames::rig(config()) else { return };
    second.program.follow(Some(held.program())).expect("it is a program");
    let link_copy = held.link().try_clone_to_owned().expect("there are descriptors");
    let taken = second.program.replace(link_copy, held.mode()).expect("it is attached");
    assert_ne!(id_at(&host), Some(before));
    assert!(has_program(before).expect("root may ask"), "it is followed");
    // As when its process is killed: nothing is detached.
    std::mem::forget(link);
    drop((held, first));
    assert!(id_at(&host).is_some());
    drop(taken);
    assert_eq!(id_at(&host), None);
}

#[test]
fn a_detached_link_cannot_be_taken_over() {
    let Some((_host, first, link)) = attached(AttachMode::Native) else { return };
    let held = HeldProgram::new(files(&first.program, &link), link.mode()).expect("all is right");
    drop(link);
    let Some(second) = frames::rig(config()) else { return };
    let copy = held.link().try_clone_to_owned().expect("there are descriptors");
    second.program.replace(copy, held.mode()).expect_err("it has no interface any more");
    HeldProgram::new(files(&first.program, &held.link()), held.mode()).expect("it is a link yet");
}

/// Whatever somebody sends in the place of each descriptor is found out.
#[test]
fn descriptors_that_are_not_what_they_are_said_to_be_are_refused() {
    let Some((_host, rig, link)) = attached(AttachMode::Native) else { return };
    let right = || files(&rig.program, &link);
    HeldProgram::new(right(), link.mode()).expect("all is right");
    let null = || OwnedFd::from(std::fs::File::open("/dev/null").expect("it is there"));
    let BpfFiles { link: other_link, program, words, programs } = right();
    let wrong = |fd: &OwnedFd| fd.try_clone().expect("there are descriptors");
    for (place, others) in [
        (0, [&program, &words, &programs]),
        (1, [&other_link, &words, &programs]),
        (2, [&other_link, &program, &programs]),
        (3, [&other_link, &program, &words]),
    ] {
        for other in others.map(wrong).into_iter().chain([null()]) {
            let mut files = right();
            let at = [&mut files.link, &mut files.program, &mut files.words, &mut files.programs];
            *at.into_iter().nth(place).expect("there are four") = other;
            let refused = HeldProgram::new(files, link.mode());
            refused.expect_err("it is something else");
        }
    }
}
