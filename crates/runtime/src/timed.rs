//! Finds turns in which tasks took too long.
//!
//! At the end of each turn that has polled a task, the clock is read once more. That detects a slow
//! turn, but not which handler caused it. So from the first slow turn on, each handler is timed,
//! until there has been none for `TIMED`: for that time each method is wrapped in a `Timed`.
//! Otherwise timing costs nothing. Runs of one method in a row are timed together, up to
//! `SERIES_MAX`: two readings of the clock take a tenth of the time of a short call.

use core::time::Duration;

use petasos_base::Time;
use petasos_endpoint::{Context, Request};

use super::dispatcher::{Dispatcher, DispatcherParts, Handling, LocalMethod};
use super::task::Task;

/// The longest time that the tasks of a turn should take.
const SLOW: Duration = Duration::from_millis(1);
/// How long handlers are timed after a slow turn.
const TIMED: Duration = Duration::from_secs(60);

/// A method whose handlers are timed.
struct Timed {
    inner: Box<dyn LocalMethod>,
    kind: u32,
}

impl Timed {
    fn run(
        &mut self,
        parts: &mut DispatcherParts,
        run: impl FnOnce(&mut dyn LocalMethod, &mut DispatcherParts),
    ) {
        parts.slow.begin_run(self.kind, &parts.local.clock);
        run(&mut *self.inner, parts);
        parts.slow.end_run(&parts.local.clock);
    }
}

impl LocalMethod for Timed {
    fn start(
        &mut self,
        parts: &mut DispatcherParts,
        cx: &mut Context<Dispatcher>,
        request: &mut Request<'_>,
    ) {
        self.run(parts, |inner, parts| inner.start(parts, cx, request));
    }

    fn is_stream(&self) -> bool {
        self.inner.is_stream()
    }

    fn open(
        &mut self,
        parts: &mut DispatcherParts,
        cx: &mut Context<Dispatcher>,
        handling: Handling,
    ) {
        self.run(parts, |inner, parts| inner.open(parts, cx, handling));
    }

    fn poll(&mut self, parts: &mut DispatcherParts, cx: &mut Context<Dispatcher>, slot: u32) {
        self.run(parts, |inner, parts| inner.poll(parts, cx, slot));
    }

    fn is_waiting(&self, slot: u32) -> bool {
        self.inner.is_waiting(slot)
    }

    fn abandon(&mut self, parts: &mut DispatcherParts, cx: &mut Context<Dispatcher>, slot: u32) {
        self.inner.abandon(parts, cx, slot);
    }

    fn expire(
        &mut self,
        parts: &mut DispatcherParts,
        cx: &mut Context<Dispatcher>,
        slot: u32,
        generation: u32,
    ) {
        self.inner.expire(parts, cx, slot, generation);
    }

    fn cut_off(&mut self, parts: &mut DispatcherParts, cx: &mut Context<Dispatcher>, slot: u32) {
        self.inner.cut_off(parts, cx, slot);
    }

    fn untimed(self: Box<Self>) -> Result<Box<dyn LocalMethod>, Box<dyn LocalMethod>> {
        Ok(self.inner)
    }
}

impl Dispatcher {
    /// Checks whether a turn that began at `began` and polled tasks was slow.
    #[inline(never)]
    pub(crate) fn check_time(&mut self, began: Time) {
        let last = self.parts.local.take_polled();
        let now = self.parts.local.clock.now();
        self.parts.slow.end_series(now);
        let took = now - began;
        if took > SLOW {
            return self.turn_was_slow(last, began, took);
        }
        if let Some(until) = self.parts.slow.timed_until {
            self.parts.slow.slowest = None;
            if began >= until {
                self.time_handlers(false);
                self.parts.slow.timed_until = None;
            }
        }
    }

    #[cold]
    fn turn_was_slow(&mut self, last: Option<Task>, began: Time, took: Duration) {
        let parts = &mut self.parts;
        let was_timed = parts.slow.timed_until.replace(began + took + TIMED).is_some();
        let slowest = parts.slow.slowest.take().filter(|(_, of_it)| *of_it >= took / 2);
        let name = |kind: u32| parts.slow.names.get(kind as usize).cloned();
        let culprit = slowest.and_then(|(kind, of_it)| Some((name(kind)?, of_it)));
        let so_far = parts.local.shared.slow.note(took, culprit.clone());
        // The task that was polled last may have waited for another, so it is only a suspect.
        let suspect = if was_timed { None } else { last.and_then(|task| name(task.kind)) };
        let named = culprit.map(|(name, _)| name).or(suspect);
        parts.slow.log(began, took, named, so_far);
        if !was_timed {
            self.time_handlers(true);
        }
    }

    /// Starts or stops timing handlers.
    #[cold]
    fn time_handlers(&mut self, timed: bool) {
        let methods = core::mem::take(&mut self.methods).into_iter().zip(0..);
        let change = |(method, kind): (Box<dyn LocalMethod>, u32)| match timed {
            true => Box::new(Timed { inner: method, kind }) as Box<dyn LocalMethod>,
            false => method.untimed().unwrap_or_else(|method| method),
        };
        self.methods = methods.map(change).collect();
    }
}
