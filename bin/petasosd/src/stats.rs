//! What is counted, copied out of the loop for those who want to see it.

use std::sync::Arc;

use petasos::grpc::{GrpcStats, Refusals};
use petasos_base::{SystemClock, Time};
use petasos_engine::{Application as Number, EngineCounts};
use petasos_service::{Application, CopyCounts, Gone, Row as CallRow};

use crate::control::World;
use crate::member::Heaps;
use crate::runtime::set::Row;

/// The most rows of a copy for operators: the loop makes it between two turns.
pub const ROWS_MAX: usize = 4096;
/// The most rows of a copy for scrapers: the text of a row has about 4 KiB.
pub const METRIC_ROWS_MAX: usize = 1024;

/// What was counted at a time.
pub struct Snapshot {
    /// When.
    pub time: Time,
    /// By number.
    pub applications: Vec<ApplicationStats>,
    /// Of applications that have gone.
    pub gone: Gone,
    /// Rows that are left out: each application has them together in rows without a method.
    pub rows_left_out: usize,
    /// By number.
    pub runtimes: Vec<RuntimeStats>,
    /// What the port of gRPC clients has refused, if there is one.
    pub grpc: Option<GrpcStats>,
}

/// What was counted of a runtime.
pub struct RuntimeStats {
    pub id: u32,
    pub applications: usize,
    /// How long its thread has had a processor, if the system tells.
    pub processor_ns: Option<u64>,
    /// Of requests, for other servers.
    pub copies: CopyCounts,
}

/// What was counted of an application.
pub struct ApplicationStats {
    pub number: Number,
    pub name: Arc<str>,
    pub rows: Vec<CallRow>,
    pub engines: Vec<(String, EngineCounts)>,
    /// Requests that did not become calls.
    pub refused: u64,
    /// Calls under way, those among them that its policies hold.
    pub calls: usize,
    /// Bytes of messages that are held for it.
    pub held_bytes: usize,
}

impl Snapshot {
    /// Of all applications, or of one, with at most so many rows that have a method.
    pub fn take(world: &World<'_>, only: Option<Number>, rows_max: usize) -> Snapshot {
        let mut snapshot = Snapshot {
            time: SystemClock::default().now(),
            applications: Vec::new(),
            gone: world.gone(),
            rows_left_out: 0,
            runtimes: runtimes(world),
            grpc: world.control.grpc_refusals.iter().map(Refusals::stats).reduce(GrpcStats::plus),
        };
        let mut left = rows_max;
        let is_meant = |application: &&Application<Heaps>| {
            only.is_none_or(|only| application.number() == only)
        };
        for application in world.applications().into_iter().filter(is_meant) {
            let (rows, left_out) = application.stats().rows_within(left);
            left = left.saturating_sub(rows.len());
            snapshot.rows_left_out += left_out;
            snapshot.applications.push(one(world, application, rows));
        }
        snapshot
    }
}

fn runtimes(world: &World<'_>) -> Vec<RuntimeStats> {
    let one = |row: &Row| {
        let runtime = world.runtimes().find(|runtime| runtime.id() == row.id);
        let applications = runtime.map_or(0, |runtime| runtime.members.len());
        let copies = runtime.map(|runtime| runtime.hub.copy_counts()).unwrap_or_default();
        RuntimeStats { id: row.id.0, applications, processor_ns: row.processor_ns(), copies }
    };
    world.set.rows().map(one).collect()
}

fn one(
    world: &World<'_>,
    application: &Application<Heaps>,
    rows: Vec<CallRow>,
) -> ApplicationStats {
    let (datapath, load) = (application.datapath(), application.load());
    let engines = (0..datapath.len()).filter_map(|place| {
        let kind = world.control.known(datapath.policy(place)?).made.kind_name();
        Some((kind.to_owned(), datapath.engine_counts(place)?))
    });
    ApplicationStats {
        number: application.number(),
        name: application.name().into(),
        rows,
        engines: engines.collect(),
        refused: application.stats().refused(),
        calls: load.calls,
        held_bytes: load.held_bytes,
    }
}
