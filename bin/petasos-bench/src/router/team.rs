//! A contender's processes, its target and its curve.

use petasos_load::{Outcome, Target};

use super::args::RouterArgs;
use super::curves::{Curve, Sample};
use super::open_loop::{Arrived, Point, point, quantile};
use super::side::{Contender, Side};
use crate::error::BenchError;

/// How many workers each contender has.
pub const WORKERS: usize = 16;
/// The objective: a 99th percentile of so many mean service times.
pub const OBJECTIVE: f64 = 15.0;
/// Where contenders are compared.
pub const COMPARED_LOAD: f64 = 0.8;
/// Beyond so many objectives, higher loads are not measured.
const GIVE_UP: f64 = 2.0;
/// The most requests that are outstanding at once. A contender with more has no tail to measure.
const OUTSTANDING_MAX: u32 = 1024;
/// How many requests per second tell what the ways take, and for how many seconds.
const CALIBRATION_RATE: f64 = 100.0;
const CALIBRATION_S: f64 = 3.0;
const QUICK_CALIBRATION_S: f64 = 0.3;

/// How a contender's client connects, for so many requests at once: those that sleep so long, or
/// with 0 as long as the worker says.
pub type Connect<'a> = Box<dyn Fn(&Side<'_>, u64, u32) -> Result<Box<dyn Target>, BenchError> + 'a>;

/// A contender that can be called.
pub struct Team<'a> {
    mean_us: f64,
    connect: Connect<'a>,
    calibration_s: f64,
    pub curve: Curve,
    // Ends before those that it calls.
    target: Option<Box<dyn Target>>,
    side: Side<'a>,
}

impl<'a> Team<'a> {
    /// Connects to a contender's processes.
    ///
    /// # Errors
    /// If they do not answer.
    pub fn new(
        args: &RouterArgs,
        loads: &[f64],
        (contender, side): (Contender, Side<'a>),
        connect: Connect<'a>,
    ) -> Result<Team<'a>, BenchError> {
        let (mean_us, curve) = (args.mean_us as f64, Curve::new(contender, loads));
        let calibration_s = if args.quick { QUICK_CALIBRATION_S } else { CALIBRATION_S };
        let mut team = Team { mean_us, connect, calibration_s, curve, target: None, side };
        team.connect(0)?;
        Ok(team)
    }

    /// Connects anew, for requests that sleep so long, or with 0 as long as the worker says.
    fn connect(&mut self, sleep_ns: u64) -> Result<(), BenchError> {
        // What was outstanding is of no use.
        self.target = None;
        self.target = Some((self.connect)(&self.side, sleep_ns, OUTSTANDING_MAX)?);
        Ok(())
    }

    /// Measures what all ways take together, beside what workers sleep: with requests that do not
    /// wait for each other.
    ///
    /// # Errors
    /// If the target is lost.
    pub fn calibrate(&mut self, arrived: &mut Arrived) -> Result<(), BenchError> {
        let sleep_us = self.mean_us;
        self.connect((sleep_us * 1000.0) as u64)?;
        let (rate, seconds) = (CALIBRATION_RATE, self.calibration_s);
        let target = self.target.as_mut().expect("it was connected");
        if let Point::Measured(outcome) = point(&mut **target, rate, seconds, arrived)? {
            self.curve.ways_us = quantile(&outcome, 0.5).value_us - sleep_us;
        }
        self.connect(0)
    }

    /// Measures a point of the curve, unless it was given up.
    ///
    /// # Errors
    /// If the target is lost.
    pub fn measure(
        &mut self,
        index: usize,
        load: f64,
        seconds: f64,
        arrived: &mut Arrived,
    ) -> Result<Option<Sample>, BenchError> {
        if self.curve.is_given_up(index) {
            return Ok(None);
        }
        let rate = load * WORKERS as f64 * 1e6 / self.mean_us;
        let (ran, cpu_s) = (self.side.ran()?, self.cpu_s());
        let target = self.target.as_mut().expect("it was connected");
        match point(&mut **target, rate, seconds, arrived)? {
            Point::Measured(outcome) => {
                let cpu_s = self.cpu_s() - cpu_s;
                let ran = self.side.ran()? - ran;
                let sample = self.sample(&outcome, cpu_s, ran);
                if sample.p99_us > GIVE_UP * OBJECTIVE * self.mean_us {
                    self.curve.give_up_above(index);
                }
                Ok(Some(sample))
            }
            Point::Saturated => {
                self.curve.give_up_from(index);
                self.connect(0)?;
                Ok(None)
            }
            Point::Refused(reason) => {
                eprintln!(
                    "petasos bench: {} at {load} does not count: {reason}",
                    self.curve.name()
                );
                Ok(None)
            }
        }
    }

    fn sample(&self, outcome: &Outcome, cpu_s: f64, ran: u64) -> Sample {
        let p99 = quantile(outcome, 0.99);
        Sample {
            p50_us: quantile(outcome, 0.5).value_us,
            p99_us: p99.value_us,
            stderr_us: p99.stderr_us,
            ops_per_s: outcome.ops_per_s,
            cpu_s_per_million: cpu_s * 1e6 / ran.max(1) as f64,
        }
    }

    /// Processor time of the workers, and of who is between.
    fn cpu_s(&self) -> f64 {
        self.side.workers_cpu_s() + self.side.between_cpu_s().unwrap_or_default()
    }

    /// What was measured. Its processes end.
    pub fn into_curve(self) -> Curve {
        self.curve
    }
}

/// Measures all loads, one contender after another at each, for as many rounds as are asked for.
///
/// # Errors
/// If a target is lost.
pub fn measure(
    args: &RouterArgs,
    what: &str,
    loads: &[f64],
    seconds: f64,
    teams: &mut [Team<'_>],
    arrived: &mut Arrived,
) -> Result<(), BenchError> {
    for round in 1..=args.rounds() {
        for (index, load) in loads.iter().enumerate() {
            eprintln!("petasos bench: {what}, round {round} of {}, load {load}", args.rounds());
            let mut samples: Vec<(usize, Sample)> = Vec::new();
            for (at, team) in teams.iter_mut().enumerate() {
                if let Some(sample) = team.measure(index, *load, seconds, arrived)? {
                    samples.push((at, sample));
                }
            }
            samples.into_iter().for_each(|(at, sample)| teams[at].curve.add(index, sample));
        }
    }
    Ok(())
}
