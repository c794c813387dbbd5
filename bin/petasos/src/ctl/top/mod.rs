//! `petasos top`: what happens in the service, or in a router, now.
//!
//! It tells what it counts at an interval (`WatchStats`, `Watch`). A frame is the difference of two
//! of its answers. In a terminal, frames take each other's place; else they are printed.

mod routed;
mod screen;
mod watch;

use std::time::Duration;

use clap::Args;
use petasos::message::Message;
use petasos::{Msg, Request};
use petasos_admin as proto;
use petasos_cli::admin::{Frame, Order, RoutedFrame, SERVICE, ServiceArgs};
use petasos_cli::failed::Failed;
use petasos_cli::output;
use serde_json::Value;

use self::screen::{Picture, Screen};
use self::watch::{Told, Watch};

/// The arguments of `petasos top`.
#[derive(Args)]
pub struct TopArgs {
    #[command(flatten)]
    service: ServiceArgs,
    /// An application by its name or its number; all without it.
    #[arg(value_name = "APPLICATION", default_value = "")]
    application: String,
    /// Watch the groups of a router instead: what waits, and its workers.
    #[arg(long, conflicts_with_all = ["application", "sort"])]
    router: bool,
    /// One group of the router, by the address where its clients attach; all without it.
    #[arg(long, value_name = "ADDRESS", default_value = "", requires = "router")]
    group: String,
    /// How often it is shown, in seconds: 0.1 to 60.
    #[arg(long, value_name = "S", default_value_t = 1.0, value_parser = interval)]
    interval: f64,
    /// What comes first.
    #[arg(long, value_enum, default_value_t = Order::Rate)]
    sort: Order,
    /// Print one frame, without a terminal, and end.
    #[arg(long, conflicts_with = "batch")]
    once: bool,
    /// Print so many frames, without a terminal, and end.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    batch: Option<u64>,
}

impl TopArgs {
    pub(super) fn service(&self) -> &ServiceArgs {
        &self.service
    }

    /// An answer comes at each interval.
    fn patience(&self) -> Duration {
        self.service.patience() + Duration::from_secs_f64(self.interval)
    }

    fn interval_ms(&self) -> u32 {
        (self.interval * 1000.0).round() as u32
    }

    /// How many frames are printed; none for a terminal.
    fn frames(&self) -> Option<u64> {
        match (self.once, self.batch) {
            (true, _) => Some(1),
            (false, None) if self.service.json => Some(u64::MAX),
            (false, batch) => batch,
        }
    }
}

fn interval(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| "it is a number of seconds".to_owned())?;
    match (0.1..=60.0).contains(&seconds) {
        true => Ok(seconds),
        false => Err("it is 0.1 to 60 s".to_owned()),
    }
}

/// What is shown of two answers.
trait Shown: Sized {
    /// An answer.
    type Answer: Message;

    fn begin(args: &TopArgs) -> Result<Watch<Self::Answer>, Failed>;
    fn between(earlier: &Self::Answer, now: &Self::Answer) -> Self;
    fn sort(&mut self, order: Order);
    fn picture(&self, order: Order, note: &str) -> Picture;
    fn text(&self) -> String;
    fn json(&self) -> Value;
}

/// Calls by method.
const KEYS: &str =
    "sort: r calls/s  f failed/s  u under way  5 p50  9 p99  b bytes  n name   q quit";

impl Shown for Frame {
    type Answer = proto::StatsResponse;

    fn begin(args: &TopArgs) -> Result<Watch<proto::StatsResponse>, Failed> {
        let mut request = proto::WatchStatsRequest::new();
        let mut edit = request.edit();
        edit.set_interval_ms(args.interval_ms());
        edit.stats_mut().set_application(&args.application);
        let client = args.service.connect(None)?;
        Watch::begin(&SERVICE, args.patience(), move || async move {
            client.watch_stats(Request::new(request)).await
        })
    }

    fn between(earlier: &proto::StatsResponse, now: &proto::StatsResponse) -> Frame {
        Frame::between(earlier, now)
    }

    fn sort(&mut self, order: Order) {
        self.sort(order);
    }

    fn picture(&self, order: Order, note: &str) -> Picture {
        let by = format!("{order:?}").to_lowercase();
        let head = format!("petasos top (by {by}): {} {note}", self.summary());
        // Lines that are too long are cut, so that each row stays a line.
        Picture { head, tables: self.tables_within(usize::MAX), keys: KEYS }
    }

    fn text(&self) -> String {
        self.to_text()
    }

    fn json(&self) -> Value {
        self.to_json()
    }
}

/// Shows frames.
pub fn run(args: &TopArgs) -> Result<(), Failed> {
    match args.router {
        true => run_as::<RoutedFrame>(args),
        false => run_as::<Frame>(args),
    }
}

fn run_as<S: Shown>(args: &TopArgs) -> Result<(), Failed> {
    match args.frames() {
        Some(frames) => print::<S>(args, frames),
        None => show::<S>(args),
    }
}

/// Prints frames.
fn print<S: Shown>(args: &TopArgs, frames: u64) -> Result<(), Failed> {
    let watch = S::begin(args)?;
    let mut earlier = watch.next()?;
    for _ in 0..frames {
        let now = watch.next()?;
        let mut frame = S::between(&earlier, &now);
        frame.sort(args.sort);
        let text = match args.service.json {
            true => frame.json().to_string(),
            false => frame.text(),
        };
        output::answer(text.as_bytes())?;
        earlier = now;
    }
    Ok(())
}

/// Shows frames in a terminal until the user has seen enough.
fn show<S: Shown>(args: &TopArgs) -> Result<(), Failed> {
    let mut watch = S::begin(args)?;
    let mut earlier: Msg<S::Answer> = watch.next()?;
    let screen = Screen::open().map_err(|error| {
        Failed::new(format!("there is no terminal to show it in: {error}"))
            .with_advice("print it with --once, --batch N or --json")
    })?;
    let mut order = args.sort;
    let mut frame = S::between(&earlier, &earlier);
    screen.draw(&frame.picture(order, "measures…"));
    while !screen.is_left() {
        if let Some(key) = screen.key() {
            match Order::of_key(key) {
                Some(chosen) => order = chosen,
                None if matches!(key, 'q' | 'Q' | '\x03' | '\x1b') => return Ok(()),
                None => {}
            }
            frame.sort(order);
            screen.draw(&frame.picture(order, ""));
        }
        match watch.poll() {
            Told::Nothing => {}
            Told::Answer(now) => {
                frame = S::between(&earlier, &now);
                frame.sort(order);
                screen.draw(&frame.picture(order, ""));
                earlier = now;
            }
            // Connections end when they are old, and services when they are replaced.
            Told::Ended(failed) => match S::begin(args) {
                Ok(again) => watch = again,
                Err(_) => screen.wait(&frame.picture(order, &failed.to_string())),
            },
        }
    }
    Ok(())
}
