//! Interceptors around streams.
//!
//! A client's call is over when its reader has seen the end or is dropped; a server's when its
//! handler has finished. Each direction has a [`Tap`], which shows messages to the interceptors. If
//! they refuse one, the call ends in both directions.

use core::future::Future;
use core::task::{Context, Poll};
use std::sync::{Arc, OnceLock};

use petasos_call::{Metadata, Status};
use petasos_message::{Message, Msg};

use super::chain::Hooks;
use super::scope::{Scope, Watch, within};
use super::{Direction, Outcome, Side};
use crate::request::CallParts;

/// Shows the messages of one direction to the interceptors.
pub struct Tap {
    watch: Arc<Watch>,
    direction: Direction,
}

impl Tap {
    /// Shows a message to the interceptors.
    ///
    /// # Errors
    /// The call is refused, because of this message or an earlier one, in either direction.
    pub fn message<T: Message>(&self, message: &Msg<T>) -> Result<(), Status> {
        if let Some(refusal) = self.watch.refusal() {
            return Err(refusal);
        }
        let shown = self.watch.message(self.direction, message);
        shown.inspect_err(|refusal| self.watch.refuse(refusal))
    }

    /// The status with which a message was refused; pending while none was.
    pub fn poll_refusal(&self, cx: &mut Context<'_>) -> Poll<Status> {
        self.watch.poll_refusal(cx)
    }

    /// At a server: keeps the metadata that the sender has sent besides messages.
    pub fn keep(&self, metadata: Option<&Metadata>, trailers: Option<&Metadata>) {
        self.watch.keep(metadata, trailers);
    }
}

/// The hooks of a client's stream. Its reader owns them.
pub struct ReaderScope(Scope);

impl ReaderScope {
    /// Reports the outcome of the call.
    pub fn ended(&self, metadata: &Metadata, trailers: &Metadata, end: &Result<(), Status>) {
        let result = end.as_ref().copied();
        self.0.watch.ended(&Outcome { result, metadata, trailers });
    }
}

/// The interceptors' parts of a client's stream.
pub struct Watched {
    /// The call, owned by its reader.
    pub scope: ReaderScope,
    /// Sees the messages that are received.
    pub reader: Tap,
    /// Sees the messages that are sent.
    pub writer: Tap,
}

/// Where a call that has not begun yet will find the hooks for its only request.
pub type Later = Arc<OnceLock<Tap>>;

/// Opens a client's stream: runs the interceptors, then `open`. `first` gets the hooks that the
/// only request has to pass.
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
        Ok(parts) => {
            if let Some(first) = first {
                let _ = first.set(tap(Direction::Request));
            }
            open(parts).await
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
    /// A call of the method around which the interceptors run.
    pub fn new((around, method): Hooks, parts: CallParts) -> HandlerScope {
        HandlerScope(Scope::new(&around, method, Side::Server, parts))
    }

    /// Runs the interceptors. Returns the parts of the call, and the taps of its requests and its
    /// responses.
    ///
    /// # Errors
    /// The call is refused.
    pub async fn enter(&mut self) -> Result<(CallParts, [Tap; 2]), Status> {
        let parts = self.0.enter().await?;
        let tap = |direction| Tap { watch: self.0.watch.clone(), direction };
        Ok((parts, [tap(Direction::Request), tap(Direction::Response)]))
    }

    /// Polls the handler within the span in its call's extensions.
    pub async fn within<F: Future>(&self, handler: F) -> F::Output {
        within(&self.0.watch, handler).await
    }

    /// Reports that the handler has finished. If a message was refused, the call fails with that
    /// status, whatever the handler returned.
    pub fn handled(&self, result: Result<(), Status>) -> Result<(), Status> {
        let result = self.0.watch.refusal().map_or(result, Err);
        self.0.watch.handled(&result);
        result
    }
}
