//! What was measured, and its report.

use std::collections::BTreeMap;
use std::time::Duration;

use petasos_report::{Column, Table, duration_us};
use serde_json::{Map, Value, json};

use crate::service::Service;
use crate::timing::Timing;

/// Durations, in microseconds.
#[derive(Clone, Debug, Default)]
pub struct Samples(Vec<f64>);

impl Samples {
    fn add(&mut self, duration: Duration) {
        self.0.push(duration.as_secs_f64() * 1e6);
    }

    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Their mean; 0 without any.
    pub fn mean_us(&self) -> f64 {
        self.0.iter().sum::<f64>() / self.0.len().max(1) as f64
    }

    /// The least that is not below this share of them; 0 without any.
    pub fn quantile_us(&self, quantile: f64) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let rank = (quantile * sorted.len() as f64).ceil() as usize;
        sorted.get(rank.max(1) - 1).copied().unwrap_or(0.0)
    }

    fn json(&self) -> Value {
        let quantile = |quantile| self.quantile_us(quantile);
        json!({
            "mean_us": self.mean_us(),
            "p50_us": quantile(0.5),
            "p90_us": quantile(0.9),
            "p99_us": quantile(0.99),
            "max_us": quantile(1.0),
        })
    }
}

/// The calls of one service, or the requests of the frontend.
#[derive(Clone, Debug, Default)]
pub struct Times {
    pub total: Samples,
    /// What applications took of it, those of further services included.
    pub app: Samples,
    /// What was between applications.
    pub network: Samples,
}

impl Times {
    fn add(&mut self, total: Duration, app: Duration) {
        self.total.add(total);
        self.app.add(app);
        self.network.add(total.saturating_sub(app));
    }

    fn merge(&mut self, other: &Times) {
        self.total.0.extend(&other.total.0);
        self.app.0.extend(&other.app.0);
        self.network.0.extend(&other.network.0);
    }
}

/// The name of the frontend in reports.
pub const FRONTEND: &str = "frontend";

/// What was measured in a time.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// The requests that were answered, from when they were to be sent.
    pub frontend: Times,
    pub services: BTreeMap<Service, Times>,
    /// How much later than they were to be requests were sent.
    pub late: Samples,
    pub failed: u64,
    /// Why the first one failed.
    pub failure: Option<String>,
}

impl Tally {
    /// A request was answered.
    pub fn answered(&mut self, total: Duration, late: Duration, timing: Option<&Timing>) {
        let app = timing.map_or(Duration::ZERO, |timing| timing.app);
        self.frontend.add(total, app.min(total));
        self.late.add(late);
        for call in timing.map_or(&[][..], |timing| &timing.calls) {
            self.services.entry(call.service).or_default().add(call.total, call.app);
        }
    }

    /// A request has failed.
    pub fn failed(&mut self, why: String) {
        self.failed += 1;
        self.failure.get_or_insert(why);
    }

    /// Adds what was measured in another time.
    pub fn merge(&mut self, other: &Tally) {
        self.frontend.merge(&other.frontend);
        for (service, times) in &other.services {
            self.services.entry(*service).or_default().merge(times);
        }
        self.late.0.extend(&other.late.0);
        self.failed += other.failed;
        self.failure = self.failure.take().or_else(|| other.failure.clone());
    }

    /// The frontend and the services that were called, by name.
    pub fn parts(&self) -> impl Iterator<Item = (&'static str, &Times)> {
        let services = self.services.iter().map(|(service, times)| (service.name(), times));
        [(FRONTEND, &self.frontend)].into_iter().chain(services)
    }

    pub fn json(&self) -> Value {
        let part = |(name, times): (&str, &Times)| {
            let Times { total, app, network } = times;
            let of = json!({
                "count": total.count(),
                "total": total.json(),
                "app": app.json(),
                "network": network.json(),
            });
            (name.to_owned(), of)
        };
        json!({
            "answered": self.frontend.total.count(),
            "failed": self.failed,
            "failure": self.failure,
            "late": self.late.json(),
            "parts": self.parts().map(part).collect::<Map<_, _>>(),
        })
    }

    /// Prints the table for people, and what has failed, which the times leave out.
    ///
    /// # Errors
    /// The system's.
    pub fn print(&self) -> std::io::Result<()> {
        self.table().print()?;
        if let Some(failure) = &self.failure {
            println!("{} failed, the first: {failure}", self.failed);
        }
        Ok(())
    }

    fn table(&self) -> Table {
        let mut table = Table::new([
            Column::text("Service"),
            Column::number("Calls", ""),
            Column::number("Mean", ""),
            Column::number("application", ""),
            Column::number("network", ""),
            Column::number("p99", ""),
            Column::number("application", ""),
            Column::number("network", ""),
        ]);
        for (name, Times { total, app, network }) in self.parts() {
            let all = [total, app, network];
            let means = all.map(|samples| duration_us(samples.mean_us()));
            let tails = all.map(|samples| duration_us(samples.quantile_us(0.99)));
            let head = [name.to_owned(), total.count().to_string()];
            let cells: Vec<String> = head.into_iter().chain(means).chain(tails).collect();
            table.push(cells);
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timing::Call;

    const fn micros(micros: u64) -> Duration {
        Duration::from_micros(micros)
    }

    #[test]
    fn quantiles_and_means_are_exact() {
        let mut samples = Samples::default();
        assert_eq!((samples.mean_us(), samples.quantile_us(0.99)), (0.0, 0.0));
        (1..=100).for_each(|number| samples.add(micros(number)));
        assert!((samples.mean_us() - 50.5).abs() < 1e-9);
        for (quantile, expected) in [(0.5, 50.0), (0.99, 99.0), (1.0, 100.0), (0.0, 1.0)] {
            assert!((samples.quantile_us(quantile) - expected).abs() < 1e-6);
        }
    }

    #[test]
    fn times_are_divided() {
        let call = Call { service: Service::Geo, total: micros(40), app: micros(10) };
        let timing = Timing { app: micros(60), calls: vec![call] };
        let mut tally = Tally::default();
        tally.answered(micros(100), micros(1), Some(&timing));
        let mut other = Tally::default();
        other.answered(micros(300), micros(1), None);
        other.failed("503".to_owned());
        tally.merge(&other);
        let json = tally.json();
        assert_eq!((json["answered"].as_u64(), json["failed"].as_u64()), (Some(2), Some(1)));
        let mean = |part: &str, of: &str| {
            let mean = json["parts"][part][of]["mean_us"].as_f64().expect("it is a number");
            mean.round()
        };
        let frontend = ["total", "app", "network"].map(|of| mean(FRONTEND, of));
        assert_eq!(frontend, [200.0, 30.0, 170.0]);
        assert_eq!(["total", "app", "network"].map(|of| mean("geo", of)), [40.0, 10.0, 30.0]);
        assert_eq!(json["failure"], "503");
    }
}
