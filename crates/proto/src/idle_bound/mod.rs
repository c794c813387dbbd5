//! How many requests a worker takes at a time, chosen from its idle time.
//!
//! R2P2 ("The choice of JBSQ(n)"): "servers can even dynamically adjust the value of *n* based on
//! their processing rate and minimal idle time between requests". A router gives a worker at most
//! *n* requests at a time. With too few of them, the worker is idle from its feedback until the
//! router's next request comes, although others wait at the router; with more than are needed to
//! cover that time, requests wait at a busy worker while another may be idle. A worker does not
//! hear whether requests wait at the router, but it can tell: if they do, no idle time is longer
//! than the way to the router and back; if not, some are far longer than others, as gaps between
//! arrivals are. So:
//! - while a window's idle times are of one kind, *n* grows by one;
//! - if the worker was never idle for some windows, or often was for want of requests, *n* shrinks
//!   by one, to find out whether fewer are enough.
//!
//! This is for handlers that compute, on the loop or on so many threads: one that waits for others
//! keeps no thread busy, and its worker should take many. Arrivals as regular as a clock's look
//! like requests that wait, and raise *n* to the limit; that costs nothing before the worker has
//! more to do, and is then taken back within a second or so.
//!
//! This is pure logic: the caller says what happens, and when.

#[cfg(test)]
mod tests;

use core::time::Duration;

use petasos_base::Time;

/// Idle times that a window has.
const GAPS: usize = 64;
/// If no more of them are longer than twice the mean, they are of one kind. (Of gaps between random
/// arrivals nine are, and with a probability of half a per cent no more than these.)
const GAPS_LONG: usize = 2;
/// A window without idle times has so many requests, and lasts so long, at least.
const BUSY_REQUESTS: u64 = 32;
const BUSY_WINDOW: Duration = Duration::from_millis(10);
/// After so many windows without idle times, fewer requests are tried.
const BUSY_WINDOWS: u32 = 4;
/// And after so many whose idle times are those of a worker without requests.
const QUIET_WINDOWS: u32 = 64;
/// Idle times no longer than this, or than a 32nd of a request's time, are the loop's own.
const GAP_LEAST_NS: u64 = 2_000;
const GAP_LEAST_PART: u64 = 32;

/// The number of requests that a worker takes at a time. See the module's documentation.
#[derive(Clone, Debug)]
pub struct IdleBound {
    threads: u32,
    most: u16,
    bound: u16,
    /// Handlers that run.
    running: u32,
    /// When threads became idle that still are, the earliest first: at most `threads`.
    idle_since: Vec<Time>,
    at: Time,
    window: Window,
    busy_windows: u32,
    quiet_windows: u32,
}

/// What has happened since the last decision.
#[derive(Clone, Debug)]
struct Window {
    begun_at: Time,
    /// The time of all threads in which they had something to do.
    busy_ns: u64,
    served: u64,
    /// Idle times, at most [`GAPS`].
    gaps_ns: Vec<u64>,
}

impl IdleBound {
    /// For a worker whose handlers have so many threads (1: the loop), and that takes at most
    /// `most` requests at a time. Both are 1 or more.
    pub fn new(threads: u16, most: u16, now: Time) -> IdleBound {
        let (threads, most) = (threads.max(1), most.max(1));
        IdleBound {
            threads: u32::from(threads),
            most,
            bound: threads.saturating_add(1).min(most),
            running: 0,
            idle_since: Vec::with_capacity(usize::from(threads)),
            at: now,
            window: Window::new(now),
            busy_windows: 0,
            quiet_windows: 0,
        }
    }

    /// How many requests to take at a time.
    pub fn bound(&self) -> u16 {
        self.bound
    }

    /// A handler begins to run.
    pub fn begin(&mut self, now: Time) {
        self.pass(now);
        self.running += 1;
        if self.running > self.threads || self.idle_since.is_empty() {
            return;
        }
        let gap_ns = now.nanos_since(self.idle_since.remove(0));
        self.window.note_gap(gap_ns);
    }

    /// The loop's turn is over, in which so many handlers have ended: as far as is known, now.
    /// Returns another number, if the worker should take that many from now on.
    pub fn turn_over(&mut self, ended: u32, now: Time) -> Option<u16> {
        self.pass(now);
        self.window.served += u64::from(ended);
        self.running = self.running.saturating_sub(ended);
        let idle = self.threads.saturating_sub(self.running) as usize;
        while self.idle_since.len() < idle && ended > 0 {
            self.idle_since.push(now);
        }
        self.decide(now)
    }

    /// Counts the time until `now`.
    fn pass(&mut self, now: Time) {
        let busy = u64::from(self.running.min(self.threads));
        self.window.busy_ns += busy * now.nanos_since(self.at);
        self.at = now;
    }

    fn decide(&mut self, now: Time) -> Option<u16> {
        let window = &self.window;
        let was_busy = window.gaps_ns.is_empty()
            && window.served >= BUSY_REQUESTS
            && now >= window.begun_at + BUSY_WINDOW;
        if window.gaps_ns.len() < GAPS && !was_busy {
            return None;
        }
        let before = self.bound;
        self.bound = match () {
            () if was_busy => self.fewer_after(BUSY_WINDOWS, |it| &mut it.busy_windows),
            () if window.is_of_one_kind() => self.more(),
            () => self.fewer_after(QUIET_WINDOWS, |it| &mut it.quiet_windows),
        };
        self.window.clear(now);
        (self.bound != before).then_some(self.bound)
    }

    fn more(&mut self) -> u16 {
        (self.busy_windows, self.quiet_windows) = (0, 0);
        self.bound.saturating_add(1).min(self.most)
    }

    /// Counts a window. One fewer after so many of them, but one for each thread.
    fn fewer_after(&mut self, windows: u32, count: impl Fn(&mut Self) -> &mut u32) -> u16 {
        let counted = count(self);
        *counted += 1;
        if *counted < windows {
            return self.bound;
        }
        *counted = 0;
        let least = u16::try_from(self.threads).unwrap_or(u16::MAX).min(self.most);
        self.bound.saturating_sub(1).max(least)
    }
}

impl Window {
    fn new(now: Time) -> Window {
        Window { begun_at: now, busy_ns: 0, served: 0, gaps_ns: Vec::with_capacity(GAPS) }
    }

    fn clear(&mut self, now: Time) {
        self.gaps_ns.clear();
        (self.begun_at, self.busy_ns, self.served) = (now, 0, 0);
    }

    fn note_gap(&mut self, gap_ns: u64) {
        let least_ns = (self.busy_ns / self.served.max(1) / GAP_LEAST_PART).max(GAP_LEAST_NS);
        if gap_ns > least_ns && self.gaps_ns.len() < GAPS {
            self.gaps_ns.push(gap_ns);
        }
    }

    /// Whether idle times are those of requests that wait at the router.
    fn is_of_one_kind(&self) -> bool {
        let mean_ns = self.gaps_ns.iter().sum::<u64>() / self.gaps_ns.len().max(1) as u64;
        self.gaps_ns.iter().filter(|gap| **gap > 2 * mean_ns).count() <= GAPS_LONG
    }
}
