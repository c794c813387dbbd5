//! An honest application.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use petasos_abi::{CallNumber, Contents, Descriptor, Side};
use petasos_attach::hello::Hello;
use petasos_attach::{Attachment, Lane, PushError, Woken};
use petasos_shm::{AdoptedHeap, HeapKind};

use crate::PATIENCE;

pub fn hello(name: &str, lanes: u16) -> Hello {
    Hello::new(name, lanes).expect("it is a hello")
}

pub fn connect(path: &Path, name: &str, lanes: u16) -> Attachment {
    Attachment::connect(path, &hello(name, lanes), PATIENCE).expect("the service takes it")
}

pub fn grant(count: u64) -> Descriptor {
    Descriptor::Grant { call: CallNumber::new(Side::Application, 1), bytes: count }
}

pub fn message(offset: u64, bytes: usize) -> Descriptor {
    let message = Contents { offset, bytes: bytes as u32 };
    Descriptor::Message { call: CallNumber::new(Side::Application, 2), message }
}

/// The next descriptor. Returns how often it slept.
pub fn pop(lane: &mut Lane) -> (Descriptor, u64) {
    let mut sleeps = 0;
    loop {
        match lane.pop().expect("the service is honest") {
            Some(descriptor) => return (descriptor, sleeps),
            None => {
                lane.release();
                assert_eq!(lane.wait(PATIENCE), Ok(Woken::Byte), "the service is there");
                sleeps += 1;
            }
        }
    }
}

/// Pushes as soon as there is room.
pub fn push(lane: &mut Lane, descriptor: &Descriptor) {
    while let Err(error) = lane.push(descriptor) {
        assert!(matches!(error, PushError::Full(_)), "{error}");
        lane.flush();
        std::thread::yield_now();
    }
}

/// Reads or writes a heap's bytes. There is no `unsafe` here, so it goes through the system.
pub struct Memory(File);

impl Memory {
    pub fn new() -> Memory {
        let file = File::options().read(true).write(true).open("/proc/self/mem");
        Memory(file.expect("a process has its memory"))
    }

    pub fn read(&self, heap: &AdoptedHeap, offset: u64, bytes: usize) -> Vec<u8> {
        let mut out = vec![0; bytes];
        self.0.read_exact_at(&mut out, at(heap, offset)).expect("it is mapped");
        out
    }

    pub fn write(&self, heap: &AdoptedHeap, offset: u64, bytes: &[u8]) -> std::io::Result<()> {
        self.0.write_all_at(bytes, at(heap, offset))
    }
}

fn at(heap: &AdoptedHeap, offset: u64) -> u64 {
    heap.start().as_ptr() as u64 + offset
}

/// An application in a thread, which calls all the time until it is told to end.
pub struct Honest {
    stop: Sender<()>,
    thread: JoinHandle<u64>,
}

impl Honest {
    pub fn start(path: &Path) -> Honest {
        let (stop, stopped) = channel();
        let path = path.to_owned();
        let thread = std::thread::spawn(move || call(&path, &stopped));
        Honest { stop, thread }
    }

    /// Ends it. Returns how many answers it got; all were right.
    pub fn end(self, service: &mut crate::service::Service) -> u64 {
        drop(self.stop);
        service.until("the honest application ends", |_| self.thread.is_finished());
        self.thread.join().expect("all its answers were right")
    }
}

fn call(path: &Path, stopped: &Receiver<()>) -> u64 {
    let mut attachment = connect(path, "honest", 1);
    let bytes = 1000;
    attachment.grow(HeapKind::Send, bytes).expect("it is within the quota");
    attachment.grow(HeapKind::Receive, bytes).expect("it is within the quota");
    let (memory, mut lane) = (Memory::new(), attachment.take_lanes().remove(0));
    let mut count = 0;
    while stopped.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {
        let bytes: Vec<u8> = (0..bytes).map(|at| (at + count) as u8).collect();
        memory.write(attachment.heap(HeapKind::Send), 8, &bytes).expect("it is mapped");
        push(&mut lane, &message(8, bytes.len()));
        lane.flush();
        assert_eq!(pop(&mut lane).0, message(8, bytes.len()));
        lane.release();
        let mut answer = memory.read(attachment.heap(HeapKind::Receive), 8, bytes.len());
        answer.reverse();
        assert!(answer == bytes, "the answer is to this message");
        count += 1;
    }
    count
}
