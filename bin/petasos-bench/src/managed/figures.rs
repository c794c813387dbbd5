//! The figures of the paper, as descriptions that common code runs.

use std::time::Duration;

use clap::ValueEnum;

use super::contenders::{LATENCY, OVER_GRPC, PLAIN};
use super::policies;
use super::quantity::Quantity;
use super::shape::{Shape, Work};

/// A figure, by its number in the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FigureId {
    /// Latency of one call at a time: 64 bytes there, 8 back
    Table2,
    /// Goodput by size of request, also per core
    #[value(name = "4")]
    Goodput,
    /// Rate of 32-byte calls by client threads
    #[value(name = "5")]
    Rate,
    /// Rate with and without a limit that is never reached
    #[value(name = "6a")]
    Limit,
    /// Rate with and without access control by a field, which refuses one call of a hundred
    #[value(name = "6b")]
    Access,
    /// Goodput as in 4, with HTTP/2 and protobuf between services
    #[value(name = "10")]
    GoodputOverGrpc,
    /// Rate as in 5, with HTTP/2 and protobuf between services
    #[value(name = "11")]
    RateOverGrpc,
    /// Peak memory
    #[value(name = "15")]
    Memory,
}

/// What is measured for a figure, and for how long.
#[derive(Clone, Debug)]
pub struct Figure {
    /// The name on the command line and in the JSON.
    pub name: &'static str,
    /// The title of the picture.
    pub title: &'static str,
    pub quantity: Quantity,
    /// What differs between the points: words before their labels.
    pub varied: &'static str,
    pub points: Vec<Point>,
    /// The names of its contenders.
    pub contenders: &'static [&'static str],
    /// The point whose results stand for the figure, as an index.
    pub headline: usize,
    /// The length of a turn.
    pub turn: Duration,
    /// Seconds of all turns together, unless the user says otherwise.
    pub seconds: f64,
}

/// One measurement of a figure.
#[derive(Clone, Debug)]
pub struct Point {
    /// Where it stands on the figure's axis.
    pub x: f64,
    /// The same as text.
    pub label: String,
    pub shape: Shape,
}

/// Bytes of responses: the paper's, except where it says otherwise.
const RESPONSE_BYTES: u32 = 8;
/// Outstanding calls of each client thread where the rate or goodput is measured.
const WINDOW: usize = 128;
/// The most bytes of requests that are outstanding at once.
const OUTSTANDING_BYTES_MAX: usize = 16 << 20;
/// The sizes of figure 4, in bytes: 2 B to 8 MB.
const SIZES: [u32; 9] = [2, 32, 512, 2 << 10, 8 << 10, 32 << 10, 128 << 10, 1 << 20, 8_000_000];
const TURN: Duration = Duration::from_millis(100);

impl FigureId {
    /// What has to be measured.
    pub fn description(self) -> Figure {
        match self {
            FigureId::Table2 => Figure {
                name: "table2",
                title: "One call at a time, 64 bytes there, 8 back",
                quantity: Quantity::LatencyUs,
                varied: "requests of",
                points: vec![sized(64, 1)],
                contenders: LATENCY,
                headline: 0,
                turn: TURN,
                seconds: 15.0,
            },
            FigureId::Goodput => Figure {
                name: "4",
                title: "Goodput of requests with responses of 8 bytes",
                quantity: Quantity::GbitPerS,
                varied: "requests of",
                points: SIZES.map(|bytes| sized(bytes, window(bytes))).to_vec(),
                contenders: PLAIN,
                headline: SIZES.iter().position(|bytes| *bytes == 8 << 10).unwrap_or(0),
                turn: TURN,
                seconds: 60.0,
            },
            FigureId::Rate => Figure {
                name: "5",
                title: "Calls of 32 bytes, 128 outstanding for each client thread",
                quantity: Quantity::OpsPerS,
                varied: "client of",
                points: [1, 2].map(with_threads).to_vec(),
                contenders: PLAIN,
                headline: 0,
                turn: TURN,
                seconds: 20.0,
            },
            FigureId::Limit => Figure {
                name: "6a",
                title: "Calls of 32 bytes, with and without an unlimited rate limit",
                quantity: Quantity::OpsPerS,
                varied: "client of",
                points: vec![with_threads(1)],
                contenders: policies::LIMIT,
                headline: 0,
                turn: TURN,
                seconds: 20.0,
            },
            FigureId::Access => Figure {
                name: "6b",
                title: "Reservations, with and without access control by a field",
                quantity: Quantity::OpsPerS,
                varied: "client of",
                points: vec![reservations()],
                contenders: policies::ACCESS,
                headline: 0,
                turn: TURN,
                seconds: 25.0,
            },
            FigureId::GoodputOverGrpc => goodput_over_grpc(),
            FigureId::RateOverGrpc => rate_over_grpc(),
            FigureId::Memory => memory(),
        }
    }
}

fn goodput_over_grpc() -> Figure {
    Figure {
        name: "10",
        title: "Goodput, with HTTP/2 and protobuf between services",
        contenders: OVER_GRPC,
        ..FigureId::Goodput.description()
    }
}

fn rate_over_grpc() -> Figure {
    Figure {
        name: "11",
        title: "Calls of 32 bytes, with HTTP/2 and protobuf between services",
        contenders: OVER_GRPC,
        ..FigureId::Rate.description()
    }
}

fn memory() -> Figure {
    Figure {
        name: "15",
        title: "Peak memory with 128 calls of 8 KiB outstanding",
        quantity: Quantity::MemoryBytes,
        varied: "requests of",
        points: vec![sized(8 << 10, WINDOW)],
        contenders: PLAIN,
        headline: 0,
        turn: TURN,
        seconds: 10.0,
    }
}

/// The window that keeps the outstanding bytes bounded.
fn window(request_bytes: u32) -> usize {
    (OUTSTANDING_BYTES_MAX / request_bytes as usize).clamp(1, WINDOW)
}

fn sized(request_bytes: u32, window: usize) -> Point {
    let work = Work::Bytes;
    let shape = Shape { work, request_bytes, response_bytes: RESPONSE_BYTES, window, threads: 1 };
    Point { x: f64::from(request_bytes), label: bytes_text(request_bytes), shape }
}

fn with_threads(threads: u8) -> Point {
    let point = sized(32, WINDOW);
    let shape = Shape { threads: usize::from(threads), ..point.shape };
    Point { x: f64::from(threads), label: thread_text(threads), shape }
}

fn reservations() -> Point {
    let point = with_threads(1);
    let shape = Shape { work: Work::Reservations, ..point.shape };
    Point { label: "reservations".to_owned(), shape, ..point }
}

fn thread_text(threads: u8) -> String {
    format!("{threads} thread{}", if threads == 1 { "" } else { "s" })
}

fn bytes_text(bytes: u32) -> String {
    match bytes {
        1_000_000.. if bytes.is_multiple_of(1_000_000) => format!("{} MB", bytes / 1_000_000),
        0x10_0000.. => format!("{} MiB", bytes >> 20),
        1024.. => format!("{} KiB", bytes >> 10),
        _ => format!("{bytes} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_is_bounded_and_has_its_headline() {
        for id in FigureId::value_variants() {
            let figure = id.description();
            let value = id.to_possible_value().expect("none is hidden");
            assert_eq!(value.get_name(), figure.name);
            assert!(figure.headline < figure.points.len(), "{}", figure.name);
            assert!(figure.seconds <= 60.0 && figure.turn <= Duration::from_secs(1));
            for Point { shape, .. } in &figure.points {
                let outstanding = shape.window * shape.request_bytes as usize;
                assert!((1..=WINDOW).contains(&shape.window) && (1..=2).contains(&shape.threads));
                assert!(outstanding <= OUTSTANDING_BYTES_MAX, "{shape:?}");
            }
        }
    }

    #[test]
    fn the_paper_s_parameters_are_kept() {
        let point = |id: FigureId| {
            let figure = id.description();
            figure.points[figure.headline].shape
        };
        let latency = point(FigureId::Table2);
        assert_eq!((latency.request_bytes, latency.response_bytes, latency.window), (64, 8, 1));
        assert_eq!(point(FigureId::Goodput).request_bytes, 8192);
        let rates = FigureId::Rate.description().points;
        assert_eq!(rates.iter().map(|at| at.shape.threads).collect::<Vec<_>>(), [1, 2]);
        assert!(rates.iter().all(|at| (at.shape.request_bytes, at.shape.window) == (32, 128)));
        let sizes = FigureId::Goodput.description().points;
        let ends = [sizes.first(), sizes.last()].map(|at| at.map(|at| at.label.as_str()));
        assert_eq!(ends, [Some("2 B"), Some("8 MB")]);
        let over_grpc = |id: FigureId| id.description().contenders.contains(&"managed-grpc");
        let are_over_grpc = FigureId::value_variants().iter().filter(|id| over_grpc(**id));
        let names: Vec<_> = are_over_grpc.map(|id| id.description().name).collect();
        assert_eq!(names, ["table2", "10", "11"]);
    }
}
