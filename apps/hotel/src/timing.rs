//! Where the time of a request goes.
//!
//! Each response carries a `server-timing` entry, as HTTP has it: the time that the service's
//! application took (`app`), and an entry for each call that was made on the way, with its duration
//! at the caller and the application's part of it. What is left of a call's duration is the
//! network's part: everything between two applications. Only durations are told, each measured by
//! one clock, so clocks of different hosts need not agree.
//!
//! The application's time of a service includes that of the services it calls, as the figures of
//! the mRPC paper have it.

use std::fmt::Write;
use std::time::Duration;

use petasos_base::{SystemClock, Time};

use crate::service::Service;

/// The key of the entry, in metadata and in HTTP's headers.
pub const KEY: &str = "server-timing";

/// The most calls that one entry tells.
const CALLS_MAX: usize = 16;
/// The longest entry that is read.
const TEXT_BYTES_MAX: usize = 2048;

/// A call to a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    pub service: Service,
    /// From the request to the response, at the caller.
    pub total: Duration,
    /// The applications' part of that.
    pub app: Duration,
}

impl Call {
    /// What was spent between the applications.
    pub fn network(&self) -> Duration {
        self.total.saturating_sub(self.app)
    }
}

/// What a response tells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Timing {
    pub app: Duration,
    pub calls: Vec<Call>,
}

impl Timing {
    /// Reads an entry; `None` if it is not one of ours.
    pub fn parse(text: &str) -> Option<Timing> {
        if text.len() > TEXT_BYTES_MAX {
            return None;
        }
        let mut metrics = text.split(',').map(str::trim);
        let app = dur(metrics.next()?.strip_prefix("app;dur=")?)?;
        let calls = metrics.map(call).collect::<Option<Vec<_>>>()?;
        (calls.len() <= CALLS_MAX).then_some(Timing { app, calls })
    }

    /// The entry's text.
    pub fn text(&self) -> String {
        let mut text = format!("app;dur={}", Millis(self.app));
        for call in &self.calls {
            let (total, app) = (Millis(call.total), Millis(call.app));
            let written = write!(text, ", {};dur={total};app={app}", call.service.name());
            written.expect("a string takes all text");
        }
        text
    }
}

/// Milliseconds with four digits.
struct Millis(Duration);

impl std::fmt::Display for Millis {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let tenths = self.0.as_nanos() / 100;
        write!(f, "{}.{:04}", tenths / 10_000, tenths % 10_000)
    }
}

fn dur(text: &str) -> Option<Duration> {
    let millis = text.parse::<f64>().ok()?;
    Duration::try_from_secs_f64(millis / 1e3).ok()
}

fn call(text: &str) -> Option<Call> {
    let (name, rest) = text.split_once(";dur=")?;
    let (total, app) = rest.split_once(";app=")?;
    Some(Call { service: Service::named(name)?, total: dur(total)?, app: dur(app)? })
}

/// Measures one request in a service.
#[derive(Debug)]
pub struct Watch {
    clock: SystemClock,
    begun: Time,
    network: Duration,
    calls: Vec<Call>,
}

impl Watch {
    /// Begins now.
    pub fn start() -> Watch {
        let clock = SystemClock::default();
        let begun = clock.now();
        Watch { clock, begun, network: Duration::ZERO, calls: Vec::new() }
    }

    /// The present time.
    pub fn now(&self) -> Time {
        self.clock.now()
    }

    /// A call that was begun at `begun` has ended now, and its response told this. A response that
    /// tells nothing counts as network.
    pub fn called(&mut self, service: Service, begun: Time, told: Option<&str>) {
        let total = self.clock.now() - begun;
        let told = told.and_then(Timing::parse).unwrap_or_default();
        let call = Call { service, total, app: told.app.min(total) };
        self.network += call.network();
        let free = CALLS_MAX - self.calls.len();
        self.calls.extend([call].into_iter().chain(told.calls).take(free));
    }

    /// What has been measured so far.
    pub fn timing(&self) -> Timing {
        let app = (self.clock.now() - self.begun).saturating_sub(self.network);
        Timing { app, calls: self.calls.clone() }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const fn micros(micros: u64) -> Duration {
        Duration::from_micros(micros)
    }

    fn example() -> Timing {
        let call = |service, total, app| Call { service, total: micros(total), app: micros(app) };
        let calls = vec![call(Service::Search, 900, 400), call(Service::Geo, 250, 90)];
        Timing { app: micros(1234), calls }
    }

    #[test]
    fn what_is_told_is_read() {
        let text = example().text();
        let expected = "app;dur=1.2340, search;dur=0.9000;app=0.4000, geo;dur=0.2500;app=0.0900";
        assert_eq!(text, expected);
        assert_eq!(Timing::parse(&text), Some(example()));
        assert_eq!(example().calls[0].network(), micros(500));
    }

    #[test]
    fn what_is_not_ours_is_not_read() {
        let many = "app;dur=1".to_owned() + &", geo;dur=1;app=1".repeat(CALLS_MAX + 1);
        let long = format!("app;dur=1.{}", "0".repeat(TEXT_BYTES_MAX));
        let texts = ["", "app", "db;dur=1", "app;dur=-1", "app;dur=NaN", "app;dur=1e300"];
        for text in texts.into_iter().chain([many.as_str(), &long, "app;dur=1, x;dur=1;app=1"]) {
            assert_eq!(Timing::parse(text), None, "{text}");
        }
    }

    #[test]
    fn the_network_s_part_is_not_the_application_s() {
        let mut watch = Watch::start();
        // Not a later moment: on a busy host the test may have to wait at any place.
        let begun = watch.begun;
        while watch.now() - begun < micros(300) {}
        watch.called(Service::Search, begun, Some("app;dur=0.1, geo;dur=0.05;app=0.02"));
        let timing = watch.timing();
        let names: Vec<_> = timing.calls.iter().map(|call| call.service).collect();
        assert_eq!(names, [Service::Search, Service::Geo]);
        let search = timing.calls[0];
        assert_eq!(search.app, micros(100));
        assert!(search.network() >= micros(200) && timing.app >= micros(100));
        assert!(timing.app + search.network() <= watch.now() - begun);
    }

    #[test]
    fn calls_are_bounded_and_wrong_parts_do_no_harm() {
        let mut watch = Watch::start();
        for _ in 0..CALLS_MAX {
            // More than the call took.
            watch.called(Service::Rate, watch.now(), Some("app;dur=99999, geo;dur=1;app=2"));
        }
        let timing = watch.timing();
        assert_eq!(timing.calls.len(), CALLS_MAX);
        assert!(timing.calls.iter().all(|call| call.network() < micros(10_000_000)));
        assert!(Timing::parse(&timing.text()).is_some());
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in ".{0,200}", tail in "[a-z;=0-9., ]{0,200}") {
            let _ = Timing::parse(&text);
            let _ = Timing::parse(&format!("app;dur={tail}"));
        }
    }
}
