//! What clients see is one order of operations for each key (K2).

use petasos_base::{Rng, SystemClock};
use petasos_endpoint::CallError;
use petasos_history::{
    Budget, Bytes, CallId, Header, ModelKind, Op, Reader, Recorder, Reply, Verdict, check,
};
use petasos_kv::{Client, ClientError, Operation, Request, Status};
use petasos_store::Mode;

use crate::server::{Server, config};

const CLIENTS: u64 = 4;
const CALLS: u64 = 400;
const KEYS: [&str; 3] = ["a", "b", "c"];

/// A client that records what it does.
struct Recording {
    client: Client,
    recorder: Recorder<Vec<u8>>,
    clock: SystemClock,
    rng: Rng,
    /// The stamp that it has seen last.
    stamp: u64,
}

impl Recording {
    fn now(&self) -> u64 {
        self.clock.now().as_nanos()
    }

    fn begin(&self, op: &Op) -> CallId {
        self.recorder.call(self.now(), op).expect("memory takes it")
    }

    fn step(&mut self, number: u64) {
        let name = KEYS[self.rng.below(3) as usize];
        let (key, text) = (Bytes::from(name), format!("{number},"));
        let value = Bytes::from(text.as_str());
        let request = |operation| Request::new(operation, name.as_bytes());
        let written = |operation| Request { value: text.as_bytes(), ..request(operation) };
        let stamp = self.stamp;
        let (op, request) = match self.rng.below(8) {
            0 => (Op::Set { key, value }, written(Operation::Set)),
            1 => (Op::Delete { key }, request(Operation::Delete)),
            2 => (Op::CompareSet { key, expect: None, value }, written(Operation::Add)),
            3 => {
                let swap = Request { operand: stamp, ..written(Operation::CompareAndSet) };
                (Op::CompareStamp { key, stamp, value }, swap)
            }
            4 => (Op::Append { key, value, create: false }, written(Operation::Append)),
            _ => (Op::Get { key }, request(Operation::Get)),
        };
        let call = self.begin(&op);
        let answer = self.client.operate(&request, |response| {
            let value = String::from_utf8_lossy(response.value).into_owned();
            (response.status, response.stamp, value)
        });
        let now = self.now();
        let recorded = match answer {
            Ok((status, stamp, value)) => {
                self.stamp = if stamp == 0 { self.stamp } else { stamp };
                self.recorder.ok(call, now, reply(&op, status, stamp, &value))
            }
            Err(ClientError::Call(CallError::NotSent) | ClientError::NotMade(_)) => {
                self.recorder.not_done(call, now)
            }
            Err(_) => self.recorder.unknown(call, now),
        };
        recorded.expect("memory takes it");
    }
}

/// An answer as the model has it.
fn reply(op: &Op, status: Status, stamp: u64, value: &str) -> Reply {
    let is_done = status == Status::Done;
    let expected = [Status::Done, Status::Absent, Status::Present];
    assert!(expected.contains(&status), "{status}");
    let stamp = Some(stamp).filter(|stamp| *stamp != 0);
    match op {
        Op::Get { .. } => {
            Reply { value: Some(is_done.then(|| Bytes::from(value))), stamp, ..Reply::default() }
        }
        Op::Delete { .. } => Reply { existed: Some(is_done), ..Reply::default() },
        Op::Set { .. } => Reply { stamp, ..Reply::default() },
        _ => Reply { done: Some(is_done), stamp, ..Reply::default() },
    }
}

/// Several clients work on a few keys of a server with several loops. One of them asks one loop for
/// everything, so that most of its requests are passed on.
#[test]
fn k2_what_clients_see_has_one_order() {
    let server = Server::start(&config(Mode::Store, 8), 3);
    let clock = SystemClock::default();
    let files: Vec<Vec<u8>> = std::thread::scope(|scope| {
        let work = |process: u64| {
            let (server, clock) = (&server, clock.clone());
            move || {
                let (client, _node) = match process {
                    0 => server.client_of_one(0),
                    process => server.client(process as usize % 3),
                };
                let header = Header { model: Some(ModelKind::Register), revision: None };
                let recorder = Recorder::new(Vec::new(), process, Some(header));
                let recorder = recorder.expect("memory takes it");
                let rng = Rng::new(process);
                let mut recording = Recording { client, recorder, clock, rng, stamp: 0 };
                (0..CALLS).for_each(|number| recording.step(process * CALLS + number));
                recording.recorder.finish().expect("memory takes it")
            }
        };
        let threads: Vec<_> = (0..CLIENTS).map(|process| scope.spawn(work(process))).collect();
        threads.into_iter().map(|thread| thread.join().expect("it works on")).collect()
    });
    let mut reader = Reader::new();
    for (number, file) in files.iter().enumerate() {
        let read = reader.read(file.as_slice());
        assert!(read.is_ok(), "file {number}: {read:?}");
    }
    let history = reader.finish();
    assert_eq!(history.calls.len() as u64, CLIENTS * CALLS);
    let report = check(&history, ModelKind::Register, Budget::default());
    let report = report.expect("the calls are those of registers");
    assert_eq!(report.verdict, Verdict::Good, "{report:?}");
    assert!(server.service.stats().astray > 50);
}
