//! Applications whose calls have numbers: the server knows what it has run, and the client when
//! each call ended.

use std::cell::RefCell;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use petasos::{LoopConfig, Msg, Request, Response, ServiceChoice, ServiceConfig, Status, Unary};

use super::clock::now_ns;
use crate::error::BenchError;
use crate::managed::messages::policies::{
    First, FirstClient, FirstServer, Number, Numbered, Second, SecondClient, SecondServer,
};
use crate::managed::part_args::PartArgs;
use crate::rpc::ends::{Client, Server};
use crate::rpc::looped::{LoopClient, LoopServer};
use crate::rpc::phase::{Phase, Turn};
use crate::rpc::stop::Stop;
use crate::rpc::tally::{SLICE_NS, Tally};
use crate::rpc::typed::LOOPBACK;

/// In a window of calls, one of this many is timed.
const SAMPLE: u64 = 32;
/// How long calls may take after the turn's end, before they count as lost.
const PATIENCE: Duration = Duration::from_secs(5);
/// A request's number is a part of its bytes.
const NUMBER_BYTES: usize = 8;
/// Numbers of a page of those that a server has seen.
const PAGE_NUMBERS: u64 = 1 << 20;
/// The most pages: 128 MiB.
const PAGES_MAX: usize = 1 << 10;

fn config(args: &PartArgs, listen: Option<SocketAddr>) -> Result<LoopConfig, BenchError> {
    let path = args.service.as_deref().ok_or("--service names no service")?;
    let mut service = ServiceConfig::new(path)?;
    if let Some(name) = &args.application {
        service = service.application(name)?;
    }
    Ok(LoopConfig { service: ServiceChoice::Managed(service), listen, ..LoopConfig::default() })
}

/// Which numbers a server has seen.
#[derive(Debug, Default)]
struct Seen {
    pages: HashMap<u64, Vec<u64>>,
    unique: u64,
    repeated: u64,
}

impl Seen {
    /// Notes a number. Says whether there is room for it.
    fn note(&mut self, number: u64) -> bool {
        let page = number / PAGE_NUMBERS;
        if self.pages.len() >= PAGES_MAX && !self.pages.contains_key(&page) {
            return false;
        }
        let words = self.pages.entry(page).or_insert_with(|| vec![0; PAGE_NUMBERS as usize / 64]);
        let bit = number % PAGE_NUMBERS;
        let (word, mask) = (&mut words[bit as usize / 64], 1 << (bit % 64));
        if *word & mask == 0 {
            self.unique += 1;
        } else {
            self.repeated += 1;
        }
        *word |= mask;
        true
    }
}

/// Answers with the numbers of requests. Only the server's thread takes the lock.
#[derive(Clone, Debug, Default)]
struct Answers(Arc<Mutex<Seen>>);

impl Answers {
    fn answer(&self, request: &Request<Numbered>) -> Result<Response<Number>, Status> {
        let number = request.number();
        if !self.0.lock().unwrap_or_else(PoisonError::into_inner).note(number) {
            return Err(Status::resource_exhausted("more calls than the measurement keeps"));
        }
        let mut answer = Number::new();
        answer.edit().set_number(number);
        Ok(Response::new(answer))
    }
}

impl First for Answers {
    async fn call(&self, request: Request<Numbered>) -> Result<Response<Number>, Status> {
        self.answer(&request)
    }
}

impl Second for Answers {
    async fn call(&self, request: Request<Numbered>) -> Result<Response<Number>, Status> {
        self.answer(&request)
    }
}

/// Answers calls, and counts what it has run.
pub struct NumberedServer {
    ends: LoopServer,
    answers: Answers,
}

impl NumberedServer {
    /// A server behind the service that the arguments name.
    ///
    /// # Errors
    /// If that does not let it serve.
    pub fn start(args: &PartArgs) -> Result<NumberedServer, BenchError> {
        let (config, answers) = (config(args, Some(LOOPBACK))?, Answers::default());
        let ends = match args.second {
            false => LoopServer::start(config, FirstServer::new(answers.clone()))?,
            true => LoopServer::start(config, SecondServer::new(answers.clone()))?,
        };
        Ok(NumberedServer { ends, answers })
    }
}

impl Server for NumberedServer {
    fn addresses(&self) -> Vec<SocketAddr> {
        self.ends.addresses()
    }

    fn serve(&mut self, phase: Phase, stop: &Stop) -> Result<Turn, BenchError> {
        let turn = self.ends.serve(phase, stop)?;
        let seen = self.answers.0.lock().unwrap_or_else(PoisonError::into_inner);
        let tally = Tally { unique: seen.unique, repeated: seen.repeated, ..Tally::default() };
        Ok(Turn { tally: Some(tally), ..turn })
    }
}

/// The client of one of the two services.
#[derive(Clone)]
enum Stub {
    First(FirstClient),
    Second(SecondClient),
}

impl Stub {
    fn call(&self, request: Msg<Numbered>) -> Unary<Number> {
        match self {
            Stub::First(client) => client.call(request),
            Stub::Second(client) => client.call(request),
        }
    }
}

/// Makes calls, and notes when each ends.
pub struct NumberedClient {
    ends: LoopClient,
    is_second: bool,
    callers: usize,
    data: Bytes,
    /// The number of the next call.
    next: u64,
}

impl NumberedClient {
    /// A client behind the service that the arguments name.
    ///
    /// # Errors
    /// If the arguments name none, or no server.
    pub fn start(args: &PartArgs) -> Result<NumberedClient, BenchError> {
        let server = *args.server.first().ok_or("--server names no server")?;
        let ends = LoopClient::new(config(args, None)?, server)?;
        let shape = args.shape();
        let data = vec![1; (shape.request_bytes as usize).saturating_sub(NUMBER_BYTES)].into();
        let (is_second, callers) = (args.second, shape.window);
        Ok(NumberedClient { ends, is_second, callers, data, next: 0 })
    }

    fn stub(&self) -> Stub {
        match self.is_second {
            false => Stub::First(FirstClient::new(self.ends.channel.clone())),
            true => Stub::Second(SecondClient::new(self.ends.channel.clone())),
        }
    }
}

impl Client for NumberedClient {
    fn turn(&mut self, _: Phase, duration: Duration) -> Result<Turn, BenchError> {
        let count = Rc::new(RefCell::new(Count::new(self.next, duration, self.callers)));
        let caller = |_| {
            let call = call(self.stub(), self.data.clone(), Rc::clone(&count));
            self.ends.event_loop.spawn(call)
        };
        let mut calls: Vec<_> = (0..self.callers).map(caller).collect();
        let late = after(duration + PATIENCE);
        let mut lateness = Box::pin(late.raised());
        self.ends.event_loop.block_on(std::future::poll_fn(|cx| {
            let is_late = lateness.as_mut().poll(cx).is_ready();
            calls.retain_mut(|call| std::pin::Pin::new(call).poll(cx).is_pending());
            if is_late || calls.is_empty() { Poll::Ready(()) } else { Poll::Pending }
        }));
        let count = count.borrow();
        self.next = count.next;
        Ok(count.turn())
    }
}

/// Is raised after some time.
fn after(duration: Duration) -> Arc<Stop> {
    let stop = Arc::new(Stop::default());
    let raised = Arc::downgrade(&stop);
    std::thread::spawn(move || {
        std::thread::sleep(duration);
        if let Some(stop) = raised.upgrade() {
            stop.raise();
        }
    });
    stop
}

/// What the callers of a turn count.
struct Count {
    ends_ns: u64,
    last_ns: u64,
    is_over: bool,
    sample: u64,
    first: u64,
    next: u64,
    turn: Turn,
    tally: Tally,
}

impl Count {
    fn new(next: u64, duration: Duration, callers: usize) -> Count {
        let begun_ns = now_ns();
        let slices = (duration + PATIENCE).as_nanos() as u64 / SLICE_NS + 1;
        let none = vec![0; slices as usize];
        let tally = Tally { begun_ns, per_slice: none.clone(), gap_ns: none, ..Tally::default() };
        Count {
            ends_ns: begun_ns + duration.as_nanos() as u64,
            last_ns: begun_ns,
            is_over: false,
            sample: if callers == 1 { 1 } else { SAMPLE },
            first: next,
            next,
            turn: Turn::default(),
            tally,
        }
    }

    /// The number of a call that begins, and when it begins if that matters; none at the end.
    fn begin(&mut self) -> Option<(u64, Option<u64>)> {
        if self.is_over {
            return None;
        }
        let number = self.next;
        self.next += 1;
        Some((number, number.is_multiple_of(self.sample).then(now_ns)))
    }

    fn end(&mut self, number: u64, begun: Option<u64>, answer: Result<u64, String>) {
        let now = now_ns();
        self.is_over |= now >= self.ends_ns;
        match answer {
            Ok(answered) if answered == number => {}
            Ok(answered) => return self.failed(format!("{answered} is answered to {number}")),
            Err(error) => return self.failed(error),
        }
        self.tally.answered += 1;
        let slice = ((now - self.tally.begun_ns) / SLICE_NS) as usize;
        let gap = u32::try_from(now - self.last_ns).unwrap_or(u32::MAX);
        if let Some(longest) = self.tally.gap_ns.get_mut(slice) {
            *longest = gap.max(*longest);
            self.tally.per_slice[slice] += 1;
        }
        self.last_ns = now;
        if let Some(begun) = begun {
            self.turn.latency.record_ns(now - begun);
        }
    }

    fn failed(&mut self, error: String) {
        if self.tally.error.is_empty() {
            self.tally.error = error;
        }
    }

    fn turn(&self) -> Turn {
        let mut tally = self.tally.clone();
        tally.sent = self.next - self.first;
        let slices = ((self.last_ns - tally.begun_ns) / SLICE_NS + 1) as usize;
        tally.per_slice.truncate(slices);
        tally.gap_ns.truncate(slices);
        Turn {
            completed: tally.answered,
            elapsed_s: (self.last_ns - tally.begun_ns).max(1) as f64 / 1e9,
            tally: Some(tally),
            ..self.turn.clone()
        }
    }
}

/// A caller: one call after another.
async fn call(stub: Stub, data: Bytes, count: Rc<RefCell<Count>>) {
    loop {
        let begun = count.borrow_mut().begin();
        let Some((number, begun)) = begun else { return };
        let mut request = Numbered::new();
        request.edit().set_number(number).set_data(data.clone());
        let answer = stub.call(request).await;
        let answer = answer.map(|answer| answer.number()).map_err(|status| status.to_string());
        count.borrow_mut().end(number, begun, answer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_counts_once() {
        let mut seen = Seen::default();
        for number in [0, 1, 63, 64, PAGE_NUMBERS, 1, PAGE_NUMBERS] {
            assert!(seen.note(number));
        }
        assert_eq!((seen.unique, seen.repeated), (5, 2));
        let mut pages = (0..=PAGES_MAX as u64).map(|page| seen.note(page * PAGE_NUMBERS));
        assert!(pages.any(|has_room| !has_room), "memory is bounded");
    }

    #[test]
    fn ends_of_calls_are_counted_in_slices() {
        let mut count = Count::new(7, Duration::from_secs(1), 1);
        for answer in [Ok(7), Ok(9), Err("x".to_owned())] {
            let (number, begun) = count.begin().expect("the turn goes on");
            count.end(number, begun, answer);
        }
        let turn = count.turn();
        let tally = turn.tally.expect("calls have numbers");
        assert_eq!((tally.sent, tally.answered, turn.latency.count()), (3, 1, 1));
        assert_eq!(tally.error, "9 is answered to 8");
        assert_eq!(tally.per_slice.iter().sum::<u32>(), 1);
        assert_eq!(tally.per_slice.len(), tally.gap_ns.len());
        count.ends_ns = 0;
        count.end(10, None, Ok(10));
        assert_eq!(count.begin(), None);
    }
}
