//! What the search application has recorded, its workers, and its clients.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::rc::Rc;

use petasos::Request;
use petasos_base::{Rng, random_seed};
use petasos_load::Target;
use serde::Deserialize;

use super::super::client::{Client, http_of};
use super::super::programs::{ROUTER_CORE, beside};
use super::super::side::Reach;
use super::super::team::WORKERS;
use super::super::workers::{self, BOUND};
use crate::error::BenchError;
use crate::managed::folder::Folder;
use crate::router::args::RouterArgs;
use crate::rpc::process::Process;

mod generated {
    petasos::include_proto!("search");
}

use generated::{Query, SearchClient};

/// How many queries are recorded.
const QUERIES: usize = 10_000;
/// The same if figures mean nothing, from the shortest dictionary.
const QUICK_QUERIES: usize = 400;
const QUICK_DICTIONARY: &str = "jargon";
/// Hits of an answer.
const HITS: u32 = 10;

/// Queries, their answers and times.
pub struct Recorded {
    records: Rc<Vec<Record>>,
    /// Paths of the same over HTTP.
    paths: Vec<String>,
    /// By what times are multiplied.
    pub stretch: f64,
    /// What the application says of the queries.
    pub said: String,
    program: PathBuf,
    file: PathBuf,
    _folder: Folder,
}

/// What is needed of a record.
#[derive(Deserialize)]
struct Record {
    query: String,
    took_ns: u64,
    answer: Answer,
}

#[derive(Deserialize)]
struct Answer {
    total: u64,
}

impl Recorded {
    /// Lets the application record queries, on one processor.
    ///
    /// # Errors
    /// If it was not built, or there is nothing to search.
    pub fn record(args: &RouterArgs) -> Result<Recorded, BenchError> {
        let program = beside("search", "search")?;
        let folder = Folder::new("petasos-search")?;
        let file = folder.path().join("recording");
        let mut command = Command::new(&program);
        let queries = if args.quick { QUICK_QUERIES } else { QUERIES };
        command.arg("record").arg("--out").arg(&file).args(["--count", &queries.to_string()]);
        if args.quick {
            command.args(["--dictionaries", QUICK_DICTIONARY]);
        }
        let output = command.stdin(Stdio::null()).output()?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(format!("nothing was recorded: {}", said.trim()).into());
        }
        let records = read(&file)?;
        let mean_ns = mean_ns(&records).ok_or("no query was recorded")?;
        Ok(Recorded {
            paths: records.iter().map(|record| path(&record.query)).collect(),
            records: Rc::new(records),
            stretch: args.mean_us as f64 * 1000.0 / mean_ns,
            said: String::from_utf8_lossy(&output.stdout).trim().to_owned(),
            program,
            file,
            _folder: folder,
        })
    }

    /// How long queries take, in microseconds, in order.
    pub fn times_us(&self) -> Vec<f64> {
        let stretched = |record: &Record| record.took_ns as f64 * self.stretch / 1000.0;
        let mut times: Vec<_> = self.records.iter().map(stretched).collect();
        times.sort_by(f64::total_cmp);
        times
    }

    /// Starts workers of a group, or without routers, such as proxies call.
    ///
    /// # Errors
    /// If they do not come up.
    pub fn serve(&self, routers: &[SocketAddr]) -> Result<(Process, Vec<SocketAddr>), BenchError> {
        let mut command = Command::new(&self.program);
        command.args(["serve", "--attended", "--workers", &WORKERS.to_string(), "--recording"]);
        command.arg(&self.file).args(["--stretch", &self.stretch.to_string()]);
        match routers {
            [] => command.args(["--http", "127.0.0.1:0"]),
            _ => command.args(["--join", &workers::target(routers), "--bound", &BOUND.to_string()]),
        };
        let who = "search application".to_owned();
        let (process, addresses) = Process::start(who, command, Some(ROUTER_CORE))?;
        let addresses = addresses.iter().map(|address| address.parse());
        Ok((process, addresses.collect::<Result<_, _>>()?))
    }

    /// Queries as a target of load, one after another, in the order in which they were drawn.
    ///
    /// # Errors
    /// If nobody can be reached.
    pub fn target(
        &self,
        client: &Client,
        reach: Reach,
        outstanding_max: u32,
    ) -> Result<Box<dyn Target>, BenchError> {
        let targets = match reach {
            Reach::Http(servers) => {
                let paths: Vec<&str> = self.paths.iter().map(String::as_str).collect();
                return http_of(&servers, &paths, outstanding_max);
            }
            Reach::Group(router) => vec![workers::target(&[router])],
            Reach::Servers(servers) => {
                servers.iter().map(|server| format!("petasos://{server}")).collect()
            }
            Reach::Bare(_) => return Err("an echo answers no queries".into()),
        };
        let stubs = targets.iter().map(|target| client.channel(target).map(SearchClient::new));
        let stubs = stubs.collect::<Result<Vec<_>, _>>()?;
        let (records, mut rng, mut next) = (self.records.clone(), Rng::new(random_seed()), 0);
        let make = move || {
            let stub = &stubs[rng.below(stubs.len() as u64) as usize];
            let record = &records[next % records.len()];
            next += 1;
            call(stub, record)
        };
        client.target_of(make, outstanding_max)
    }
}

/// Begins a call. The future waits for the answer, which has to be the recorded one.
fn call(stub: &SearchClient, record: &Record) -> impl Future<Output = Result<(), String>> + use<> {
    let mut query = Query::new();
    query.set_text(&record.query).set_limit(HITS);
    let (call, expected) = (stub.find(Request::new(query)), record.answer.total);
    async move {
        let total = call.await.map_err(|status| status.to_string())?.total();
        match total == expected {
            true => Ok(()),
            false => Err(format!("{total} entries match, and not {expected}")),
        }
    }
}

fn read(file: &Path) -> Result<Vec<Record>, BenchError> {
    let lines = BufReader::new(File::open(file)?).lines();
    lines.map(|line| Ok(serde_json::from_str(&line?)?)).collect()
}

fn mean_ns(records: &[Record]) -> Option<f64> {
    let sum: u64 = records.iter().map(|record| record.took_ns).sum();
    (sum > 0).then(|| sum as f64 / records.len() as f64)
}

/// The path of a query, whose signs are those of URLs.
fn path(query: &str) -> String {
    let mut path = "/search?q=".to_owned();
    for byte in query.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => path.push(byte.into()),
            _ => path += &format!("%{byte:02X}"),
        }
    }
    path + &format!("&limit={HITS}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_parameters_of_paths() {
        assert_eq!(path("+a \"é\"~4"), "/search?q=%2Ba%20%22%C3%A9%22%7E4&limit=10");
    }

    #[test]
    fn the_mean_is_of_all_records() {
        let record =
            |took_ns| Record { query: String::new(), took_ns, answer: Answer { total: 0 } };
        assert_eq!(mean_ns(&[record(1), record(2)]), Some(1.5));
        assert_eq!(mean_ns(&[]), None);
    }
}
