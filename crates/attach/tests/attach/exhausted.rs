//! A service whose process has no more file descriptors.

use std::fs::File;
use std::path::Path;

use petasos_attach::message::{FromApplication, FromService, Grow};
use petasos_attach::reason::NoExtent;
use petasos_attach::{ListenError, ListenerConfig};
use petasos_shm::HeapKind;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::application::hello;
use crate::processes::spawn;
use crate::raw::Raw;
use crate::service::Service;
use crate::{Folder, alone};

/// In a process of its own, whose limit is low.
pub fn run_out(path: &Path) {
    let maximum = getrlimit(Resource::Nofile).maximum;
    let limit = Rlimit { current: Some(100), maximum };
    setrlimit(Resource::Nofile, limit).expect("it may be lowered");
    let mut service = Service::bind(path, ListenerConfig::default());
    let mut early = Raw::attached(&mut service, path, "early", 1);
    let mut late = Raw::connect(path);
    let mut hogs: Vec<File> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
    for _ in 0..3 {
        let refused = service.listener.poll(service.now());
        assert!(matches!(refused, Err(ListenError::System { .. })), "{refused:?}");
    }
    early.say(&FromApplication::Grow(Grow { request: 1, heap: HeapKind::Send, bytes: 1 }));
    let attached = &mut service.apps[0].attached;
    attached.turn(petasos_base::Time::ZERO, |_| {}).expect("it goes on");
    early.hear();
    let reason = NoExtent::Memory;
    assert_eq!(early.said.last(), Some(&FromService::NoExtent { request: 1, reason }));
    assert_eq!(service.apps[0].attached.charged_bytes(HeapKind::Send), 0);
    // The connection is accepted, but there is nothing for its lanes.
    hogs.truncate(hogs.len() - 2);
    late.say(&FromApplication::Hello(hello("late", 1)));
    let applicant = service.listener.poll(service.now()).expect("there are two");
    let terms = service.terms;
    applicant.expect("it says hello").accept(&terms).map(drop).expect_err("there are no more");
    late.hear();
    assert!(matches!(late.said.last(), Some(FromService::Refuse(code, _)) if code.may_retry()));
    drop((hogs, late));
    Raw::attached(&mut service, path, "later", 1);
}

#[test]
fn a_service_without_descriptors_refuses_and_goes_on() {
    let (_alone, folder) = (alone(), Folder::new());
    let mut child = spawn("run out", &folder.socket());
    assert!(child.wait().expect("it was started here").success());
}
