//! When workers get less than they would take: the short hold, slow starts, ejection.

use std::time::Duration;

use petasos_router::{Config, Ejection, Hold};

use super::GroupOptions;

/// What the core calls a setting, and what its option is.
const NAMES: [(&str, &str); 8] = [
    ("`ejection.failures_min`", "`eject_failures`"),
    ("`ejection.failed_percent`", "`eject_percent`"),
    ("`ejection.time`", "`eject_ms`"),
    // There is no option for it.
    ("`ejection.time_max`, ", ""),
    ("`slow_start`", "`slow_start_ms`"),
    ("`hold.time`", "`hold_us`"),
    ("`hold`", "`hold_us`"),
    ("`waiting_age_max`", "`waiting_age_ms`"),
];

/// What the core says of a wrong setting, with the names of options.
pub(super) fn in_names_of_options(refusal: &str) -> String {
    let rename = |text: String, (name, option): &(&str, &str)| text.replace(name, option);
    NAMES.iter().fold(refusal.to_owned(), rename)
}

/// Fewer failures eject nobody.
pub(super) fn default_eject_failures() -> u32 {
    Ejection::default().failures_min
}

/// The time of a first ejection.
pub(super) fn default_eject_ms() -> u64 {
    Ejection::default().time.as_millis() as u64
}

impl GroupOptions {
    /// The core's configuration with this, which it checks.
    pub(super) fn of_care(&self, core: Config) -> Config {
        let some = |time: Duration| Some(time).filter(|time| !time.is_zero());
        let hold = some(Duration::from_micros(self.hold_us));
        let slow_start = some(Duration::from_millis(self.slow_start_ms));
        let ejection = (self.eject_percent > 0).then(|| {
            let (time, rest) = (Duration::from_millis(self.eject_ms), Ejection::default());
            let (failed_percent, failures_min) = (self.eject_percent, self.eject_failures);
            Ejection { failed_percent, failures_min, time, ..rest }
        });
        let hold = hold.map(|time| Hold { time, ..Hold::default() });
        Config { hold, slow_start, ejection, ..core }
    }

    /// Whether all of it is the same.
    pub fn cares_like(&self, other: &GroupOptions) -> bool {
        let of = |it: &GroupOptions| {
            let ejection = (it.eject_percent, it.eject_failures, it.eject_ms);
            (it.hold_us, it.slow_start_ms, ejection)
        };
        of(self) == of(other)
    }
}
