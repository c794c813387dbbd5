//! Interceptors: what runs around calls, at servers and clients, over any transport.
//!
//! An [`Interceptor`] sees each call before it leaves or before its handler runs, each message in
//! either direction, and how the call ended. A server's are given with
//! [`ServerBuilder::intercept`](crate::ServerBuilder::intercept), a client's with
//! [`ChannelBuilder::intercept`](crate::ChannelBuilder::intercept) or
//! [`Channel::intercept`](crate::Channel::intercept). All methods of all services run through them,
//! health and reflection too; [`CallInfo`] says which one it is.
//!
//! **Order.** The first that was added is the outermost. `call` runs from the outermost to the
//! innermost until one refuses; so do the hooks of requests. Those of responses, and `ended`, run
//! from the innermost to the outermost, so what one has put in order is found by it as it left it.
//!
//! **How often.** Once per call. A client's run above everything that repeats: however often a call
//! is sent again or elsewhere, they see one call, its last outcome, and each message once.
//!
//! **The end.** `ended` runs exactly once for each interceptor whose `call` has run, the one that
//! has refused included, and for no other: when the call is done, has failed, was refused, was
//! given up by either side, or ran out of time.
//!
//! **What is not seen.** A request that its server refuses before a handler could run, since it is
//! malformed, too many wait, or the server ends, is no call to its interceptors.
//!
//! **Panics.** A hook that panics refuses its call with `INTERNAL`; in `ended` it changes nothing.
//! No other call notices.
//!
//! **What it costs.** Nothing at a server without interceptors: its methods are made without them.
//! A client compares one word per call. With interceptors a call costs two allocations or three.
//!
//! Two interceptors come with the crate: [`Metrics`] counts, and `Tracing` (feature `tracing`)
//! opens spans and gives calls their place in a distributed trace.

#[cfg(feature = "tracing")]
#[doc(inline)]
pub use petasos_rpc::intercept::Tracing;
#[doc(inline)]
pub use petasos_rpc::intercept::{
    AnyMessage, BoxFuture, CallInfo, Direction, Extensions, Interceptor, LATENCY_BOUNDS,
    MethodMetrics, Metrics, Outcome, Side, Step,
};
