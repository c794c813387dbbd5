//! Counts an application's calls by method, and by where they come from and go to.
//!
//! A method gets a [`Row`] when it is first called in a [`Way`]. A call finds its row through a
//! table of [`PLACES`], by the numbers of method and way. The row counts each call when it begins
//! and when it is over, and each message that leaves the datapath. Everything belongs to the hub's
//! thread: counting takes no lock, and in steady state allocates nothing.
//!
//! # Invariants
//!
//! - An application has at most [`ROWS_MAX`] rows for methods, and one more for each way, which
//!   counts methods without a row. This holds whatever schemas the application binds and whomever
//!   it calls.
//! - In each row, the calls that have begun and are not over are under way. A call is over once.

use std::collections::HashMap;
use std::sync::Arc;

use petasos_base::LogLinear;
use petasos_call::{Code, Status};

use crate::schemas::BoundMethod;

/// The most rows for methods of an application.
pub const ROWS_MAX: usize = 512;
/// Rows of an application that are found without a hash.
const PLACES: usize = 512;
const CODES: usize = Code::ALL.len();

/// Where a call of an application comes from, and where it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Way {
    /// The application's call went nowhere: a policy ended it, its caller gave it up, or nobody
    /// serves what it calls.
    Unsent,
    /// The application calls one of the same host.
    ToLocal,
    /// The application calls another host.
    ToRemote,
    /// The application serves a call of one of the same host.
    FromLocal,
    /// The application serves a call of another host.
    FromRemote,
}

impl Way {
    /// All, in order.
    pub const ALL: [Way; 5] =
        [Way::Unsent, Way::ToLocal, Way::ToRemote, Way::FromLocal, Way::FromRemote];

    /// Its name for people and programs.
    pub const fn name(self) -> &'static str {
        match self {
            Way::Unsent => "unsent",
            Way::ToLocal => "to-local",
            Way::ToRemote => "to-remote",
            Way::FromLocal => "from-local",
            Way::FromRemote => "from-remote",
        }
    }
}

/// Sums over calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// Calls that have begun.
    pub begun: u64,
    /// Calls that are over, by the number of their code.
    pub ended: [u64; CODES],
    /// Bytes of requests that have passed the policies, as images.
    pub request_bytes: u64,
    /// Bytes of responses that have passed the policies, as images.
    pub response_bytes: u64,
    /// How long those took of which an end was told, together, in ns.
    pub latency_ns: u64,
}

impl Sums {
    /// Calls that have begun and are not over.
    pub fn under_way(&self) -> u64 {
        self.begun - self.ended.iter().sum::<u64>()
    }

    fn add(&mut self, other: &Sums) {
        self.begun += other.begun;
        self.ended.iter_mut().zip(other.ended).for_each(|(sum, count)| *sum += count);
        self.request_bytes += other.request_bytes;
        self.response_bytes += other.response_bytes;
        self.latency_ns += other.latency_ns;
    }
}

/// What is counted of the calls of a method in a way.
#[derive(Clone, Debug)]
pub struct Row {
    /// Service and method; none for all that have no row of their own.
    pub method: Option<Arc<str>>,
    /// Where the calls come from and go to.
    pub way: Way,
    /// Sums over them.
    pub sums: Sums,
    /// How long those took of which an end was told, in ns.
    pub latency: LogLinear,
}

/// Which row counts a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowIndex(u32);

impl RowIndex {
    /// It is not known yet where the call goes.
    pub(crate) const NONE: RowIndex = RowIndex(u32::MAX);
    /// The call is over.
    const OVER: RowIndex = RowIndex(u32::MAX - 1);
}

/// What is counted of an application.
#[derive(Debug, Default)]
pub struct Stats {
    /// Empty until the first call, then [`PLACES`].
    places: Vec<(u64, RowIndex)>,
    others: HashMap<u64, RowIndex>,
    rows: Vec<Row>,
    /// By way: the row for methods that have none.
    rest: [Option<RowIndex>; Way::ALL.len()],
    /// Requests that were no calls: their methods or messages were wrong, or there were too many.
    refused: u64,
}

impl Stats {
    /// The rows, in the order in which they were made.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// At most so many rows, and how many have none of their own there: those are counted together,
    /// without a method, in rows by way.
    pub fn rows_within(&self, rows_max: usize) -> (Vec<Row>, usize) {
        let (own, others) = self.rows.split_at(self.rows.len().min(rows_max));
        let mut rows = own.to_vec();
        for other in others {
            let is_it = |row: &&mut Row| row.method.is_none() && row.way == other.way;
            match rows.iter_mut().find(is_it) {
                Some(row) => {
                    row.sums.add(&other.sums);
                    row.latency.add(&other.latency);
                }
                None => rows.push(Row { method: None, ..other.clone() }),
            }
        }
        (rows, others.len())
    }

    /// Requests of the application that did not become calls.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    pub(crate) fn refuse(&mut self) {
        self.refused += 1;
    }

    /// A call of a method begins.
    #[inline]
    pub(crate) fn begin(&mut self, method: &BoundMethod, way: Way) -> RowIndex {
        let key = u64::from(method.id.0) * Way::ALL.len() as u64 + way as u64;
        let index = match self.places.get(key as usize % PLACES) {
            Some((known, index)) if *known == key => *index,
            _ => self.find(key, method, way),
        };
        self.rows[index.0 as usize].sums.begun += 1;
        index
    }

    #[cold]
    fn find(&mut self, key: u64, method: &BoundMethod, way: Way) -> RowIndex {
        if self.places.is_empty() {
            self.places.resize(PLACES, (u64::MAX, RowIndex::NONE));
        }
        let index = match self.others.get(&key) {
            Some(index) => *index,
            None if self.others.len() < ROWS_MAX => {
                let index = add(&mut self.rows, Some(method.name.clone()), way);
                self.others.insert(key, index);
                index
            }
            None => match self.rest[way as usize] {
                Some(index) => index,
                None => *self.rest[way as usize].insert(add(&mut self.rows, None, way)),
            },
        };
        self.places[key as usize % PLACES] = (key, index);
        index
    }

    /// A call is over of which nobody is told an end.
    #[inline]
    pub(crate) fn give_up(&mut self, row: &mut RowIndex, method: &BoundMethod) {
        if *row != RowIndex::OVER {
            self.end_untold(row, method);
        }
    }

    #[cold]
    fn end_untold(&mut self, row: &mut RowIndex, method: &BoundMethod) {
        let at = self.row_of(*row, method);
        self.rows[at].sums.ended[usize::from(Code::Cancelled.number())] += 1;
        *row = RowIndex::OVER;
    }

    fn row_of(&mut self, row: RowIndex, method: &BoundMethod) -> usize {
        match row {
            RowIndex::NONE => self.begin(method, Way::Unsent).0 as usize,
            row => row.0 as usize,
        }
    }

    /// Counts bytes of a message that has left the datapath.
    #[inline]
    pub(crate) fn add_bytes(&mut self, row: RowIndex, is_request: bool, bytes: u64) {
        // None: the call is over, or goes nowhere.
        let Some(row) = self.rows.get_mut(row.0 as usize) else { return };
        match is_request {
            true => row.sums.request_bytes += bytes,
            false => row.sums.response_bytes += bytes,
        }
    }

    /// A call is over, and its end was told, after so many ns.
    #[inline]
    pub(crate) fn end(
        &mut self,
        row: &mut RowIndex,
        method: &BoundMethod,
        status: Option<&Status>,
        nanos: u64,
    ) {
        let at = self.row_of(*row, method);
        let counted = &mut self.rows[at];
        let code = status.map_or(Code::Ok, Status::code);
        counted.sums.ended[usize::from(code.number())] += 1;
        counted.sums.latency_ns += nanos;
        counted.latency.record(nanos);
        *row = RowIndex::OVER;
    }
}

/// What applications had counted that have gone, by way.
#[derive(Clone, Copy, Debug, Default)]
pub struct Gone {
    /// How many have gone.
    pub applications: u64,
    sums: [Sums; Way::ALL.len()],
}

impl Gone {
    /// Sums over their calls in a way.
    pub fn sums(&self, way: Way) -> &Sums {
        &self.sums[way as usize]
    }

    /// Adds what those of another hub had counted.
    pub fn merge(&mut self, other: &Gone) {
        self.applications += other.applications;
        self.sums.iter_mut().zip(&other.sums).for_each(|(sum, more)| sum.add(more));
    }

    pub(crate) fn add(&mut self, stats: &Stats) {
        self.applications += 1;
        stats.rows.iter().for_each(|row| self.sums[row.way as usize].add(&row.sums));
    }
}

fn add(rows: &mut Vec<Row>, method: Option<Arc<str>>, way: Way) -> RowIndex {
    let index = u32::try_from(rows.len()).expect("there are few rows");
    let (sums, latency) = (Sums::default(), LogLinear::default());
    rows.push(Row { method, way, sums, latency });
    RowIndex(index)
}
