//! An application that breaks the rules, beside one that keeps them.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use petasos_attach::ListenerConfig;
use petasos_attach::kind;
use petasos_attach::message::{FromApplication, FromService, Grow};
use petasos_attach::reason::{DetachCode, NoExtent, RefuseCode};
use petasos_base::Rng;
use petasos_shm::HeapKind;

use crate::application::{Honest, hello, message};
use crate::memory::descriptors;
use crate::raw::Raw;
use crate::service::Service;
use crate::{Folder, alone};

/// A service, with an honest application that works all the time.
struct Scene {
    service: Service,
    honest: Option<Honest>,
    folder: Folder,
}

impl Scene {
    fn new() -> Scene {
        let folder = Folder::new();
        // All are of one process, which does not end.
        let config = ListenerConfig {
            applications_max: 10_000,
            applications_per_user_max: 10_000,
            ..ListenerConfig::default()
        };
        let mut service = Service::bind(&folder.socket(), config);
        let honest = Honest::start(&folder.socket());
        service.until("the honest one works", |service| answered(service) > 10);
        Scene { service, honest: Some(honest), folder }
    }

    fn connect(&self) -> Raw {
        Raw::connect(&self.folder.socket())
    }

    fn attached(&mut self, lanes: u16) -> Raw {
        Raw::attached(&mut self.service, &self.folder.socket(), "hostile", lanes)
    }

    /// The honest application gets further, and then ends well.
    fn end(mut self) {
        let before = answered(&self.service);
        self.service.until("it works on", |service| answered(service) > before + 10);
        let honest = self.honest.take().expect("it ends once");
        assert!(honest.end(&mut self.service) > before);
    }

    /// The end of an attached application, as the service told it and as the service saw it.
    fn violation(&mut self, raw: Raw) -> String {
        let said = raw.end(&mut self.service);
        let Some(FromService::Detach(DetachCode::Violation, text)) = said else {
            panic!("it was not told: {said:?}");
        };
        let seen = self.service.end_of("hostile").expect("it has ended");
        assert!(seen.ends_with(text.as_str()), "{seen}: {text}");
        self.service.ended.clear();
        text.to_string()
    }
}

fn answered(service: &Service) -> u64 {
    service.app("honest").map_or(0, |app| app.answered)
}

fn garbage(rng: &mut Rng, bytes: u64) -> Vec<u8> {
    (0..rng.below(bytes)).map(|_| rng.below(256) as u8).collect()
}

fn refuse_code(said: Option<FromService>) -> RefuseCode {
    match said {
        Some(FromService::Refuse(code, _)) => code,
        other => panic!("it was not refused: {other:?}"),
    }
}

#[test]
fn d1_garbage_is_refused_or_cut_off() {
    let (_alone, mut scene) = (alone(), Scene::new());
    let mut rng = Rng::new(1);
    for round in 0..300 {
        let mut raw = scene.connect();
        if round % 2 == 0 {
            raw.say(&FromApplication::Hello(hello("hostile", 1)));
            scene.service.until("it is taken", |service| service.app("hostile").is_some());
        }
        for _ in 0..rng.below(4) {
            raw.send(&garbage(&mut rng, 3000));
            scene.service.turn();
        }
        drop(raw);
        scene.service.until("it is gone", |service| {
            service.listener.pending() == 0 && service.app("hostile").is_none()
        });
    }
    scene.end();
}

#[test]
fn d1_wrong_frames_before_the_hello_are_refused() {
    let (_alone, mut scene) = (alone(), Scene::new());
    let mut control_character = Vec::new();
    FromApplication::Hello(hello("ab", 1)).write(&mut control_character);
    *control_character.last_mut().expect("it has a name") = 0x1b;
    for bytes in [
        &[0xff, 0xff, kind::HELLO, 0][..],
        &[0, 0, kind::HELLO, 0],
        &[0, 0, kind::HELLO, 1],
        &[0, 0, kind::DETACH, 0],
        &[4, 0, kind::HELLO, 0, b'H', b'T', b'T', b'P'],
        &[0, 0, 99, 0],
        &control_character,
    ] {
        let raw = scene.connect();
        raw.send(bytes);
        let code = refuse_code(raw.end(&mut scene.service));
        assert_eq!((code, code.may_retry()), (RefuseCode::Violation, false), "{bytes:?}");
    }
    scene.end();
}

#[test]
fn d1_wrong_frames_after_the_hello_end_the_attachment() {
    let (_alone, mut scene) = (alone(), Scene::new());
    let mut twice = Vec::new();
    FromApplication::Hello(hello("hostile", 1)).write(&mut twice);
    let mut skipped = Vec::new();
    let grow = Grow { request: 2, heap: HeapKind::Send, bytes: 1 };
    FromApplication::Grow(grow).write(&mut skipped);
    let mut nothing_there = Vec::new();
    FromApplication::GiveUp { offset: 1 << 20 }.write(&mut nothing_there);
    for (bytes, why) in [
        (&twice[..], "a second hello"),
        (&skipped, "a frame request number"),
        (&nothing_there, "no extent begins at 1048576"),
        (&[0, 0, kind::GROW, 0], "a frame ends early"),
        (&[1, 0, kind::DETACH, 0, 0], "field `code` is out of range"),
        (&[0, 0, kind::WELCOME, 0], "frames of kind 2 are for the other side to send"),
        (&[0, 0, kind::MOVE, 0], "frames of kind 16 are for the other side to send"),
        (&[0, 0, kind::RECALL + 1, 0], "frames of kind 19 do not exist"),
        (&[0xfd, 0x0f, kind::GROW, 0], "a frame announces 4093 bytes"),
    ] {
        let raw = scene.attached(1);
        raw.send(bytes);
        let text = scene.violation(raw);
        assert!(text.ends_with(why) || why == "a frame request number", "{text}");
    }
    scene.end();
}

#[test]
fn d1_who_begins_a_frame_and_falls_silent_is_cut_off_in_time() {
    let (_alone, mut scene) = (alone(), Scene::new());
    let silent = scene.connect();
    let slow = scene.connect();
    slow.send(&[20, 0]);
    let attached = scene.attached(1);
    attached.send(&[20, 0, kind::GROW]);
    let idle = Raw::attached(&mut scene.service, &scene.folder.socket(), "idle", 1);
    for _ in 0..10 {
        scene.service.turn();
    }
    assert_eq!(scene.service.listener.pending(), 2);
    assert!(scene.service.listener.next_due().is_some());
    assert!(scene.service.app("hostile").is_some_and(|app| app.attached.next_due().is_some()));
    scene.service.skew += ListenerConfig::default().patience;
    for raw in [silent, slow] {
        assert_eq!(refuse_code(raw.end(&mut scene.service)), RefuseCode::Violation);
    }
    assert_eq!(scene.service.listener.pending(), 0);
    assert_eq!(scene.violation(attached), "it takes too long to send or to take a frame");
    assert!(scene.service.app("idle").is_some(), "who has not begun a frame may be silent");
    drop(idle);
    scene.end();
}

#[test]
fn d1_a_hello_that_comes_byte_by_byte_in_time_is_taken() {
    let (_alone, mut scene) = (alone(), Scene::new());
    let raw = scene.connect();
    let mut bytes = Vec::new();
    FromApplication::Hello(hello("drop-by-drop", 1)).write(&mut bytes);
    for byte in bytes {
        raw.send(&[byte]);
        scene.service.turn();
    }
    scene.service.until("it is taken", |service| service.app("drop-by-drop").is_some());
    scene.end();
}

#[test]
fn d1_descriptors_of_files_on_every_byte_are_closed() {
    let (_alone, mut scene) = (alone(), Scene::new());
    let file = File::open("/dev/null").expect("it is there");
    let before = descriptors();
    let mut bytes = Vec::new();
    FromApplication::Hello(hello("hostile", 1)).write(&mut bytes);
    for round in 0..50 {
        let raw = scene.connect();
        for byte in &bytes {
            raw.send_with(*byte, &[&file; 8]);
        }
        assert_eq!(refuse_code(raw.end(&mut scene.service)), RefuseCode::Violation);
        let raw = scene.attached(2);
        for _ in 0..round {
            raw.send_with(0, &[&file; 3]);
        }
        raw.send_with(0, &[&file]);
        assert_eq!(scene.violation(raw), "descriptors of files that no frame announces");
    }
    // Of each attachment of this process, its end is still to be seen.
    let places = scene.service.listener.applications() - 1;
    assert_eq!((descriptors(), places), (before + places, 50));
    scene.end();
}

#[test]
fn d1_absurd_requests_for_extents_are_refused_and_the_quota_holds() {
    let (_alone, mut scene) = (alone(), Scene::new());
    scene.service.terms.limits.send.quota_bytes = 1 << 20;
    let mut raw = scene.attached(1);
    let asked = [1 << 40, (1 << 20) + 1, 1 << 19, 1 << 19, 1].into_iter();
    for (request, bytes) in (1..).zip(asked) {
        raw.say(&FromApplication::Grow(Grow { request, heap: HeapKind::Send, bytes }));
    }
    scene.service.until("all are answered", |_| {
        raw.hear();
        raw.said.len() == 2 + 5
    });
    let granted = |said: &FromService| matches!(said, FromService::Extent { .. });
    let answers: Vec<bool> = raw.said[2..].iter().map(granted).collect();
    assert_eq!(answers, [false, false, true, true, false]);
    let reason = NoExtent::Quota;
    assert_eq!(raw.said[6], FromService::NoExtent { request: 5, reason });
    // What was given up stays charged: this application has it still.
    raw.say(&FromApplication::GiveUp { offset: 0 });
    raw.say(&FromApplication::Grow(Grow { request: 6, heap: HeapKind::Send, bytes: 1 }));
    scene.service.until("it is answered", |_| {
        raw.hear();
        raw.said.len() == 2 + 6
    });
    assert_eq!(raw.said[7], FromService::NoExtent { request: 6, reason });
    let attached = &scene.service.app("hostile").expect("it may ask").attached;
    assert_eq!(attached.charged_bytes(HeapKind::Send), 1 << 20);
    assert_eq!(attached.heap(HeapKind::Send).extents().bytes(), 1 << 19);
    for bytes in [0, (1 << 40) + 1, u64::MAX] {
        let mut raw = scene.attached(1);
        raw.say(&FromApplication::Grow(Grow { request: 1, heap: HeapKind::Send, bytes }));
        let said = raw.end(&mut scene.service);
        assert!(matches!(said, Some(FromService::Detach(DetachCode::Violation, _))), "{said:?}");
    }
    scene.end();
}

#[test]
fn d1_an_application_that_asks_and_does_not_read_is_not_heard_and_then_cut_off() {
    let (_alone, mut scene) = (alone(), Scene::new());
    let raw = scene.attached(1);
    let before = descriptors();
    let mut request = 0;
    for _ in 0..500 {
        for _ in 0..50 {
            let grow = Grow { request: request + 1, heap: HeapKind::Send, bytes: 1 };
            let mut bytes = Vec::new();
            FromApplication::Grow(grow).write(&mut bytes);
            if raw.send(&bytes) == bytes.len() {
                request += 1;
            }
        }
        scene.service.turn();
    }
    let attached = &scene.service.app("hostile").expect("it has time").attached;
    assert!(attached.wants_to_write() && attached.next_due().is_some());
    let extents = attached.heap(HeapKind::Send).extents().iter().count();
    assert!((1..200).contains(&extents), "{extents} of {request}");
    assert!(descriptors() <= before + 20);
    scene.service.skew += ListenerConfig::default().patience;
    scene.service.until("it is cut off", |service| service.end_of("hostile").is_some());
    scene.end();
}

/// A slot of a ring in its first lap, with a record of so many bytes as its header says.
fn slot(record: &[u8], bytes: u64) -> Vec<u8> {
    let header: u64 = 1 << 48 | bytes << 24 | bytes;
    [&header.to_le_bytes(), record].concat()
}

/// What a hostile application does with its memory in a step. The application's ring begins in the
/// middle of the region, its slots 256 bytes later.
fn write(rng: &mut Rng, [region, heap]: [&File; 2], step: u64) {
    let length = region.metadata().expect("it is a file").len();
    let slot_at = |step: u64| length / 2 + 256 + 64 * step;
    let place = message(rng.below(60_000), 1 + rng.below(5000) as usize);
    region.write_at(&slot(&place.to_bytes(), 56), slot_at(step)).expect("it can be written");
    let at = rng.below(length / 2 - 64);
    region.write_at(&garbage(rng, 64), at).expect("it can be written");
    region.write_at(&[rng.below(3) as u8], length / 2 + 128).expect("it can be written");
    heap.write_at(&garbage(rng, 64), rng.below(60_000)).expect("it can be written");
    if rng.below(100) == 0 {
        let wrong = [
            slot(&garbage(rng, 57), 56),
            slot(&[7; 56], 65),
            slot(&[7; 56], 1 << 23),
            slot(&message(1 << 39, 5).to_bytes(), 56),
        ];
        let wrong = &wrong[rng.below(4) as usize];
        region.write_at(wrong, slot_at(step + 1)).expect("it can be written");
    }
}

#[test]
fn d10_writes_into_rings_and_heaps_during_use_harm_nobody_else() {
    let (_alone, mut scene) = (alone(), Scene::new());
    let (mut rng, mut ends, mut answers) = (Rng::new(2), std::collections::BTreeSet::new(), 0);
    for _ in 0..200 {
        let mut raw = scene.attached(1);
        for (request, heap) in [(1, HeapKind::Send), (2, HeapKind::Receive)] {
            raw.say(&FromApplication::Grow(Grow { request, heap, bytes: 1 }));
        }
        scene.service.until("it has its extents", |_| {
            raw.hear();
            raw.files.len() == 4
        });
        raw.files[3].write_at(&[1], 0).expect_err("the service alone writes it");
        for step in 0..100 {
            write(&mut rng, [&raw.files[0], &raw.files[2]], step);
            scene.service.turn();
        }
        answers += scene.service.app("hostile").map_or(0, |app| app.answered);
        ends.extend(scene.service.end_of("hostile").map(str::to_owned));
        drop(raw);
        scene.service.until("it is gone", |service| service.app("hostile").is_none());
        scene.service.ended.clear();
    }
    assert!(answers > 1000 && ends.len() > 3, "{answers} answers, and these ends: {ends:?}");
    scene.end();
}

#[test]
fn d12_floods_of_wake_bytes_leave_the_service_to_others_and_have_an_end() {
    let (_alone, mut scene) = (alone(), Scene::new());
    let raw = scene.attached(1);
    let socket = &raw.files[1];
    scene.service.until("it is found out", |service| {
        let flags = rustix::net::SendFlags::DONTWAIT | rustix::net::SendFlags::NOSIGNAL;
        while rustix::net::send(socket, &[7; 4096], flags).is_ok() {}
        service.app("hostile").is_none()
    });
    assert_eq!(scene.violation(raw), "the other side has sent too many wake-ups");
    scene.end();
}

#[test]
fn d12_descriptors_of_files_on_a_lanes_socket_are_closed() {
    let (_alone, mut scene) = (alone(), Scene::new());
    let mut raw = scene.attached(1);
    let before = descriptors();
    let file = File::open("/dev/null").expect("it is there");
    raw.socket = raw.files.remove(1).into();
    for _ in 0..100 {
        raw.send_with(1, &[&file; 8]);
        scene.service.turn();
    }
    drop((file, raw));
    scene.service.until("it is gone", |service| service.app("hostile").is_none());
    assert!(descriptors() <= before);
    scene.end();
}

#[test]
fn nothing_that_is_not_read_keeps_the_service_from_ending_it() {
    let (_alone, mut scene) = (alone(), Scene::new());
    let mut raw = scene.attached(1);
    raw.say(&FromApplication::Detach(DetachCode::Done, Default::default()));
    scene.service.until("it has left", |service| service.end_of("hostile").is_some());
    let end = scene.service.end_of("hostile").expect("it has left");
    assert_eq!(end, "the other side has detached (Done): ");
    scene.service.skew += Duration::from_secs(3600);
    scene.end();
}
