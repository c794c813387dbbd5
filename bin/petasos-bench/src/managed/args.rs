//! The command line of `petasos bench managed`.

use std::time::Duration;

use clap::{Args, ValueEnum};

use super::figures::Figure;
use super::what::What;
use crate::report::Wanted;

/// Measure calls through a service or sidecar on each host, as the mRPC paper's figures do
///
/// All contenders run as separate processes: the client's side pinned to one core, the server's to
/// another. They take turns within one run; the ratios are medians over its rounds. `relay` is the
/// floor: four processes pass the same bytes over bare rings and UDP sockets.
#[derive(Args, Clone, Debug)]
pub struct ManagedArgs {
    /// The figure or table of the paper
    #[arg(long, required_unless_present = "show_config")]
    pub figure: Option<What>,
    /// The contenders to measure [default: all of the figure]
    #[arg(long, value_delimiter = ',')]
    pub contenders: Vec<String>,
    /// Seconds to measure, all turns together [default: the figure's]
    #[arg(long, value_parser = seconds)]
    pub seconds: Option<f64>,
    /// Milliseconds of a turn [default: the figure's]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub turn_ms: Option<u64>,
    /// Changes of each kind, with `changes` [default: 1000]
    #[arg(long, value_parser = changes)]
    pub changes: Option<usize>,
    /// So many busy processes beside each turn, alternately on both cores
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=16))]
    pub beside: u8,
    /// Only the points with these labels, such as `8 KiB` of figure 4 or `MobileNet` of 9
    #[arg(long, value_delimiter = ',')]
    pub points: Vec<String>,
    #[command(flatten)]
    pub wanted: Wanted,
    /// Show how each contender is started and configured, and measure nothing
    #[arg(long, conflicts_with_all = [
        "figure", "seconds", "turn_ms", "changes", "beside", "points", "json", "picture",
        "print_json",
    ])]
    pub show_config: bool,
}

/// What is measured in rounds of contenders.
const FIGURES: &str = "table2, 4, 5, 6a, 6b, 10, 11 and 15";
/// The fewest and most counted rounds of a point.
const ROUNDS_MIN: usize = 3;
const ROUNDS_MAX: usize = 1000;

/// The most changes of a kind.
const CHANGES_MAX: usize = 100_000;

fn changes(text: &str) -> Result<usize, String> {
    match text.parse().map_err(|error| format!("{error}"))? {
        count @ 1..=CHANGES_MAX => Ok(count),
        _ => Err(format!("not from 1 to {CHANGES_MAX}")),
    }
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse::<f64>().map_err(|error| error.to_string())?;
    match seconds {
        0.0..=3600.0 => Ok(seconds),
        _ => Err("not within an hour".into()),
    }
}

impl ManagedArgs {
    /// Refuses options that mean nothing for what is measured.
    ///
    /// # Errors
    /// The first such option, and what has it.
    pub fn check(&self, what: What) -> Result<(), String> {
        let (is_figure, has_points, has_turns, has_changes) = match what {
            What::Figure(_) => (true, true, true, false),
            What::Experiment(id) => (false, id.has_points(), id.has_turns(), id.has_changes()),
        };
        let with_points = format!("{FIGURES}, and 9");
        let given = [
            ("--contenders", !self.contenders.is_empty(), is_figure, FIGURES),
            ("--beside", self.beside > 0, is_figure, FIGURES),
            ("--points", !self.points.is_empty(), has_points, &*with_points),
            ("--turn-ms", self.turn_ms.is_some(), has_turns, "what is measured in turns"),
            ("--changes", self.changes.is_some(), has_changes, "changes"),
        ];
        match given.iter().find(|(_, is_given, has_it, _)| *is_given && !has_it) {
            None => Ok(()),
            Some((option, .., who)) => {
                let what = what.to_possible_value().expect("none is hidden");
                Err(format!("{option} means nothing for {}: it is for {who}", what.get_name()))
            }
        }
    }

    /// The length of a turn.
    pub fn turn(&self, figure: &Figure) -> Duration {
        self.turn_ms.map_or(figure.turn, Duration::from_millis)
    }

    /// The counted rounds of each point, if a round has `turns` turns.
    pub fn rounds(&self, figure: &Figure, points: usize, turns: usize) -> usize {
        let seconds = self.seconds.unwrap_or(figure.seconds) / points.max(1) as f64;
        let round_s = self.turn(figure).as_secs_f64() * turns.max(1) as f64;
        ((seconds / round_s) as usize).clamp(ROUNDS_MIN, ROUNDS_MAX)
    }

    /// Whether a point is to be measured.
    pub fn wants(&self, label: &str) -> bool {
        self.points.is_empty() || self.points.iter().any(|wanted| wanted == label)
    }
}
