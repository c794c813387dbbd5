//! An interceptor that writes down what it sees, and does what a test asks of it.
#![allow(dead_code, reason = "each test file uses its own part")]

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

use petasos::Status;
use petasos::intercept::{AnyMessage, CallInfo, Direction, Interceptor, Outcome, Side, Step};

/// What happened, in order, for all interceptors of a test.
#[derive(Clone, Default)]
pub struct Journal(Arc<Mutex<Vec<String>>>);

impl Journal {
    fn lines(&self) -> MutexGuard<'_, Vec<String>> {
        self.0.lock().expect("no test panics under the lock")
    }

    pub fn note(&self, line: impl Into<String>) {
        self.lines().push(line.into());
    }

    /// What has been written since this was asked before.
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.lines())
    }

    /// Lines with this in them.
    pub fn containing(&self, what: &str) -> usize {
        self.lines().iter().filter(|known| known.contains(what)).count()
    }

    pub fn count(&self, line: &str) -> usize {
        self.lines().iter().filter(|known| *known == line).count()
    }

    /// A spy that continues.
    pub fn spy(&self, name: &'static str) -> Spy {
        Spy { name, journal: self.clone(), how: How::Continue, gate: Gate::default() }
    }
}

/// What a spy does in `call` or, where it says so, elsewhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum How {
    #[default]
    Continue,
    Refuse,
    Panic,
    /// Until the gate opens.
    Wait,
    /// Until it is polled again.
    Yield,
    WaitAndRefuse,
    WaitAndPanic,
    RefuseMessage(Direction),
    PanicAtMessage(Direction),
    PanicAtEnd,
}

pub struct Spy {
    pub name: &'static str,
    pub journal: Journal,
    pub how: How,
    pub gate: Gate,
}

impl Spy {
    pub fn with(self, how: How) -> Spy {
        Spy { how, ..self }
    }

    pub fn behind(self, gate: &Gate) -> Spy {
        Spy { how: How::Wait, gate: gate.clone(), ..self }
    }

    fn note(&self, what: impl AsRef<str>) {
        self.journal.note(format!("{} {}", self.name, what.as_ref()));
    }
}

/// What all refusals say.
pub fn refusal() -> Status {
    Status::permission_denied("not you")
}

impl Interceptor for Spy {
    fn call<'a>(&'a self, call: &'a mut CallInfo) -> Step<'a> {
        let from = call.metadata().get("from").unwrap_or("nobody");
        self.note(format!("call {} from {from}", call.method().name));
        let via = call.metadata().get("via").unwrap_or("nobody");
        let value = format!("{} by {from} via {via}", self.name);
        if call.side() == Side::Client {
            call.metadata_mut().append("via", self.name).expect("a fine key");
        } else {
            call.extensions_mut().insert(Verified(value));
        }
        let gate = self.gate.clone();
        match self.how {
            How::Refuse => Step::Refuse(refusal()),
            How::Panic => panic!("an interceptor that fails on purpose"),
            How::Wait => Step::wait(async move {
                gate.await;
                Ok(())
            }),
            How::Yield => {
                let mut is_first = true;
                Step::wait(std::future::poll_fn(move |cx| {
                    cx.waker().wake_by_ref();
                    match std::mem::replace(&mut is_first, false) {
                        true => Poll::Pending,
                        false => Poll::Ready(Ok(())),
                    }
                }))
            }
            How::WaitAndRefuse => Step::wait(async { Err(refusal()) }),
            How::WaitAndPanic => Step::wait(async { panic!("a step that fails on purpose") }),
            _ => Step::Continue,
        }
    }

    fn message(
        &self,
        _: &CallInfo,
        direction: Direction,
        message: AnyMessage<'_>,
    ) -> Result<(), Status> {
        let (name, bytes) = (message.type_name(), message.protobuf_bytes());
        let name = name.rsplit('.').next().unwrap_or_default();
        self.note(format!("{direction:?} {name} {bytes}"));
        match self.how {
            How::RefuseMessage(at) if at == direction => Err(refusal()),
            How::PanicAtMessage(at) if at == direction => panic!("a hook that fails on purpose"),
            _ => Ok(()),
        }
    }

    fn ended(&self, _: &CallInfo, outcome: &Outcome<'_>) {
        let end = outcome.trailers().get("end").unwrap_or("none");
        self.note(format!("ended {} with {end}", outcome.code()));
        if self.how == How::PanicAtEnd {
            panic!("a hook that fails on purpose");
        }
    }
}

/// What interceptors hand to handlers.
#[derive(Debug)]
pub struct Verified(pub String);

/// Opens when a test says so.
#[derive(Clone, Default)]
pub struct Gate(Arc<Mutex<(bool, Vec<Waker>)>>);

impl Gate {
    pub fn open(&self) {
        let wakers = {
            let mut state = self.0.lock().expect("no test panics under the lock");
            state.0 = true;
            std::mem::take(&mut state.1)
        };
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl Future for Gate {
    type Output = ();
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let waker = cx.waker().clone();
        let mut state = self.0.lock().expect("no test panics under the lock");
        if state.0 {
            return Poll::Ready(());
        }
        state.1.push(waker);
        Poll::Pending
    }
}
