//! A router with a socket for operators, an operator, and a group that calls.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use petasos::message::Message;
use petasos::{
    Channel, Code, ConnectError, Msg, Request, Response, Server, Status, Unary, block_on,
};
use petasos_admin::router::{self as proto, RouterClient};
use petasos_admin::{ListAuditRequest, ListAuditResponse};
use petasos_base::Clock;
use petasos_base::sync::{AtomicBool, AtomicU64, Ordering};

use crate::generated::{Blob, Greeter, GreeterClient, GreeterServer, Greeting, Name};
use crate::support::Process;

pub const PATIENCE: Duration = Duration::from_secs(60);

/// A router with a file, in a folder of its own.
pub struct Router {
    pub process: Process,
    pub folder: PathBuf,
    pub group: SocketAddr,
}

/// A folder for a test, which is there and empty.
pub fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("petasos-op-{}-{name}", std::process::id()));
    // There may be none.
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a folder can be made");
    folder
}

impl Router {
    /// With a group of the greeter, and these lines in its table and in `[admin]`.
    pub fn start(name: &str, group: &str, admin: &str) -> Router {
        let folder = folder(name);
        let router = Router::write_to(&folder, group, admin);
        let mut command = Command::new(env!("CARGO_BIN_EXE_petasos-router"));
        command.arg("--config").arg(router).args(["--drain-s", "1"]);
        let process = Process::start(command, "ready");
        let group = process.ready.split("join at ").nth(1).expect("it says where");
        let group = group.split(',').next().expect("it says where").parse().expect("an address");
        Router { process, folder, group }
    }

    fn write_to(folder: &std::path::Path, group: &str, admin: &str) -> PathBuf {
        let (socket, file) = (folder.join("admin.sock"), folder.join("router.toml"));
        let text = format!(
            "[admin]\nsocket = \"{}\"\n{admin}\n[[group]]\nlisten = \"127.0.0.1:0\"\n\
             services = [\"hello.Greeter\"]\n{group}\n",
            socket.display(),
        );
        std::fs::write(&file, text).expect("there is room");
        file
    }

    /// Another file; it is not read yet.
    pub fn write(&self, group: &str, admin: &str) {
        Router::write_to(&self.folder, group, admin);
    }

    pub fn socket(&self) -> String {
        self.folder.join("admin.sock").display().to_string()
    }

    pub fn operator(&self) -> Operator {
        Operator::at(&self.socket()).expect("it listens")
    }

    pub fn target(&self) -> String {
        format!("router://{}", self.group)
    }
}

impl Drop for Router {
    fn drop(&mut self) {
        // Whatever is left there costs the next test nothing.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

pub struct Operator(pub RouterClient);

impl Operator {
    pub fn at(socket: &str) -> Result<Operator, ConnectError> {
        let channel = Channel::builder(&format!("grpc+unix://{socket}"));
        Ok(Operator(RouterClient::new(block_on(channel.connect())?)))
    }

    pub fn ask<Q: Message, R: Message>(
        &self,
        request: Msg<Q>,
        method: impl FnOnce(&RouterClient, Request<Q>) -> Unary<R>,
    ) -> Result<Msg<R>, Status> {
        block_on(method(&self.0, Request::new(request))).map(Response::into_message)
    }

    pub fn status(&self) -> Msg<proto::StatusResponse> {
        let asked = self.ask(proto::StatusRequest::new(), |client, it| client.status(it));
        asked.expect("it answers")
    }

    pub fn workers(&self) -> Msg<proto::ListWorkersResponse> {
        let request = proto::ListWorkersRequest::new();
        self.ask(request, |client, request| client.list_workers(request)).expect("it answers")
    }

    /// The worker with a number.
    pub fn worker<R>(&self, number: u32, look: impl FnOnce(&proto::Worker) -> R) -> R {
        let workers = self.workers();
        let worker = workers.workers().iter().find(|it| it.worker() == number);
        look(worker.expect("it is there"))
    }

    pub fn drain(&self, worker: u32, undo: bool) -> Result<Vec<String>, Status> {
        let mut request = proto::DrainWorkerRequest::new();
        request.edit().set_worker(worker).set_undo(undo);
        self.ask(request, |client, request| client.drain_worker(request)).map(lines)
    }

    pub fn weigh(&self, worker: u32, weight: u32) -> Result<Vec<String>, Status> {
        let mut request = proto::WeighWorkerRequest::new();
        request.edit().set_worker(worker).set_weight(weight);
        self.ask(request, |client, request| client.weigh_worker(request)).map(lines)
    }

    pub fn set(
        &self,
        fill: impl FnOnce(&mut proto::SetPolicyRequestMut<'_>),
    ) -> Result<Vec<String>, Status> {
        let mut request = proto::SetPolicyRequest::new();
        fill(&mut request.edit());
        self.ask(request, |client, request| client.set_policy(request)).map(lines)
    }

    pub fn reload(&self) -> Result<Vec<String>, Status> {
        self.ask(proto::ReloadRequest::new(), |client, request| client.reload(request)).map(lines)
    }

    pub fn audit(&self) -> Msg<ListAuditResponse> {
        let request = ListAuditRequest::new();
        self.ask(request, |client, request| client.list_audit(request)).expect("it answers")
    }

    /// Until so many workers get requests.
    pub fn until_workers(&self, count: usize) {
        until(|| {
            let workers = self.workers();
            workers.workers().iter().filter(|it| it.state() == "there").count() == count
        });
    }
}

pub fn lines(response: Msg<proto::ChangeResponse>) -> Vec<String> {
    response.done().iter().map(|line| line.to_string()).collect()
}

pub fn refusal<T: std::fmt::Debug>(result: Result<T, Status>) -> (Code, String) {
    let status = result.expect_err("it is refused");
    (status.code(), status.message().to_owned())
}

pub fn until(mut holds: impl FnMut() -> bool) {
    let clock = Clock::system();
    let end = clock.now() + PATIENCE;
    while !holds() {
        assert!(clock.now() < end, "it holds in the end");
        std::thread::sleep(Duration::from_millis(5));
    }
}

struct Echo;

impl Greeter for Echo {
    async fn greet(&self, _: Request<Name>) -> Result<Response<Greeting>, Status> {
        Ok(Response::new(Greeting::new()))
    }

    async fn echo(&self, request: Request<Blob>) -> Result<Response<Blob>, Status> {
        Ok(Response::new(request.into_message()))
    }
}

/// A worker of the group.
pub fn worker(target: &str) -> Server {
    let server = Server::builder().add(GreeterServer::new(Echo));
    let server = server.listen("127.0.0.1:0").join(target.to_owned());
    server.start().expect("loopback has ports")
}

/// Calls from several threads as long as something happens, which is told how many calls have been
/// answered. No call fails. Returns how many there were.
pub fn call_while(target: &str, happens: impl FnOnce(&dyn Fn() -> u64)) -> u64 {
    let channel = block_on(Channel::connect(target)).expect("a router is there");
    let client = GreeterClient::new(channel);
    let (answered, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    let mut blob = Blob::new();
                    blob.edit().set_bytes(&b"hello"[..]);
                    let echoed = block_on(client.echo(blob)).expect("no call fails");
                    assert_eq!(echoed.bytes(), b"hello");
                    answered.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let ends = End(&is_over);
        happens(&|| answered.load(Ordering::Relaxed));
        drop(ends);
    });
    answered.load(Ordering::Relaxed)
}

/// Callers end, also if what happens does so by a panic.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Until so many calls more have been answered.
pub fn pass(answered: &dyn Fn() -> u64, more: u64) {
    let until_then = answered() + more;
    until(|| answered() >= until_then);
}

pub const GET_METRICS: &str = "GET /metrics HTTP/1.1\r\nHost: petasos\r\n\r\n";

/// Where a router serves its metrics.
pub fn metrics_of(process: &Process) -> String {
    let said = process.first.join("\n");
    let address = said.split("http://").nth(1).and_then(|rest| rest.split('/').next());
    address.expect("it says where").to_owned()
}

/// What is answered to a request.
pub fn page(address: &str, request: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.write_all(request.as_bytes()).expect("it listens");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("it is text");
    text
}

/// The value of a metric with these labels.
pub fn value(page: &str, metric: &str) -> f64 {
    let line = page.lines().find(|line| line.starts_with(metric));
    let line = line.unwrap_or_else(|| panic!("{metric} is not in {page}"));
    line.rsplit(' ').next().and_then(|value| value.parse().ok()).expect("it has a value")
}
