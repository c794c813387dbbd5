//! The cost of a null engine: unary calls in batches of 16 through a datapath, with as many null
//! engines as the second argument says. `cargo xtask icount` runs it under callgrind, with one
//! engine and without; the difference is the cost of the engine.

use petasos_engine::{
    Application, Call, Datapath, Direction, FieldError, FieldId, FieldKind, ItemKind, MethodId,
    Peer, Schema, Submission, Time,
};

const BATCH: u64 = 16;

fn main() {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse::<u64>());
    let mut next = |default| arguments.next().transpose().map(|number| number.unwrap_or(default));
    let (Ok(rpcs), Ok(engines)) = (next(20_000), next(1)) else {
        eprintln!("usage: icount_engine [CALLS [ENGINES]]");
        std::process::exit(2);
    };
    let mut datapath = Datapath::new(1024, 1);
    for place in 0..engines as usize {
        let null = petasos_engines::find("null").expect("there is one");
        let policy = null.make("{}", None).expect("it needs nothing");
        datapath.attach(place, policy.into(), &mut NoFields).expect("it needs nothing");
    }
    let mut done = 0;
    while done < rpcs {
        done += batch(&mut datapath, BATCH.min(rpcs - done));
    }
    println!("{{\"rpcs\":{done},\"packets\":0,\"syscalls\":0}}");
}

/// Calls there and back; how many.
fn batch(datapath: &mut Datapath, count: u64) -> u64 {
    for _ in 0..count {
        let id = datapath.begin(call()).expect("there is room");
        let request = Submission::new(ItemKind::Request, Direction::Outbound, 32);
        datapath.submit(id, request, Time::ZERO).expect("the call has begun");
    }
    datapath.run(Time::ZERO);
    let mut sent = Vec::with_capacity(BATCH as usize);
    while let Some(request) = datapath.take(Direction::Outbound) {
        sent.push(request.call);
    }
    for id in sent {
        let response = Submission::new(ItemKind::End, Direction::Inbound, 32);
        datapath.submit(id, response, Time::ZERO).expect("the call is open");
    }
    datapath.run(Time::ZERO);
    std::iter::from_fn(|| datapath.take(Direction::Inbound)).count() as u64
}

fn call() -> Call {
    Call {
        application: Application(0),
        peer: Peer(0),
        method: MethodId(0),
        requests: Direction::Outbound,
        is_stream: false,
        is_idempotent: false,
        is_sealed: false,
        attempt: 0,
        began: Time::ZERO,
        deadline: Time::NEVER,
        identity: None,
    }
}

struct NoFields;

impl Schema for NoFields {
    fn field(
        &mut self,
        _: MethodId,
        path: &str,
        _: FieldId,
        _: bool,
    ) -> Result<FieldKind, FieldError> {
        Err(FieldError::Unknown { method: "any".to_owned(), path: path.to_owned() })
    }

    fn forget(&mut self, _: FieldId) {}
}
