//! The callers: tasks on a host's loop that make one call after another.

use core::future::{Future, poll_fn};
use core::pin::pin;
use core::task::Poll;
use core::time::Duration;
use std::sync::Arc;

use petasos::{Channel, Code, Request, Response, Status};
use petasos_base::{Rng, Time};
use petasos_rpc::timer::Timekeeper as _;
use petasos_runtime::shared::Shared;
use petasos_sim::cluster::Life;

use crate::body::{Part, body, is_right};
use crate::event::{Event, Outcome};
use crate::journal::Journal;
use crate::plan::{Kind, Plan};
use crate::sabotage::Sabotage;
use crate::work::{Answer, Ask, WorkClient};

/// Makes the calls during one life of a host.
#[derive(Clone)]
pub(crate) struct Client {
    life: Life,
    pub(crate) journal: Journal,
    pub(crate) stub: WorkClient,
    shared: Arc<Shared>,
    /// The seed of this life, from which its calls get their numbers.
    seed: u64,
}

/// The result of a call's future.
pub(crate) type Ended = Result<Outcome, Status>;

impl Client {
    pub(crate) fn new(
        (life, seed): (Life, u64),
        journal: Journal,
        channel: Channel,
        shared: Arc<Shared>,
    ) -> Client {
        Client { life, journal, stub: WorkClient::new(channel), shared, seed }
    }

    /// Makes `count` calls, one after the other.
    pub(crate) async fn make_calls(self, task: u32, count: u32, think_nanos: u64) {
        let mut rng = Rng::new(self.seed ^ u64::from(task) << 32);
        for _ in 0..count {
            self.sleep(rng.below(2 * think_nanos + 1)).await;
            self.call(rng.next_u64()).await;
        }
    }

    pub(crate) async fn sleep(&self, nanos: u64) {
        if nanos > 0 {
            self.shared.start(Duration::from_nanos(nanos)).await;
        }
    }

    async fn call(&self, call: u64) {
        let plan = Plan::of(call);
        let timeout_at = plan.timeout.map_or(Time::NEVER, |timeout| self.journal.now() + timeout);
        self.journal.note(Event::Begun { call, client: self.life, plan, timeout_at });
        let cancel = plan.cancel_after.map(|after| self.shared.start(after));
        let ended = until(self.run(call, plan), cancel).await;
        let Some(ended) = ended else {
            self.journal.note(Event::Cancelled { call });
            if self.journal.sabotage == Some(Sabotage::EndCancelled) {
                self.journal.note(Event::Ended { call, outcome: Outcome::End });
            }
            return;
        };
        let outcome = ended.unwrap_or_else(Outcome::from);
        if let Some(outcome) = self.spoilt(call, outcome) {
            self.journal.note(Event::Ended { call, outcome });
        }
    }

    async fn run(&self, call: u64, plan: Plan) -> Ended {
        match plan.kind {
            Kind::Once => {
                let ended = self.stub.once(ask(call, &plan)).await;
                if ended.is_err() && self.journal.sabotage == Some(Sabotage::SendAgain) {
                    return answered(call, &plan, self.stub.once(ask(call, &plan)).await);
                }
                answered(call, &plan, ended)
            }
            Kind::Named => answered(call, &plan, self.stub.named(ask(call, &plan)).await),
            Kind::Repeated => answered(call, &plan, self.stub.repeated(ask(call, &plan)).await),
            Kind::Hedged => answered(call, &plan, self.stub.hedged(ask(call, &plan)).await),
            Kind::Produce => self.produce(call, &plan).await,
            Kind::Collect => self.collect(call, &plan).await,
            Kind::Chat => self.chat(call, &plan).await,
        }
    }

    /// The outcome that is reported to the client, with inserted bugs. `None` if nothing is
    /// reported.
    fn spoilt(&self, call: u64, outcome: Outcome) -> Option<Outcome> {
        let failed = |code, message: &str| Outcome::Failed { code, message: message.to_owned() };
        Some(match (self.journal.sabotage, &outcome) {
            (Some(Sabotage::ClaimNotRun), Outcome::Failed { code: Code::Unavailable, .. }) => {
                failed(Code::Unavailable, "the server is shutting down")
            }
            (Some(Sabotage::FailWithoutCause), _) if call.is_multiple_of(8) => {
                failed(Code::Unavailable, "the server or the session is gone")
            }
            (Some(Sabotage::NeverEnd), _) if call.is_multiple_of(8) => return None,
            _ => outcome,
        })
    }
}

/// The request of a call.
pub(crate) fn ask(call: u64, plan: &Plan) -> Request<Ask> {
    let mut ask = Ask::new();
    ask.edit().set_call(call).set_body(body(call, Part::Request, plan.request_bytes));
    let request = Request::new(ask);
    match plan.timeout {
        Some(timeout) => request.with_timeout(timeout),
        None => request,
    }
}

/// The client's outcome for an answer.
pub(crate) fn answered(call: u64, plan: &Plan, ended: Result<Response<Answer>, Status>) -> Ended {
    let answer = ended?;
    let right = is_right(call, Part::Response, plan.response_bytes, answer.body());
    Ok(Outcome::Answer { run: answer.run(), pieces: answer.pieces(), right })
}

/// The output of `future`, or `None` if `end` is ready first.
async fn until<F: Future, E: Future + Unpin>(future: F, mut end: Option<E>) -> Option<F::Output> {
    let mut future = pin!(future);
    poll_fn(|cx| {
        if let Poll::Ready(output) = future.as_mut().poll(cx) {
            return Poll::Ready(Some(output));
        }
        match &mut end {
            Some(end) => pin!(end).poll(cx).map(|_| None),
            None => Poll::Pending,
        }
    })
    .await
}

/// The outputs of both futures.
pub(crate) async fn both<A: Future, B: Future>(one: A, other: B) -> (A::Output, B::Output) {
    let (mut one, mut other) = (pin!(one), pin!(other));
    let (mut first, mut second) = (None, None);
    poll_fn(|cx| {
        if first.is_none()
            && let Poll::Ready(output) = one.as_mut().poll(cx)
        {
            first = Some(output);
        }
        if second.is_none()
            && let Poll::Ready(output) = other.as_mut().poll(cx)
        {
            second = Some(output);
        }
        if first.is_some() && second.is_some() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    (first.expect("both are ready"), second.expect("both are ready"))
}
