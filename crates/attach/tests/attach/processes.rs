//! An application in a process of its own.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use petasos_attach::ListenerConfig;
use petasos_shm::HeapKind;

use crate::application::{Memory, connect, grant, message, pop, push};
use crate::service::Service;
use crate::{CHILD, Folder, PATH, alone};

const DESCRIPTORS: u64 = 100_000;
/// As many are under way at once.
const BATCH: u64 = 50;

/// A child of this test's program.
pub fn child(what: &str, path: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("a test has a file"));
    command
        .args(["--exact", "processes::be_a_child", "--nocapture"])
        .env(CHILD, what)
        .env(PATH, path)
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    command
}

pub fn spawn(what: &str, path: &Path) -> Child {
    child(what, path).spawn().expect("a process can be started")
}

/// Not a test of its own: what child processes do.
#[test]
fn be_a_child() {
    let Ok(path) = std::env::var(PATH) else { return };
    let path = Path::new(&path);
    match std::env::var(CHILD).as_deref() {
        Ok("exchange") => exchange(path),
        Ok("flood") => crate::killed::flood(path),
        Ok("serve") => crate::killed::serve(path),
        Ok("run out") => crate::exhausted::run_out(path),
        Ok("greet") => drop(connect(path, "greeter", 1)),
        other => panic!("no such child: {other:?}"),
    }
}

/// Sleeps for each batch of answers: the service answers while this side sleeps.
fn exchange(path: &Path) {
    let mut attachment = connect(path, "child", 2);
    let mut lanes = attachment.take_lanes();
    let mut sleeps = 0;
    for batch in 0..DESCRIPTORS / BATCH {
        let lane = &mut lanes[(batch % 2) as usize];
        for count in 0..BATCH {
            push(lane, &grant(batch * BATCH + count));
        }
        lane.flush();
        for count in 0..BATCH {
            let (answer, slept) = pop(lane);
            assert_eq!(answer, grant(batch * BATCH + count + 1));
            sleeps += slept;
        }
        lane.release();
        if batch % 500 == 0 {
            grow_and_compare(&mut attachment, &mut lanes[0], batch);
        }
    }
    assert!(sleeps > 0, "it has slept");
    assert!(lanes.iter().all(|lane| lane.unasked_bytes() == 0), "the service is honest");
}

fn grow_and_compare(
    attachment: &mut petasos_attach::Attachment,
    lane: &mut petasos_attach::Lane,
    salt: u64,
) {
    let extent = attachment.grow(HeapKind::Send, 70_000).expect("it is within the quota");
    let receive = attachment.grow(HeapKind::Receive, 70_000).expect("it is within the quota");
    assert_eq!(extent, receive, "both heaps grow alike");
    let (memory, offset) = (Memory::new(), extent.offset + extent.bytes - 3000);
    let bytes: Vec<u8> = (0..3000).map(|at| (at * 7 + salt) as u8).collect();
    memory.write(attachment.heap(HeapKind::Send), offset, &bytes).expect("it is mapped");
    push(lane, &message(offset, bytes.len()));
    lane.flush();
    assert_eq!(pop(lane).0, message(offset, bytes.len()));
    lane.release();
    let mut answer = memory.read(attachment.heap(HeapKind::Receive), offset, bytes.len());
    answer.reverse();
    assert!(answer == bytes, "the service has read these bytes, and written them there");
}

#[test]
fn d12_two_processes_exchange_descriptors_asleep_and_awake() {
    let (_alone, folder) = (alone(), Folder::new());
    let mut service = Service::bind(&folder.socket(), ListenerConfig::default());
    let mut child = spawn("exchange", &folder.socket());
    let (mut answered, mut unasked) = (0, 0);
    service.until("the child ends", |service| {
        for app in &service.apps {
            answered = app.answered;
            unasked = app.lanes.iter().map(|lane| lane.unasked_bytes()).sum();
        }
        service.sleep();
        service.ended.len() == 1
    });
    let status = child.wait().expect("it was started here");
    assert!(status.success(), "{status}");
    assert_eq!((answered, unasked), (DESCRIPTORS + DESCRIPTORS / BATCH / 500, 0));
    assert!(service.wakes > 0 && service.sleeps > 0, "both have slept");
}
