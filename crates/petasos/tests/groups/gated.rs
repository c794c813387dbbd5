//! A service whose calls block their threads until the test lets them go on, and that notes what
//! runs where.

use std::collections::HashSet;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::ThreadId;

use petasos::{Join, Placement, Request, Response, Server, ServerBuilder, Status};

use crate::greeter::generated::{Blob, Greeter, GreeterServer, Greeting, Name};
use crate::greeter::greeting;
use crate::servers::until;

/// What an echo that does not wait at the gate has for its first byte.
pub const PASSES: u8 = b'!';

/// What the service has seen.
#[derive(Default)]
pub struct Seen {
    /// What was to be echoed, in the order in which that began. No echo runs twice.
    pub echoes: Vec<Vec<u8>>,
    /// Echoes that run, and the most that ran at once.
    pub running: usize,
    pub most: usize,
    /// The threads of echoes, and of greetings.
    pub echoed_on: HashSet<ThreadId>,
    pub greeted_on: HashSet<ThreadId>,
}

#[derive(Clone)]
pub struct Gated {
    go: Arc<Mutex<Receiver<()>>>,
    seen: Arc<Mutex<Seen>>,
}

/// Lets echoes go on. If it is dropped, all do, with an error.
pub struct Gate(Sender<()>);

impl Gate {
    pub fn open(&self, echoes: usize) {
        (0..echoes).for_each(|_| self.0.send(()).expect("the service is there"));
    }
}

/// A service, and the gate of its echoes.
pub fn gated() -> (Gated, Gate) {
    let (tell, go) = channel();
    (Gated { go: Arc::new(Mutex::new(go)), seen: Arc::default() }, Gate(tell))
}

impl Gated {
    pub fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().expect("nothing panics under the lock")
    }

    pub fn builder(&self) -> ServerBuilder {
        Server::builder().add(GreeterServer::new(self.clone())).listen("127.0.0.1:0")
    }

    /// A server that is a member when this returns, with so many threads for echoes.
    pub fn start(&self, threads: usize, join: Join) -> Server {
        let server = self.builder().place("hello.Greeter/Echo", Placement::Worker);
        let server = server.worker_threads(threads).join(join).start();
        let server = server.expect("loopback has ports");
        until(|| server.routers().iter().any(|at| at.is_member));
        server
    }

    fn begin(&self, bytes: &[u8]) {
        let mut seen = self.seen();
        seen.echoes.push(bytes.to_vec());
        seen.echoed_on.insert(std::thread::current().id());
        seen.running += 1;
        seen.most = seen.most.max(seen.running);
    }

    fn wait(&self) -> Result<(), Status> {
        let told = self.go.lock().expect("nothing panics under the lock").recv();
        told.map_err(|_| Status::aborted("the test is over"))
    }
}

impl Greeter for Gated {
    async fn greet(&self, request: Request<Name>) -> Result<Response<Greeting>, Status> {
        self.seen().greeted_on.insert(std::thread::current().id());
        Ok(Response::new(greeting(request.name())))
    }

    async fn echo(&self, request: Request<Blob>) -> Result<Response<Blob>, Status> {
        self.begin(request.bytes());
        let waited = match request.bytes().first() {
            Some(&PASSES) => Ok(()),
            _ => self.wait(),
        };
        self.seen().running -= 1;
        waited.map(|()| Response::new(request.into_message()))
    }
}
