//! A load of guests, as wrk2 makes it: requests are sent when they are due, whether or not earlier
//! ones are answered, and their latency counts from when they were due.

mod client;
mod mix;
mod tally;

use std::cell::RefCell;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use clap::{Args, ValueEnum};
use petasos_base::Rng;
use petasos_base::{SystemClock, Time};
use tokio::task::{JoinSet, yield_now};
use tokio::time::sleep;

use crate::error::Error;
use client::Client;
use mix::{Ask, Mix};
pub use tally::Tally;

/// Ask the frontend for what guests ask for, and measure
#[derive(Args, Clone, Debug)]
pub struct LoadArgs {
    /// The frontend's address
    target: SocketAddr,
    #[command(flatten)]
    pace: PaceArgs,
    /// Also write the result as JSON to this file
    #[arg(long)]
    json: Option<PathBuf>,
    /// Also write all requests and answers, in order, to this file
    #[arg(long)]
    answers: Option<PathBuf>,
}

/// How many requests, and when
#[derive(Args, Clone, Debug)]
pub struct PaceArgs {
    /// Requests per second
    #[arg(long, default_value_t = 20.0, value_parser = rate)]
    pub rate: f64,
    /// Seconds
    #[arg(long, default_value_t = 250.0, value_parser = seconds)]
    pub seconds: f64,
    /// How requests are spread
    #[arg(long, default_value = "fixed")]
    pub arrival: Arrival,
    /// Which requests are chosen
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

/// How requests are spread over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Arrival {
    /// At the same distance
    Fixed,
    /// At random, as a Poisson process
    Poisson,
}

fn within(text: &str, least: f64, most: f64) -> Result<f64, String> {
    let number = text.parse::<f64>().map_err(|error| error.to_string())?;
    match number >= least && number <= most {
        true => Ok(number),
        false => Err(format!("not from {least} to {most}")),
    }
}

fn rate(text: &str) -> Result<f64, String> {
    within(text, 0.1, 100_000.0)
}

fn seconds(text: &str) -> Result<f64, String> {
    within(text, 0.01, 3600.0)
}

/// The most requests of a run.
const REQUESTS_MAX: usize = 2_000_000;
/// How long before a request is due the timer's precision is not enough.
const SPIN: Duration = Duration::from_millis(2);

/// A request that is due.
struct Due {
    ask: Ask,
    /// After the beginning.
    after: Duration,
}

/// All requests of a run.
fn plan(pace: &PaceArgs) -> Vec<Due> {
    let (mut mix, mut rng) = (Mix::new(pace.seed), Rng::new(!pace.seed));
    let (mut after_s, mut all) = (0.0, Vec::new());
    while after_s < pace.seconds && all.len() < REQUESTS_MAX {
        all.push(Due { ask: mix.ask(), after: Duration::from_secs_f64(after_s) });
        after_s = match pace.arrival {
            Arrival::Fixed => all.len() as f64 / pace.rate,
            // From 0, exclusively, to 1.
            Arrival::Poisson => {
                let uniform = (rng.next_u64() >> 11) as f64 + 1.0;
                after_s - (uniform / (1_u64 << 53) as f64).ln() / pace.rate
            }
        };
    }
    all
}

/// Guests of one frontend, whose connections stay open from one run to the next.
pub struct Guests {
    client: Rc<Client>,
    clock: SystemClock,
}

impl Guests {
    /// Guests of the frontend at an address.
    pub fn of(frontend: SocketAddr) -> Guests {
        Guests { client: Rc::new(Client::new(frontend)), clock: SystemClock::default() }
    }

    /// Sends all requests of a run when they are due, and waits for the answers. Each request and
    /// answer is noted in `answers`. It has to run in a local set.
    pub async fn run(&self, pace: &PaceArgs, answers: Option<&mut Vec<String>>) -> Tally {
        let tally = Rc::new(RefCell::new(Tally::default()));
        let notes = answers.is_some().then(|| Rc::new(RefCell::new(Vec::new())));
        let mut asked = JoinSet::new();
        let begun = self.clock.now();
        for (number, due) in plan(pace).into_iter().enumerate() {
            let at = begun + due.after;
            self.wait_until(at).await;
            // Those that have ended are not kept.
            while asked.try_join_next().is_some() {}
            let (client, clock) = (self.client.clone(), self.clock.clone());
            let (tally, notes) = (tally.clone(), notes.clone());
            asked.spawn_local(async move {
                let note = ask(&client, &clock, at, &due.ask, &tally).await;
                if let Some(notes) = notes {
                    notes.borrow_mut().push((number, note));
                }
            });
        }
        asked.join_all().await;
        if let (Some(answers), Some(notes)) = (answers, notes) {
            let mut notes = notes.take();
            notes.sort();
            answers.extend(notes.into_iter().map(|(_, note)| note));
        }
        tally.take()
    }

    /// Waits more precisely than Tokio's timer, whose unit is a millisecond.
    async fn wait_until(&self, at: Time) {
        let left = at - self.clock.now();
        if left > SPIN {
            sleep(left - SPIN).await;
        }
        while self.clock.now() < at {
            yield_now().await;
        }
    }
}

/// Asks once, and returns the request and the answer as text.
async fn ask(
    client: &Client,
    clock: &SystemClock,
    due: Time,
    ask: &Ask,
    tally: &RefCell<Tally>,
) -> String {
    let sent = clock.now();
    let outcome = client.ask(ask).await;
    let total = clock.now() - due;
    let mut note = format!("{} {}\n", ask.method, ask.target);
    let mut tally = tally.borrow_mut();
    match outcome {
        Ok(reply) => {
            let body = String::from_utf8_lossy(&reply.body);
            write!(note, "{} {body}", reply.status).expect("a string takes all text");
            match reply.status {
                200 => tally.answered(total, sent - due, reply.timing.as_ref()),
                status => tally.failed(format!("{status} {body}")),
            }
        }
        Err(error) => {
            write!(note, "{error}").expect("a string takes all text");
            tally.failed(error.what);
        }
    }
    note
}

/// Runs the load and reports.
///
/// # Errors
/// A file cannot be written, or no request was answered.
pub async fn load(args: &LoadArgs) -> Result<(), Error> {
    let mut answers = Vec::new();
    let noted = args.answers.is_some().then_some(&mut answers);
    let tally = Guests::of(args.target).run(&args.pace, noted).await;
    let unwritten = |error: &dyn std::fmt::Display| Error::internal(error.to_string());
    tally.print().map_err(|error| unwritten(&error))?;
    if let Some(path) = &args.json {
        let json = format!("{:#}\n", tally.json());
        petasos_report::write_atomically(path, json.as_bytes()).map_err(|e| unwritten(&e))?;
    }
    if let Some(path) = &args.answers {
        let text = answers.join("\n") + "\n";
        petasos_report::write_atomically(path, text.as_bytes()).map_err(|e| unwritten(&e))?;
    }
    match (tally.frontend.total.count(), tally.failure) {
        (0, Some(failure)) => Err(Error::away(failure)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pace(arrival: Arrival) -> PaceArgs {
        PaceArgs { rate: 100.0, seconds: 50.0, arrival, seed: 3 }
    }

    #[test]
    fn requests_are_due_at_the_rate() {
        let all = plan(&pace(Arrival::Fixed));
        assert_eq!(all.len(), 5000);
        assert_eq!(all[1].after, Duration::from_millis(10));
        let all = plan(&pace(Arrival::Poisson));
        assert!((4500..5500).contains(&all.len()), "{}", all.len());
        assert!(all.is_sorted_by_key(|due| due.after));
        let gaps = all.windows(2).map(|two| (two[1].after - two[0].after).as_secs_f64());
        // Of a Poisson process, about 63 % of the gaps are shorter than their mean.
        let short = gaps.filter(|gap| *gap < 0.01).count();
        assert!((2900..3500).contains(&short), "{short}");
    }

    #[test]
    fn arguments_are_bounded() {
        for wrong in ["0", "-1", "NaN", "inf", "1e9", "x"] {
            assert!(rate(wrong).is_err() && seconds(wrong).is_err(), "{wrong}");
        }
        assert_eq!((rate("20"), seconds("250")), (Ok(20.0), Ok(250.0)));
    }
}
