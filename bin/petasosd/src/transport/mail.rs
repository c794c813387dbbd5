//! How futures and the transport talk: one call, one port. The futures are the loop's, or those of
//! calls over gRPC on other threads.
//!
//! Bounds: a port has at most one thing for its future, which says when it has taken it. A future
//! says a message and waits until it has been taken on. So the inbox holds one message for each
//! call, and a few words beside.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

use petasos::{Metadata, Status};
use petasos_base::sync::{AtomicBool, Ordering};
use petasos_service::RemoteCall;

use super::rooms::Room;

/// What a future says about its call.
pub enum Said {
    /// A call has come in.
    Begun(Arc<Port>, Box<Begun>),
    /// The other end has sent a message of a stream.
    Message(Arc<Port>, Vec<u8>),
    /// The caller sends no more messages.
    Closed(Arc<Port>),
    /// The callee has sent initial metadata.
    Head(Arc<Port>, Metadata),
    /// The callee has ended the call.
    Ended(Arc<Port>, Box<Ended>),
    /// It has taken what was in its port.
    Taken(Arc<Port>),
    /// The future of a call that has come in is gone: it has been answered, or nobody waits.
    Left(Arc<Port>),
}

/// A call that has come in.
pub struct Begun {
    pub service: Arc<str>,
    pub method: Arc<str>,
    /// Of a unary call, in protobuf's encoding.
    pub message: Option<Vec<u8>>,
    pub metadata: Metadata,
    pub timeout: Option<Duration>,
    /// A proved name, or an address.
    pub peer: String,
    pub is_proved: bool,
    /// Its packets are encrypted.
    pub is_sealed: bool,
}

/// How a call to another host has ended.
pub struct Ended {
    /// The response, in protobuf's encoding; empty for a stream.
    pub result: Result<Vec<u8>, Status>,
    pub metadata: Metadata,
    pub trailers: Metadata,
}

/// What the end at this host says.
pub enum Item {
    /// A message, in protobuf's encoding.
    Message(Vec<u8>),
    Close,
    Head(Metadata),
    /// A response, or none of a stream; the status has trailing metadata.
    End {
        result: Result<Option<Vec<u8>>, Status>,
        metadata: Metadata,
        trailers: Metadata,
    },
}

/// What futures have said and the transport has not heard yet.
#[derive(Default)]
pub struct Inbox {
    heard: Mutex<Heard>,
    /// Something may have been said: seen without the lock, in each turn of the daemon.
    may_have: AtomicBool,
}

#[derive(Default)]
struct Heard {
    said: VecDeque<Said>,
    /// Of whoever is to hear what futures on other threads say.
    waker: Option<Waker>,
}

impl Inbox {
    pub fn say(&self, said: Said) {
        let waker = {
            let mut heard = locked(&self.heard);
            heard.said.push_back(said);
            self.may_have.store(true, Ordering::Release);
            heard.waker.take()
        };
        waker.into_iter().for_each(Waker::wake);
    }

    pub fn pop(&self) -> Option<Said> {
        if self.is_empty() {
            return None;
        }
        let mut heard = locked(&self.heard);
        let said = heard.said.pop_front();
        self.may_have.store(!heard.said.is_empty(), Ordering::Release);
        said
    }

    pub fn is_empty(&self) -> bool {
        !self.may_have.load(Ordering::Acquire)
    }

    /// Wakes somebody when something is said next.
    pub fn wake_with(&self, waker: &Waker) {
        let earlier = locked(&self.heard).waker.replace(waker.clone());
        drop(earlier);
    }
}

/// Between the transport and the future of one call.
#[derive(Default)]
pub struct Port(Mutex<State>);

#[derive(Default)]
struct State {
    /// The hub's number for it, once it has begun.
    call: Option<RemoteCall>,
    item: Option<Item>,
    /// The future waits until a message of its has been taken on.
    is_waiting: bool,
    is_cancelled: bool,
    waker: Option<Waker>,
    /// The call's place, if calls like it are bounded by ports.
    _room: Option<Room>,
}

impl Port {
    pub fn new(call: Option<RemoteCall>) -> Arc<Port> {
        Arc::new(Port(Mutex::new(State { call, ..State::default() })))
    }

    /// One that holds a place until it is gone.
    pub fn in_room(call: Option<RemoteCall>, room: Room) -> Arc<Port> {
        Arc::new(Port(Mutex::new(State { call, _room: Some(room), ..State::default() })))
    }

    pub fn call(&self) -> Option<RemoteCall> {
        locked(&self.0).call
    }

    pub fn set_call(&self, call: RemoteCall) {
        locked(&self.0).call = Some(call);
    }

    /// Whether it has room for an item.
    pub fn is_free(&self) -> bool {
        locked(&self.0).item.is_none()
    }

    /// Gives the future something. There must be room.
    pub fn put(&self, item: Item) {
        self.change(|state| state.item = Some(item));
    }

    /// A message of the future's has been taken on.
    pub fn accept(&self) {
        self.change(|state| state.is_waiting = false);
    }

    /// Nobody waits for the call any more.
    pub fn cancel(&self) {
        self.change(|state| state.is_cancelled = true);
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let waker = {
            let mut state = locked(&self.0);
            change(&mut state);
            state.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Waits until something can be taken out of the state.
    async fn until<T>(&self, mut take: impl FnMut(&mut State) -> Option<T>) -> T {
        poll_fn(|cx| {
            let mut state = locked(&self.0);
            match take(&mut state) {
                Some(taken) => Poll::Ready(taken),
                None => {
                    let earlier = state.waker.replace(cx.waker().clone());
                    drop(state);
                    drop(earlier);
                    Poll::Pending
                }
            }
        })
        .await
    }

    /// The next thing that the end at this host says.
    pub async fn next(self: &Arc<Port>, inbox: &Inbox) -> Item {
        let item = self.until(|state| state.item.take()).await;
        inbox.say(Said::Taken(self.clone()));
        item
    }

    /// Says a message, and waits until it has been taken on.
    pub async fn send(self: &Arc<Port>, inbox: &Inbox, message: Vec<u8>) {
        locked(&self.0).is_waiting = true;
        inbox.say(Said::Message(self.clone(), message));
        self.until(|state| (!state.is_waiting).then_some(())).await;
    }

    /// Runs a future unless nobody waits for the call any more.
    pub async fn unless_cancelled<F: Future>(&self, future: F) -> Option<F::Output> {
        let cancelled = self.until(|state| state.is_cancelled.then_some(()));
        either(cancelled, future).await
    }
}

/// The output of `future`, unless `end` is ready first.
async fn either<F: Future>(end: impl Future<Output = ()>, future: F) -> Option<F::Output> {
    let (mut end, mut future) = (pin!(end), pin!(future));
    poll_fn(|cx| {
        if end.as_mut().poll(cx).is_ready() {
            return Poll::Ready(None);
        }
        future.as_mut().poll(cx).map(Some)
    })
    .await
}

/// Runs `beside` along with `future`, until that is done, or `beside` fails.
pub async fn along<T>(
    beside: impl Future<Output = Result<(), Status>>,
    future: impl Future<Output = Result<T, Status>>,
) -> Result<T, Status> {
    let (mut beside, mut future) = (pin!(beside), pin!(future));
    let mut is_over = false;
    poll_fn(|cx| {
        if !is_over && let Poll::Ready(done) = beside.as_mut().poll(cx) {
            is_over = true;
            if let Err(status) = done {
                return Poll::Ready(Err(status));
            }
        }
        future.as_mut().poll(cx)
    })
    .await
}

fn locked<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
