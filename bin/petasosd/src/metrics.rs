//! What is counted, in Prometheus' text format, version 0.0.4.

use std::fmt;

use petasos::Code;
use petasos::grpc::GrpcStats;
use petasos::untyped::{Alive, Service};
use petasos_base::log_linear_highest;
use petasos_operator::{Escaped, Page};
use petasos_service::{Row, Sums, Way};

use crate::reports::{PolicyValues, Reported};
use crate::stats::{ApplicationStats, Snapshot};

/// Bounds of the latency histograms: powers of two of a nanosecond, at which buckets end, from
/// 1.024 µs to 17 s.
const BOUND_BITS: std::ops::RangeInclusive<u32> = 10..=34;

/// A metric of each row: its name, its help text, and its value.
type OfRow = (&'static str, &'static str, &'static str, fn(&Sums) -> u64);

const OF_ROWS: [OfRow; 4] = [
    ("calls_begun_total", "counter", "Calls that have begun.", |sums| sums.begun),
    ("calls_under_way", "gauge", "Calls that are not over.", Sums::under_way),
    (
        "request_bytes_total",
        "counter",
        "Bytes of requests that have passed the policies.",
        |sums| sums.request_bytes,
    ),
    (
        "response_bytes_total",
        "counter",
        "Bytes of responses that have passed the policies.",
        |sums| sums.response_bytes,
    ),
];

/// The page.
pub fn text(snapshot: &Snapshot, policies: &[PolicyValues]) -> String {
    let mut metrics = Metrics { page: Page::default(), snapshot };
    let written = metrics.write().and_then(|()| metrics.policies(policies));
    written.expect("strings take all that is written");
    let mut text = metrics.page.into_text();
    text += &petasos_buf::memory::usage().to_prometheus();
    text += &snapshot.grpc.as_ref().map(GrpcStats::to_prometheus).unwrap_or_default();
    text
}

struct Metrics<'a> {
    page: Page,
    snapshot: &'a Snapshot,
}

impl Metrics<'_> {
    fn write(&mut self) -> fmt::Result {
        self.service()?;
        self.applications()?;
        for (name, kind, help, value) in OF_ROWS {
            self.page.head(name, kind, help)?;
            self.each_row(|of, labels, row| of.page.line(name, labels, "", value(&row.sums)))?;
        }
        let name = "calls_ended_total";
        self.page.head(name, "counter", "Calls that are over, by code.")?;
        self.each_row(|of, labels, row| of.ended(name, labels, &row.sums))?;
        let help = "From a request to the end of which its caller or callee is told.";
        self.page.head("call_latency_seconds", "histogram", help)?;
        self.each_row(Metrics::latency)?;
        self.engines()?;
        self.runtimes()?;
        self.copies()?;
        self.gone()
    }

    fn service(&mut self) -> fmt::Result {
        self.page.head("applications", "gauge", "Applications that are attached.")?;
        self.page.line("applications", "", "", self.snapshot.applications.len())?;
        let name = "methods_left_out";
        self.page.head(
            name,
            "gauge",
            "Methods that this page has together, as (others), since there are too many.",
        )?;
        self.page.line(name, "", "", self.snapshot.rows_left_out)?;
        let Alive { services, bytes, .. } = Service::alive();
        let name = "services_described";
        self.page.head(name, "gauge", "Services that are called between hosts; at most 65,536.")?;
        self.page.line(name, "", "", services)?;
        let name = "services_described_bytes";
        self.page.head(name, "gauge", "Bytes of their schemas and names; at most 64 MiB.")?;
        self.page.line(name, "", "", bytes)
    }

    fn applications(&mut self) -> fmt::Result {
        type OfApplication = fn(&ApplicationStats) -> u64;
        let all: [(&str, &str, &str, OfApplication); 3] = [
            (
                "application_calls",
                "gauge",
                "Calls of an application that are not over, those among them that policies hold.",
                |application| application.calls as u64,
            ),
            (
                "application_held_bytes",
                "gauge",
                "Bytes of messages that are held for an application.",
                |application| application.held_bytes as u64,
            ),
            (
                "application_requests_refused_total",
                "counter",
                "Requests of an application that did not become calls.",
                |application| application.refused,
            ),
        ];
        let snapshot = self.snapshot;
        for (name, kind, help, value) in all {
            self.page.head(name, kind, help)?;
            for application in &snapshot.applications {
                self.page.line(name, &labels(application), "", value(application))?;
            }
        }
        Ok(())
    }

    fn ended(&mut self, name: &str, labels: &str, sums: &Sums) -> fmt::Result {
        for (code, calls) in Code::ALL.iter().zip(sums.ended).filter(|(_, calls)| *calls > 0) {
            self.page.line(name, labels, &format!("code=\"{}\"", code.name()), calls)?;
        }
        Ok(())
    }

    fn latency(&mut self, labels: &str, row: &Row) -> fmt::Result {
        let name = "call_latency_seconds_bucket";
        let (counts, mut below, mut next) = (row.latency.counts(), 0, 0);
        for bits in BOUND_BITS {
            let bound = 1_u64 << bits;
            // What takes as long as the bound counts beyond it: buckets end just before.
            while counts.get(next).is_some_and(|(index, _)| log_linear_highest(*index) < bound) {
                below += counts[next].1;
                next += 1;
            }
            self.page.line(name, labels, &format!("le=\"{}\"", bound as f64 / 1e9), below)?;
        }
        let all: u64 = counts.iter().map(|(_, calls)| calls).sum();
        self.page.line(name, labels, "le=\"+Inf\"", all)?;
        let seconds = row.sums.latency_ns as f64 / 1e9;
        self.page.line("call_latency_seconds_sum", labels, "", seconds)?;
        self.page.line("call_latency_seconds_count", labels, "", all)
    }

    fn engines(&mut self) -> fmt::Result {
        type OfEngine = fn(&petasos_engine::EngineCounts) -> f64;
        let all: [(&str, &str, OfEngine); 4] = [
            ("engine_items_total", "Items of calls that an engine took.", |of| of.items as f64),
            ("engine_calls_ended_total", "Calls that an engine has ended.", |of| of.ended as f64),
            (
                "engine_sampled_seconds_total",
                "How long an engine worked on the items that were measured.",
                |of| of.sampled_ns as f64 / 1e9,
            ),
            ("engine_sampled_items_total", "Items of an engine that were measured.", |of| {
                of.sampled_items as f64
            }),
        ];
        let snapshot = self.snapshot;
        for (name, help, value) in all {
            self.page.head(name, "counter", help)?;
            for application in &snapshot.applications {
                for (place, (kind, counts)) in application.engines.iter().enumerate() {
                    let more = format!("place=\"{place}\",kind=\"{}\"", Escaped(kind));
                    self.page.line(name, &labels(application), &more, value(counts))?;
                }
            }
        }
        Ok(())
    }

    fn policies(&mut self, policies: &[PolicyValues]) -> fmt::Result {
        let name = "policy_report";
        self.page.head(name, "gauge", "A value that the policy of a rule reports of itself.")?;
        for PolicyValues { rule, application, kind, values, .. } in policies {
            let (application, kind) = (Escaped(application), Escaped(kind));
            let labels = format!("rule=\"{rule}\",application=\"{application}\",kind=\"{kind}\"");
            for Reported { name: of, of: about, value } in values {
                let about = Escaped(about.as_deref().unwrap_or_default());
                let more = format!("value=\"{}\",of=\"{about}\"", Escaped(of));
                self.page.line(name, &labels, &more, value)?;
            }
        }
        let name = "policy_values_left_out";
        self.page.head(
            name,
            "gauge",
            "Values of reports that this page leaves out: they are too many.",
        )?;
        self.page.line(name, "", "", policies.iter().map(|policy| policy.left_out).sum::<usize>())
    }

    /// Copies of requests, which policies of the kind `mirror` want.
    fn copies(&mut self) -> fmt::Result {
        let name = "copies_total";
        self.page.head(
            name,
            "counter",
            "Copies of requests that policies wanted, and were sent or not.",
        )?;
        for runtime in &self.snapshot.runtimes {
            let labels = format!("runtime=\"{}\"", runtime.id);
            self.page.line(name, &labels, "result=\"sent\"", runtime.copies.sent)?;
            self.page.line(name, &labels, "result=\"dropped\"", runtime.copies.dropped)?;
        }
        Ok(())
    }

    fn runtimes(&mut self) -> fmt::Result {
        let runtimes = &self.snapshot.runtimes;
        let name = "runtime_applications";
        self.page.head(name, "gauge", "Applications that a thread of the service runs.")?;
        for runtime in runtimes {
            self.page.line(
                name,
                &format!("runtime=\"{}\"", runtime.id),
                "",
                runtime.applications,
            )?;
        }
        let name = "runtime_processor_seconds_total";
        self.page.head(name, "counter", "How long a thread of the service has had a processor.")?;
        for runtime in runtimes {
            let Some(ns) = runtime.processor_ns else { continue };
            self.page.line(name, &format!("runtime=\"{}\"", runtime.id), "", ns as f64 / 1e9)?;
        }
        Ok(())
    }

    fn gone(&mut self) -> fmt::Result {
        let Snapshot { gone, .. } = self.snapshot;
        let name = "gone_applications_total";
        self.page.head(name, "counter", "Applications that have gone.")?;
        self.page.line(name, "", "", gone.applications)?;
        let name = "gone_calls_ended_total";
        self.page.head(name, "counter", "Calls of applications that have gone, by code.")?;
        for way in Way::ALL {
            self.ended(name, &format!("way=\"{}\"", way.name()), gone.sums(way))?;
        }
        Ok(())
    }

    fn each_row(&mut self, write: impl Fn(&mut Self, &str, &Row) -> fmt::Result) -> fmt::Result {
        let snapshot = self.snapshot;
        for application in &snapshot.applications {
            for row in &application.rows {
                let method = row.method.as_deref().unwrap_or("(others)");
                let (method, way) = (Escaped(method), row.way.name());
                let labels = labels(application);
                write(self, &format!("{labels},method=\"{method}\",way=\"{way}\""), row)?;
            }
        }
        Ok(())
    }
}

/// Names are chosen by applications, and numbers by the service: only both say who is meant.
fn labels(application: &ApplicationStats) -> String {
    format!("application=\"{}\",number=\"{}\"", Escaped(&application.name), application.number.0)
}
