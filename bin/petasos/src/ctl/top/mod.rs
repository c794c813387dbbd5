//! `petasos top`: what happens in the service now.
//!
//! The service tells what it counts at an interval (`WatchStats`). A frame is the difference of two
//! of its answers. In a terminal, frames take each other's place; else they are printed.

mod screen;
mod watch;

use std::time::Duration;

use clap::Args;
use petasos_admin as proto;
use petasos_cli::admin::{Frame, Order, ServiceArgs};
use petasos_cli::failed::Failed;
use petasos_cli::output;

use self::screen::Screen;
use self::watch::{Told, Watch};

/// The arguments of `petasos top`.
#[derive(Args)]
pub struct TopArgs {
    #[command(flatten)]
    service: ServiceArgs,
    /// An application by its name or its number; all without it.
    #[arg(value_name = "APPLICATION", default_value = "")]
    application: String,
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

/// Shows frames.
pub fn run(args: &TopArgs) -> Result<(), Failed> {
    match args.frames() {
        Some(frames) => print(args, frames),
        None => show(args),
    }
}

/// Prints frames.
fn print(args: &TopArgs, frames: u64) -> Result<(), Failed> {
    let watch = begin(args)?;
    let mut earlier = watch.next()?;
    for _ in 0..frames {
        let now = watch.next()?;
        let mut frame = Frame::between(&earlier, &now);
        frame.sort(args.sort);
        let text = match args.service.json {
            true => frame.to_json().to_string(),
            false => frame.to_text(),
        };
        output::answer(text.as_bytes())?;
        earlier = now;
    }
    Ok(())
}

fn begin(args: &TopArgs) -> Result<Watch, Failed> {
    let mut request = proto::WatchStatsRequest::new();
    let mut edit = request.edit();
    edit.set_interval_ms(args.interval_ms());
    edit.stats_mut().set_application(&args.application);
    // An answer comes at each interval.
    let patience = args.service.patience() + Duration::from_secs_f64(args.interval);
    Watch::begin(args.service.connect(None)?, request, patience)
}

/// Shows frames in a terminal until the user has seen enough.
fn show(args: &TopArgs) -> Result<(), Failed> {
    let mut watch = begin(args)?;
    let mut earlier = watch.next()?;
    let screen = Screen::open().map_err(|error| {
        Failed::new(format!("there is no terminal to show it in: {error}"))
            .with_advice("print it with --once, --batch N or --json")
    })?;
    let mut order = args.sort;
    let mut frame = Frame::between(&earlier, &earlier);
    screen.draw(&frame, order, "measures…");
    while !screen.is_left() {
        if let Some(key) = screen.key() {
            match Order::of_key(key) {
                Some(chosen) => order = chosen,
                None if matches!(key, 'q' | 'Q' | '\x03' | '\x1b') => return Ok(()),
                None => {}
            }
            frame.sort(order);
            screen.draw(&frame, order, "");
        }
        match watch.poll() {
            Told::Nothing => {}
            Told::Stats(now) => {
                frame = Frame::between(&earlier, &now);
                frame.sort(order);
                screen.draw(&frame, order, "");
                earlier = now;
            }
            // Connections end when they are old, and services when they are replaced.
            Told::Ended(failed) => match begin(args) {
                Ok(again) => watch = again,
                Err(_) => screen.wait(&frame, order, &failed.to_string()),
            },
        }
    }
    Ok(())
}
