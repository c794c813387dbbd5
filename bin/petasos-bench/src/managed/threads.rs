//! A client or server with several threads, each with its own end of the contender.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use crate::error::BenchError;
use crate::rpc::ends::{Client, Server};
use crate::rpc::phase::{Phase, Turn};
use crate::rpc::stop::Stop;

/// What a thread answers. Errors are text, since they change the thread.
type Answer<T> = Result<T, String>;

/// A client of several threads.
pub struct ClientThreads(Vec<Thread<(Phase, Duration), Turn>>);

/// A server of several threads.
pub struct ServerThreads {
    threads: Vec<Thread<(Phase, Arc<Stop>), Turn>>,
    addresses: Vec<SocketAddr>,
}

/// A thread that does what it is asked to.
struct Thread<Q, A> {
    asks: Sender<Q>,
    answers: Receiver<Answer<A>>,
}

const GONE: &str = "a thread has ended";

impl<Q: Send + 'static, A: Send + 'static> Thread<Q, A> {
    /// Starts a thread that makes an end, tells `first` of it, and then does what it is asked to.
    fn start<E, F: Send + 'static>(
        make: impl FnOnce() -> Result<E, BenchError> + Send + 'static,
        first: impl FnOnce(&E) -> F + Send + 'static,
        mut work: impl FnMut(&mut E, Q) -> Result<A, BenchError> + Send + 'static,
    ) -> Result<(Thread<Q, A>, F), BenchError> {
        let (asks, asked) = channel();
        let (answer, answers) = channel();
        let (made, is_made) = channel();
        std::thread::spawn(move || {
            let mut end = match make() {
                Ok(end) => end,
                Err(error) => return drop(made.send(Err(error.to_string()))),
            };
            if made.send(Ok(first(&end))).is_err() {
                return;
            }
            for ask in asked {
                let answered = work(&mut end, ask).map_err(|error| error.to_string());
                if answer.send(answered).is_err() {
                    return;
                }
            }
        });
        let first = is_made.recv().map_err(|_| GONE)??;
        Ok((Thread { asks, answers }, first))
    }

    fn ask(&self, ask: Q) -> Result<(), BenchError> {
        self.asks.send(ask).map_err(|_| GONE.into())
    }

    fn answer(&self) -> Result<A, BenchError> {
        Ok(self.answers.recv().map_err(|_| GONE)??)
    }
}

impl ClientThreads {
    /// Starts the threads; `make` makes the end of each.
    ///
    /// # Errors
    /// Those of `make`.
    pub fn start(
        threads: usize,
        make: impl Fn(usize) -> Result<Box<dyn Client>, BenchError> + Clone + Send + 'static,
    ) -> Result<ClientThreads, BenchError> {
        let thread = |number| {
            let make = make.clone();
            let work =
                |client: &mut Box<dyn Client>, (phase, duration)| client.turn(phase, duration);
            Ok(Thread::start(move || make(number), |_| (), work)?.0)
        };
        Ok(ClientThreads((0..threads).map(thread).collect::<Result<_, BenchError>>()?))
    }
}

impl Client for ClientThreads {
    fn turn(&mut self, phase: Phase, duration: Duration) -> Result<Turn, BenchError> {
        for thread in &self.0 {
            thread.ask((phase, duration))?;
        }
        let turns = self.0.iter().map(Thread::answer).collect::<Result<Vec<_>, _>>()?;
        Ok(together(turns))
    }
}

impl ServerThreads {
    /// Starts the threads; `make` makes the end of each.
    ///
    /// # Errors
    /// Those of `make`.
    pub fn start(
        threads: usize,
        make: impl Fn(usize) -> Result<Box<dyn Server>, BenchError> + Clone + Send + 'static,
    ) -> Result<ServerThreads, BenchError> {
        let mut all = ServerThreads { threads: Vec::new(), addresses: Vec::new() };
        for number in 0..threads {
            let make = make.clone();
            let work = |server: &mut Box<dyn Server>, (phase, stop): (Phase, Arc<Stop>)| {
                server.serve(phase, &stop)
            };
            let listening = |server: &dyn Server| server.addresses();
            let (thread, addresses) =
                Thread::start(move || make(number), move |end| listening(&**end), work)?;
            all.threads.push(thread);
            all.addresses.extend(addresses);
        }
        Ok(all)
    }
}

impl Server for ServerThreads {
    fn addresses(&self) -> Vec<SocketAddr> {
        self.addresses.clone()
    }

    fn serve(&mut self, phase: Phase, stop: &Stop) -> Result<Turn, BenchError> {
        let mut stops = Vec::new();
        for thread in &self.threads {
            let own = Arc::new(Stop::default());
            thread.ask((phase, Arc::clone(&own)))?;
            stops.push(own);
        }
        let runtime = tokio::runtime::Builder::new_current_thread().build()?;
        runtime.block_on(stop.raised());
        stops.iter().for_each(|own| own.raise());
        let turns = self.threads.iter().map(Thread::answer).collect::<Result<Vec<_>, _>>()?;
        Ok(together(turns))
    }
}

/// The turns of all threads as one. It took as long as the longest.
fn together(turns: Vec<Turn>) -> Turn {
    let mut all = Turn::default();
    for turn in turns {
        all.completed += turn.completed;
        all.refused += turn.refused;
        all.forbidden += turn.forbidden;
        all.bytes += turn.bytes;
        all.elapsed_s = all.elapsed_s.max(turn.elapsed_s);
        all.latency.merge(&turn.latency);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Counts(u64);

    impl Client for Counts {
        fn turn(&mut self, _: Phase, duration: Duration) -> Result<Turn, BenchError> {
            if self.0 == 13 {
                return Err("thirteen".into());
            }
            let elapsed_s = duration.as_secs_f64() * self.0 as f64;
            Ok(Turn { completed: self.0, elapsed_s, ..Turn::default() })
        }
    }

    fn start(first: u64) -> Result<ClientThreads, BenchError> {
        ClientThreads::start(2, move |thread| {
            if first == 0 {
                return Err("nobody".into());
            }
            Ok(Box::new(Counts(first + thread as u64)))
        })
    }

    #[test]
    fn the_turns_of_threads_are_added() {
        let mut clients = start(3).expect("both are made");
        let turn = clients.turn(Phase::Window, Duration::from_secs(1)).expect("both count");
        assert_eq!((turn.completed, turn.elapsed_s), (7, 4.0));
    }

    #[test]
    fn the_error_of_a_thread_is_that_of_all() {
        let mut clients = start(12).expect("both are made");
        let error = clients.turn(Phase::Window, Duration::ZERO).expect_err("one fails");
        assert_eq!(error.to_string(), "thirteen");
        assert_eq!(start(0).err().map(|error| error.to_string()), Some("nobody".to_owned()));
    }
}
