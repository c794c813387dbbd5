//! Interceptors: code that runs around calls, at servers and clients, over any transport.
//!
//! An [`Interceptor`] sees each call before it is sent or before its handler runs, each message in
//! either direction, and the call's outcome. Add it to a server with
//! [`ServerBuilder::intercept`](crate::ServerBuilder::intercept), to a client with
//! [`ChannelBuilder::intercept`](crate::ChannelBuilder::intercept) or
//! [`Channel::intercept`](crate::Channel::intercept). It applies to all methods of all services,
//! including health and reflection; [`CallInfo`] says which method is called.
//!
//! **Order.** The interceptor that was added first is the outermost. `call` runs from the outermost
//! to the innermost until one refuses the call; the hooks for requests run in the same order. The
//! hooks for responses, and `ended`, run from the innermost to the outermost, so each interceptor
//! sees data in the form in which it passed them on.
//!
//! **How often.** Once per call. A client's interceptors run above retries and hedges: even if a
//! call is sent several times, they see one call, its final outcome, and each message once.
//!
//! **The end.** `ended` runs exactly once for each interceptor whose `call` has run, including the
//! one that refused the call, and for no other. It runs when the call is done, has failed, was
//! refused, was cancelled by either side, or has exceeded its deadline.
//!
//! **What is not seen.** Interceptors do not see requests that the server refuses before a handler
//! could run: because a request is malformed, too many requests wait, or the server shuts down.
//!
//! **Panics.** A hook that panics fails its call with `INTERNAL`; a panic in `ended` has no effect.
//! Other calls are not affected.
//!
//! **Cost.** A server without interceptors pays nothing: its methods are compiled without them. A
//! client without interceptors compares one word per call. With interceptors, a call needs two or
//! three allocations.
//!
//! The crate has two interceptors: [`Metrics`] counts calls. `Tracing` (feature `tracing`) opens
//! spans, and makes calls part of distributed traces.

#[cfg(feature = "tracing")]
#[doc(inline)]
pub use petasos_rpc::intercept::Tracing;
#[doc(inline)]
pub use petasos_rpc::intercept::{
    AnyMessage, BoxFuture, CallInfo, Direction, Extensions, Interceptor, LATENCY_BOUNDS,
    MethodMetrics, Metrics, Outcome, Side, Step,
};
