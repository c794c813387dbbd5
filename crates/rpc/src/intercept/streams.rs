//! Interceptors around streams.
//!
//! A client's call is over when its reader has seen the end, or is gone; a server's when its
//! handler is. Each direction has a [`Tap`], which shows messages to the interceptors. What they
//! refuse ends the call in both directions.

use core::future::Future;
use core::task::{Context, Poll};
use std::sync::{Arc, OnceLock};

use petasos_call::{Metadata, Status};
use petasos_message::{Message, Msg};

use super::chain::Hooks;
use super::scope::{Scope, Watch, within};
use super::{Direction, Outcome, Side};
use crate::request::CallParts;

/// Shows the messages of one direction.
pub struct Tap {
    watch: Arc<Watch>,
    direction: Direction,
}

impl Tap {
    /// A message on its way.
    ///
    /// # Errors
    /// The call is refused, by this message or by one before it, in whichever direction.
    pub fn message<T: Message>(&self, message: &Msg<T>) -> Result<(), Status> {
        if let Some(refusal) = self.watch.refusal() {
            return Err(refusal);
        }
        let shown = self.watch.message(self.direction, message);
        shown.inspect_err(|refusal| self.watch.refuse(refusal))
    }

    /// What a message was refused with; otherwise who polls is woken when one is.
    pub fn poll_refusal(&self, cx: &mut Context<'_>) -> Poll<Status> {
        self.watch.poll_refusal(cx)
    }

    /// A server's: what the sender has sent beside messages.
    pub fn keep(&self, metadata: Option<&Metadata>, trailers: Option<&Metadata>) {
        self.watch.keep(metadata, trailers);
    }
}

/// The hooks of a client's stream, with its reader.
pub struct ReaderScope(Scope);

impl ReaderScope {
    /// The call is over.
    pub fn ended(&self, metadata: &Metadata, trailers: &Metadata, end: &Result<(), Status>) {
        let result = end.as_ref().copied();
        self.0.watch.ended(&Outcome { result, metadata, trailers });
    }
}

/// A client's stream within interceptors.
pub struct Watched {
    /// The call, as its reader holds it.
    pub scope: ReaderScope,
    /// What sees the messages that are received.
    pub reader: Tap,
    /// What sees the messages that are sent.
    pub writer: Tap,
}

/// Where the hooks of a call are found that has not begun when its only request is there.
pub type Later = Arc<OnceLock<Tap>>;

/// Opens a client's stream: `open` begins what is around nothing. `first` is told of the hooks that
/// the only request has to go through.
pub async fn around_opening<E, F>(
    mut scope: Scope,
    first: Option<Later>,
    open: impl FnOnce(CallParts) -> F,
) -> Result<(E, Watched), Status>
where
    F: Future<Output = Result<E, Status>>,
{
    let entered = scope.enter().await;
    let tap = |direction| Tap { watch: scope.watch.clone(), direction };
    let opened = match entered {
        Ok(beside) => {
            if let Some(first) = first {
                let _ = first.set(tap(Direction::Request));
            }
            open(beside).await
        }
        Err(refused) => Err(refused),
    };
    match opened {
        Ok(ends) => {
            let (reader, writer) = (tap(Direction::Response), tap(Direction::Request));
            Ok((ends, Watched { scope: ReaderScope(scope), reader, writer }))
        }
        Err(status) => {
            scope.watch.failed(&status, &Metadata::new());
            Err(status)
        }
    }
}

/// The hooks of a server's stream.
pub struct HandlerScope(Scope);

impl HandlerScope {
    /// A call of the method that the interceptors are around.
    pub fn new((around, method): Hooks, parts: CallParts) -> HandlerScope {
        HandlerScope(Scope::new(&around, method, Side::Server, parts))
    }

    /// Goes through the interceptors; what is left of the call, with what shows its requests and
    /// its responses.
    ///
    /// # Errors
    /// The call is refused.
    pub async fn enter(&mut self) -> Result<(CallParts, [Tap; 2]), Status> {
        let parts = self.0.enter().await?;
        let tap = |direction| Tap { watch: self.0.watch.clone(), direction };
        Ok((parts, [tap(Direction::Request), tap(Direction::Response)]))
    }

    /// Polls the handler within the span that an interceptor has put beside the call.
    pub async fn within<F: Future>(&self, handler: F) -> F::Output {
        within(&self.0.watch, handler).await
    }

    /// The handler is done. Whatever it makes of a message that was refused, the call fails with
    /// that.
    pub fn handled(&self, result: Result<(), Status>) -> Result<(), Status> {
        let result = self.0.watch.refusal().map_or(result, Err);
        self.0.watch.handled(&result);
        result
    }
}
