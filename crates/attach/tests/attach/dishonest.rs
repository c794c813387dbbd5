//! A service that breaks the rules. The application reports it, and keeps nothing.

use std::fs::File;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::thread::JoinHandle;
use std::time::Duration;

use petasos_abi::Extent;
use petasos_attach::hello::{Limits, Welcome};
use petasos_attach::message::FromService;
use petasos_attach::session::Violation;
use petasos_attach::{Attachment, ConnectError, Ended};
use petasos_shm::{HeapKind, OwnedHeap, RingShape};

use crate::application::hello;
use crate::memory::descriptors;
use crate::raw::Raw;
use crate::{Folder, PATIENCE, alone};

const SLOTS: u32 = 8;
const WELCOME: fn() -> FromService =
    || FromService::Welcome(Welcome { version: 1, lanes: 1, limits: Limits::default() });
const LANE: FromService = FromService::Lane { index: 0, slots: SLOTS };

/// A frame, with any number of files.
type Part = (FromService, Vec<File>);

fn null() -> File {
    File::open("/dev/null").expect("it is there")
}

/// What comes with a lane, and this side's end of its socket.
fn lane_files() -> Vec<File> {
    let shape = RingShape { slots: SLOTS, data_bytes: 128, record_bytes_max: 64 };
    let (_, region) = petasos_shm::create(shape).expect("there is memory");
    vec![region.into(), null()]
}

fn extent_file() -> File {
    let mut heap = OwnedHeap::reserve(HeapKind::Send, 1 << 20).expect("there are addresses");
    heap.grow(1 << 16).expect("there is memory").1.into()
}

fn extent(offset: u64) -> FromService {
    let extent = Extent { offset, bytes: 1 << 16 };
    FromService::Extent { request: 0, heap: HeapKind::Send, extent }
}

/// A service that says these to whoever connects, and is then silent until it is joined.
fn start(path: &Path, parts: Vec<Part>) -> JoinHandle<Raw> {
    let listener = UnixListener::bind(path).expect("the path is free");
    std::thread::spawn(move || {
        let raw = Raw::new(listener.accept().expect("it connects").0.into());
        for (said, files) in &parts {
            let mut bytes = Vec::new();
            said.write(&mut bytes);
            let files: Vec<&File> = files.iter().collect();
            assert!(files.is_empty() || raw.send_with(bytes[0], &files));
            raw.send(&bytes[usize::from(!files.is_empty())..]);
        }
        raw
    })
}

/// How an application takes it.
fn told(parts: Vec<Part>) -> Result<Attachment, ConnectError> {
    let folder = Folder::new();
    let service = start(&folder.socket(), parts);
    let attachment = Attachment::connect(&folder.socket(), &hello("app", 1), PATIENCE);
    // It is here for so long that its silence does not end the attachment.
    let raw = service.join().expect("it does not panic");
    let Ok(mut attachment) = attachment else { return attachment };
    match attachment.poll() {
        Ok(_) | Err(Ended::Gone) => {}
        Err(ended) => return Err(ended.into()),
    }
    match attachment.poll() {
        Ok(_) | Err(Ended::Gone) => {}
        Err(ended) => return Err(ended.into()),
    }
    drop(raw);
    Ok(attachment)
}

fn violation(parts: Vec<Part>) -> Violation {
    match told(parts) {
        Err(ConnectError::Ended(Ended::Violation(violation))) => violation,
        other => panic!("it is a violation: {other:?}"),
    }
}

#[test]
fn d1_an_application_takes_files_only_with_frames_that_announce_them() {
    let _alone = alone();
    let before = descriptors();
    told(vec![(WELCOME(), vec![]), (LANE, lane_files()), (extent(0), vec![extent_file()])])
        .expect("this is right");
    let mut three = lane_files();
    three.push(null());
    for parts in [
        vec![(WELCOME(), vec![null()])],
        vec![(WELCOME(), vec![]), (LANE, vec![])],
        vec![(WELCOME(), vec![]), (LANE, vec![null()])],
        vec![(WELCOME(), vec![]), (LANE, three)],
        vec![(WELCOME(), vec![]), (LANE, lane_files()), (extent(0), vec![])],
        vec![(WELCOME(), vec![]), (LANE, lane_files()), (extent(0), vec![extent_file(), null()])],
    ] {
        let shown = format!("{parts:?}");
        assert_eq!(violation(parts), Violation::Descriptors, "{shown}");
    }
    assert_eq!(descriptors(), before);
}

#[test]
fn d2_an_application_maps_only_what_is_sealed_and_fits() {
    let _alone = alone();
    let begun = || vec![(WELCOME(), vec![]), (LANE, lane_files())];
    let with = |parts: Vec<Part>| begun().into_iter().chain(parts).collect::<Vec<_>>();
    assert_eq!(violation(with(vec![(extent(0), vec![null()])])), Violation::Extent);
    let again = || (extent(0), vec![extent_file()]);
    assert_eq!(violation(with(vec![again(), again()])), Violation::Extent);
    let gone = FromService::GiveUp { offset: 1 << 16 };
    assert_eq!(violation(with(vec![(gone, vec![])])), Violation::NoSuchExtent(1 << 16));
    let lane = told(vec![(WELCOME(), vec![]), (LANE, vec![null(), null()])]);
    assert!(matches!(lane, Err(ConnectError::Lane(_))), "{lane:?}");
}

#[test]
fn a_service_that_falls_silent_while_it_welcomes_is_not_waited_for_longer_than_asked() {
    let (_alone, folder) = (alone(), Folder::new());
    let service = start(&folder.socket(), vec![(WELCOME(), vec![])]);
    let short = Duration::from_millis(50);
    let error = Attachment::connect(&folder.socket(), &hello("app", 1), short);
    assert!(matches!(error, Err(ConnectError::Timeout)), "{error:?}");
    drop(service.join().expect("it does not panic"));
}
