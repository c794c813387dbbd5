//! Either side is killed at any moment.

use std::path::Path;
use std::time::Duration;

use petasos_attach::hello::Hello;
use petasos_attach::{Attachment, ConnectError, Ended, Lane, LaneError, ListenerConfig};
use petasos_base::{Rng, SystemClock};
use petasos_shm::HeapKind;

use crate::application::{connect, grant, push};
use crate::memory::{descriptors, mapped};
use crate::processes::spawn;
use crate::service::Service;
use crate::{Folder, PATIENCE, alone};

/// Calls and grows until it is killed.
pub fn flood(path: &Path) {
    let mut attachment = connect(path, "flood", 2);
    let mut lanes = attachment.take_lanes();
    for count in 0.. {
        for lane in &mut lanes {
            push(lane, &grant(count));
            lane.flush();
            while let Ok(Some(_)) = lane.pop() {}
            lane.release();
        }
        if count % 64 == 0 {
            let _ = attachment.grow(HeapKind::Send, 1);
        }
    }
}

/// Serves until it is killed.
pub fn serve(path: &Path) {
    let mut service = Service::bind(path, ListenerConfig::default());
    loop {
        if !service.turn() {
            service.sleep();
        }
    }
}

#[test]
fn an_application_that_is_killed_is_noticed_at_once_and_costs_nothing() {
    let (_alone, folder) = (alone(), Folder::new());
    let mut service = Service::bind(&folder.socket(), ListenerConfig::default());
    let (files, addresses, mut rng) = (descriptors(), mapped().1, Rng::new(3));
    for round in 0..20 {
        let mut child = spawn("flood", &folder.socket());
        let enough = rng.below(20_000);
        service.until("it works", |service| {
            service.app("flood").is_some_and(|app| app.answered > enough)
        });
        child.kill().expect("it runs");
        child.wait().expect("it was started here");
        let app = &mut service.apps[0];
        assert!(app.lanes.iter_mut().all(Lane::is_gone), "each lane says so in one look");
        service.until("all that it said is heard", |service| service.apps.is_empty());
        assert_eq!(service.ended.len(), round + 1);
        assert_eq!(service.end_of("flood"), Some("the other side is gone"));
        assert_eq!((service.listener.applications(), mapped().0), (0, 0));
        assert_eq!(descriptors(), files);
    }
    assert!(mapped().1 < addresses + (1 << 30), "the ranges of heaps are free");
}

#[test]
fn an_application_that_is_killed_while_it_attaches_costs_nothing() {
    let (_alone, folder) = (alone(), Folder::new());
    let mut service = Service::bind(&folder.socket(), ListenerConfig::default());
    let (files, clock, mut rng) = (descriptors(), SystemClock::default(), Rng::new(4));
    for _ in 0..40 {
        let mut child = spawn("flood", &folder.socket());
        let end = clock.now() + Duration::from_micros(rng.below(15_000));
        while clock.now() < end {
            service.turn();
        }
        child.kill().expect("it runs");
        child.wait().expect("it was started here");
        // It may not have connected, or its connection may not have been accepted.
        for _ in 0..3 {
            service.turn();
        }
        service.until("it is gone", |service| {
            service.apps.is_empty() && service.listener.pending() == 0
        });
        assert_eq!((service.listener.applications(), mapped().0), (0, 0));
        assert_eq!(descriptors(), files);
    }
}

/// Attaches to a service that may not be there yet.
fn attach(path: &Path) -> Attachment {
    let clock = SystemClock::default();
    let deadline = clock.now() + PATIENCE;
    loop {
        match Attachment::connect(path, &Hello::new("app", 1).expect("a hello"), PATIENCE) {
            Ok(attachment) => return attachment,
            Err(ConnectError::NotThere(_)) if clock.now() < deadline => std::thread::yield_now(),
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn a_service_that_is_killed_is_noticed_at_once_and_another_takes_its_path() {
    let (_alone, folder) = (alone(), Folder::new());
    let (files, mut rng) = (descriptors(), Rng::new(5));
    for _ in 0..10 {
        let mut child = spawn("serve", &folder.socket());
        let mut attachment = attach(&folder.socket());
        attachment.grow(HeapKind::Send, 1).expect("it is within the quota");
        let mut lane = attachment.take_lanes().remove(0);
        for count in 0..rng.below(5000) {
            push(&mut lane, &grant(count));
            lane.flush();
            while lane.pop().expect("the service is honest").is_some() {}
            lane.release();
        }
        child.kill().expect("it runs");
        child.wait().expect("it was started here");
        assert!(lane.is_gone());
        while lane.pop().expect("what it pushed whole is right").is_some() {}
        assert_eq!(lane.wait(PATIENCE), Err(LaneError::Gone));
        assert!(matches!(attachment.poll(), Err(Ended::Gone)));
        assert!(matches!(
            attachment.grow(HeapKind::Send, 1),
            Err(petasos_attach::GrowError::Ended(Ended::Gone))
        ));
        drop((attachment, lane));
        assert_eq!((descriptors(), mapped().0), (files, 0));
    }
}
