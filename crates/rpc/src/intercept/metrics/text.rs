//! Metrics in Prometheus' text format.

use core::fmt::{self, Write};
use core::time::Duration;

use petasos_call::Code;

use super::{LATENCY_BOUNDS, MethodMetrics, Side};

/// A counter that each method has: its name, its help text, and its value.
type Count = (&'static str, &'static str, fn(&MethodMetrics) -> u64);

const COUNTS: [Count; 3] = [
    ("started_total", "Calls that have begun.", |of| of.started),
    ("msg_received_total", "Messages that were received.", |of| of.received),
    ("msg_sent_total", "Messages that were sent.", |of| of.sent),
];
const BYTES: [Count; 2] = [
    ("msg_received_bytes_total", "Bytes of received messages.", |of| of.received_bytes),
    ("msg_sent_bytes_total", "Bytes of sent messages.", |of| of.sent_bytes),
];

pub(super) fn text(all: &[MethodMetrics], with_bytes: bool) -> String {
    let mut out = String::new();
    for (side, name) in [(Side::Server, "server"), (Side::Client, "client")] {
        let of_side: Vec<&MethodMetrics> = all.iter().filter(|of| of.side == side).collect();
        if !of_side.is_empty() {
            let text = Text { out: &mut out, side: name, methods: &of_side };
            text.write(with_bytes).expect("strings take all that is written");
        }
    }
    out
}

/// The text for one side.
struct Text<'a> {
    out: &'a mut String,
    side: &'static str,
    methods: &'a [&'a MethodMetrics],
}

impl Text<'_> {
    fn write(mut self, with_bytes: bool) -> fmt::Result {
        let bytes = if with_bytes { &BYTES[..] } else { &[] };
        for (name, help, get) in COUNTS.iter().chain(bytes) {
            self.head(name, "counter", help)?;
            for of in self.methods {
                self.line(name, of, "", get(of))?;
            }
        }
        self.handled()?;
        self.latency()
    }

    fn handled(&mut self) -> fmt::Result {
        let name = "handled_total";
        self.head(name, "counter", "Calls that are over, by code.")?;
        for of in self.methods {
            for (code, count) in Code::ALL.iter().zip(of.handled).filter(|(_, count)| *count > 0) {
                self.line(name, of, &format!(",code=\"{code}\""), count)?;
            }
        }
        Ok(())
    }

    fn latency(&mut self) -> fmt::Result {
        let name = "handling_seconds";
        self.head(name, "histogram", "How long calls took.")?;
        for of in self.methods {
            let mut below = 0;
            let bounds = LATENCY_BOUNDS.iter().map(|bound| seconds(*bound).to_string());
            for (bound, count) in bounds.chain(["+Inf".to_owned()]).zip(of.latency) {
                below += count;
                self.line("handling_seconds_bucket", of, &format!(",le=\"{bound}\""), below)?;
            }
            self.line("handling_seconds_sum", of, "", seconds(of.latency_sum))?;
            self.line("handling_seconds_count", of, "", below)?;
        }
        Ok(())
    }

    fn head(&mut self, name: &str, kind: &str, help: &str) -> fmt::Result {
        let side = self.side;
        writeln!(self.out, "# HELP rpc_{side}_{name} {help}")?;
        writeln!(self.out, "# TYPE rpc_{side}_{name} {kind}")
    }

    /// Names of services and methods consist of identifiers and dots, so nothing needs escaping.
    fn line(
        &mut self,
        name: &str,
        of: &MethodMetrics,
        label: &str,
        value: impl fmt::Display,
    ) -> fmt::Result {
        let (side, service, method) = (self.side, &of.service, &of.method);
        let labels = format!("service=\"{service}\",method=\"{method}\"{label}");
        writeln!(self.out, "rpc_{side}_{name}{{{labels}}} {value}")
    }
}

fn seconds(of: Duration) -> f64 {
    of.as_secs_f64()
}
