//! Measures one load, several, or searches for the highest.

use core::time::Duration;

use petasos_base::Clock;
use petasos_cli::failed::Failed;
use petasos_load::{
    Arrivals, Highest, Limits, Outcome, Plan, Refusal, RunError, Schedule, ScheduleError, Target,
    highest_load, probe, run,
};
use petasos_report::{Progress, duration_us, significant};

use super::args::{LoadArgs, Rates};
use super::outcome::{Objective, Point, Results};
use super::target::Connector;

/// Requests that warm up come at other random times.
const WARM_UP_SEED: u64 = 0x77_6172_6d75_7021;

/// Measures what `args` say.
///
/// # Errors
/// If nothing can be reported.
pub fn measure(args: &LoadArgs) -> Result<Results<'_>, Failed> {
    let (arrivals, limits) = (args.arrivals()?, args.limits()?);
    let loads = Loads::of(args);
    // What cannot be sent is found out before anything is connected.
    loads.check(|load| plan(args, &arrivals, load).map(drop))?;
    let connector = Connector::new(args)?;
    let mut bench = Bench {
        args,
        arrivals,
        limits,
        clock: Clock::system(),
        connector: &connector,
        target: None,
        points: Vec::new(),
    };
    let objective = bench.measure(&loads)?;
    let mut points = bench.points;
    points.sort_by(|one, other| one.load.total_cmp(&other.load));
    let name = args.name.clone().unwrap_or_else(|| connector.name.to_owned());
    Ok(Results { args, name, points, objective })
}

/// Loads to measure; none is that of a trace as it was recorded.
enum Loads {
    Each(Vec<Option<f64>>),
    Search(f64, f64),
}

impl Loads {
    fn of(args: &LoadArgs) -> Loads {
        match &args.rate {
            None => Loads::Each(vec![None]),
            Some(Rates::List(loads)) => Loads::Each(loads.iter().copied().map(Some).collect()),
            Some(Rates::Range(low, high)) if args.objective.is_some() => Loads::Search(*low, *high),
            Some(Rates::Range(low, high)) => {
                let step = (high - low) / f64::from(args.points - 1);
                let load = |point| Some(low + step * f64::from(point));
                Loads::Each((0..args.points).map(load).collect())
            }
        }
    }

    fn check(&self, check: impl Fn(Option<f64>) -> Result<(), Failed>) -> Result<(), Failed> {
        match self {
            Loads::Each(loads) => loads.iter().try_for_each(|load| check(*load)),
            Loads::Search(low, high) => [*low, *high].map(Some).into_iter().try_for_each(check),
        }
    }
}

fn plan(args: &LoadArgs, arrivals: &Arrivals, load: Option<f64>) -> Result<Plan, Failed> {
    let wrong = |error: ScheduleError| {
        Failed::new(error.to_string()).with_advice("change --rate or --duration")
    };
    let measured = match (arrivals, load) {
        (Arrivals::Trace(trace), None) => Schedule::recorded(trace, args.duration),
        (_, load) => {
            Schedule::new(arrivals, load.unwrap_or_default(), args.duration).map_err(wrong)?
        }
    };
    let before = match arrivals {
        Arrivals::Poisson { seed } => Arrivals::Poisson { seed: seed ^ WARM_UP_SEED },
        other => other.clone(),
    };
    // At low loads there is no request in so short a time.
    let warm_up = || Schedule::new(&before, measured.rate(), args.warm_up).ok();
    let warm_up = if args.trace.is_none() { warm_up() } else { None };
    Ok(Plan { warm_up, measured })
}

struct Bench<'a> {
    args: &'a LoadArgs,
    arrivals: Arrivals,
    limits: Limits,
    clock: Clock,
    connector: &'a Connector<'a>,
    /// None after a run that was ended, since answers to its requests may still come.
    target: Option<Box<dyn Target + 'a>>,
    points: Vec<Point>,
}

impl<'a> Bench<'a> {
    fn measure(&mut self, loads: &Loads) -> Result<Option<Objective>, Failed> {
        match loads {
            Loads::Each(loads) => {
                for load in loads {
                    self.point(*load)?;
                }
            }
            Loads::Search(low, high) => {
                let range = (*low, *high);
                let found = highest_load(range, self.args.tries, |load| self.meets(load))?;
                self.check_any()?;
                return Ok(self.args.objective.map(|p99| Objective { p99, found }));
            }
        }
        if let [Point { outcome: Err(refusal), .. }] = &self.points[..] {
            return Err(unreported(refusal));
        }
        self.check_any()?;
        Ok(self.args.objective.map(|p99| Objective { p99, found: self.found(p99) }))
    }

    /// Whether something is known of the server: how it answers, or that any load is too much.
    fn check_any(&self) -> Result<(), Failed> {
        let refusals = || self.points.iter().filter_map(|point| point.outcome.as_ref().err());
        match refusals().find(|refusal| !refusal.is_of_target()) {
            Some(refusal) if refusals().count() == self.points.len() => Err(unreported(refusal)),
            _ => Ok(()),
        }
    }

    fn meets(&mut self, load: f64) -> Result<bool, Failed> {
        let objective = self.args.objective.unwrap_or_default();
        self.point(Some(load)).map(|point| point.meets(objective))
    }

    /// What measured loads say about an objective.
    fn found(&self, objective: Duration) -> Highest {
        let missing = self.points.iter().filter(|point| !point.meets(objective));
        let missed = missing.map(|point| point.load).min_by(f64::total_cmp);
        let is_below = |load: &f64| missed.is_none_or(|missed| *load < missed);
        let meeting = self.points.iter().filter(|point| point.meets(objective));
        let met = meeting.map(|point| point.load).filter(is_below).max_by(f64::total_cmp);
        Highest { met, missed }
    }

    /// Measures a load.
    fn point(&mut self, load: Option<f64>) -> Result<&Point, Failed> {
        let plan = plan(self.args, &self.arrivals, load)?;
        let (load, count) = (plan.measured.rate(), plan.measured.requests());
        let label = format!("load of {}/s", significant(load));
        let mut target = match self.target.take() {
            Some(target) => target,
            None => self.connected()?,
        };
        let mut progress = Progress::new(&label, count);
        let told = |done| progress.set(done);
        let result = run(target.as_mut(), &self.clock, plan, &self.limits, told);
        let (outcome, refusals) = match result {
            Err(RunError::Refused(refusal)) => (Err(refusal), Vec::new()),
            Err(error) => return Err(Failed::new(error.to_string())),
            Ok(run) => {
                self.target = Some(target);
                let (outcome, refusals) = run.report_anyway();
                match refusals.first() {
                    Some(refusal) if !self.args.anyway => (Err(refusal.clone()), Vec::new()),
                    _ => (Ok(outcome), refusals),
                }
            }
        };
        progress.finish(&told_of(&outcome));
        self.points.push(Point { load, outcome, refusals });
        Ok(self.points.last().expect("it was just added"))
    }

    /// A target that has answered one request.
    fn connected(&self) -> Result<Box<dyn Target + 'a>, Failed> {
        let mut target = self.connector.connect()?;
        let probed = probe(target.as_mut(), &self.clock, &self.limits);
        probed.map_err(|error| {
            let advice = "check the request with `petasos call`, or the server";
            Failed::new(format!("{}: {error}", self.args.server.address)).with_advice(advice)
        })?;
        Ok(target)
    }
}

fn told_of(outcome: &Result<Outcome, Refusal>) -> String {
    match outcome {
        Ok(outcome) => {
            let p99 = outcome.latencies.quantile(0.99);
            let p99 = p99.map_or("–".to_owned(), |p99| duration_us(p99.value_us));
            format!("{} answers, p99 {p99}", outcome.answered)
        }
        Err(refusal) if refusal.is_of_target() => "too much".to_owned(),
        Err(_) => "not measured".to_owned(),
    }
}

/// Nothing is reported, and what can be done.
fn unreported(refusal: &Refusal) -> Failed {
    use Refusal::{Failing, Nothing, Outstanding, Unanswered};
    let advice = match refusal {
        Outstanding(..) => "lower --rate, or raise --outstanding and, for http://, --connections",
        Unanswered { .. } => "lower --rate, or allow more with --timeout",
        Failing { .. } => "look at the server, or allow more with --failures",
        Nothing => "change --rate or --duration",
        _ => "lower --rate, leave the generator a processor of its own, or report it with --anyway",
    };
    Failed::new(refusal.to_string()).with_advice(advice)
}
