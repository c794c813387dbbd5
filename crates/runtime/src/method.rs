//! What a loop knows of the methods that it serves.

use petasos_endpoint::{Context, Request as Arrived};

use super::dispatcher::{Dispatcher, DispatcherParts};
use super::streams::Handling;

/// A method in a loop: the one virtual call of a request.
pub trait LocalMethod {
    /// Runs the handler of a request as far as it goes.
    fn start(
        &mut self,
        parts: &mut DispatcherParts,
        cx: &mut Context<Dispatcher>,
        request: &mut Arrived<'_>,
    );
    /// Whether its requests are exchanges of streams.
    fn is_stream(&self) -> bool {
        false
    }
    /// Starts the handler of a stream.
    fn open(&mut self, _: &mut DispatcherParts, _: &mut Context<Dispatcher>, _: Handling) {
        unreachable!("streams begin in methods with streams");
    }
    /// Goes on with the handler in `slot`, if there is one.
    fn poll(&mut self, parts: &mut DispatcherParts, cx: &mut Context<Dispatcher>, slot: u32);
    /// Whether a handler waits in `slot`.
    fn is_waiting(&self, slot: u32) -> bool;
    /// Drops the handler in `slot`: nobody wants its answer (R11).
    fn abandon(&mut self, parts: &mut DispatcherParts, cx: &mut Context<Dispatcher>, slot: u32);
    /// Drops the handler in `slot`, if it is still that of this generation: its time is up (R10).
    fn expire(
        &mut self,
        parts: &mut DispatcherParts,
        cx: &mut Context<Dispatcher>,
        slot: u32,
        generation: u32,
    );
    /// Drops the handler in `slot`, whose server ends, and answers so if that is possible.
    fn cut_off(&mut self, parts: &mut DispatcherParts, cx: &mut Context<Dispatcher>, slot: u32) {
        self.abandon(parts, cx, slot);
    }
    /// The method within, if this times it; otherwise this.
    fn untimed(self: Box<Self>) -> Result<Box<dyn LocalMethod>, Box<dyn LocalMethod>>;
}
