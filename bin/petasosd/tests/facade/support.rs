//! A daemon as a child process, and a service with calls of all kinds.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use petasos::{
    Channel, Loop, LoopConfig, Msg, Request, Response, Sender, Server, ServiceChoice,
    ServiceConfig, Status, Streaming,
};

use managed::{Item, Work, WorkClient, WorkServer};

#[allow(missing_docs, reason = "the .proto file has them")]
pub mod managed {
    petasos::include_proto!("managed");
}

pub struct Daemon {
    folder: PathBuf,
    child: Child,
    /// What it was started with, besides its paths.
    arguments: Vec<String>,
    _watchdog: Watchdog,
}

/// Longer than a test takes, on a busy machine, too.
const TEST_MAX: Duration = Duration::from_secs(300);

/// Ends the tests unless it is dropped in time, so that one that hangs is a failure with a name.
struct Watchdog {
    _cancel: mpsc::Sender<()>,
}

impl Watchdog {
    fn start(test: &str) -> Watchdog {
        let (cancel, cancelled) = mpsc::channel();
        let test = test.to_owned();
        std::thread::spawn(move || {
            if cancelled.recv_timeout(TEST_MAX) == Err(mpsc::RecvTimeoutError::Timeout) {
                eprintln!("the test with the daemon `{test}` hangs");
                std::process::abort();
            }
        });
        Watchdog { _cancel: cancel }
    }
}

impl Daemon {
    pub fn start(name: &str, policies: Option<&str>) -> Daemon {
        Daemon::start_more(name, policies, &[])
    }

    pub fn start_more(name: &str, policies: Option<&str>, options: &[&str]) -> Daemon {
        let folder = folder(name, policies);
        let child = Daemon::command(&folder).args(options).spawn().unwrap();
        let mut daemon = Daemon::new(name, folder, child, options);
        daemon.await_socket();
        daemon
    }

    /// One that runs as this user and group; none if this process may not start it so.
    pub fn start_as(name: &str, (user, group): (u32, u32), options: &[&str]) -> Option<Daemon> {
        let folder = folder(name, None);
        let mut command = Daemon::command(&folder);
        command.args(options).uid(user).gid(group).current_dir("/");
        let owned = std::os::unix::fs::chown(&folder, Some(user), Some(group));
        match owned.and_then(|()| command.spawn()) {
            Ok(child) => {
                let mut daemon = Daemon::new(name, folder, child, options);
                daemon.await_socket();
                Some(daemon)
            }
            Err(error) => {
                let _ = std::fs::remove_dir_all(&folder);
                petasos_skips::skip("root", format!("no other user: {error}"));
                None
            }
        }
    }

    /// One that other hosts reach at `listen`. Gives where.
    pub fn start_reached(name: &str, listen: &str) -> (Daemon, SocketAddr) {
        let (daemon, address) =
            Daemon::start_saying(name, None, &["--listen", listen], "at petasos://");
        (daemon, address.parse().unwrap())
    }

    /// The same over TCP.
    pub fn start_over_tcp(name: &str, listen: &str) -> (Daemon, SocketAddr) {
        let arguments = ["--listen", listen, "--transport", "tcp"];
        let (daemon, address) = Daemon::start_saying(name, None, &arguments, "at petasos://");
        (daemon, address.parse().unwrap())
    }

    /// One with more arguments, and what it says after `before`.
    pub fn start_saying(
        name: &str,
        policies: Option<&str>,
        arguments: &[&str],
        before: &str,
    ) -> (Daemon, String) {
        let folder = folder(name, policies);
        let mut command = Daemon::command(&folder);
        let mut child = command.args(arguments).stderr(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
        let found = said
            .by_ref()
            .find_map(|line| line.unwrap().split_once(before).map(|(_, said)| said.to_owned()));
        std::thread::spawn(move || said.for_each(drop));
        let mut daemon = Daemon::new(name, folder, child, arguments);
        daemon.await_socket();
        (daemon, found.expect("it says so"))
    }

    fn new(name: &str, folder: PathBuf, child: Child, arguments: &[&str]) -> Daemon {
        let arguments = owned(arguments);
        Daemon { folder, child, arguments, _watchdog: Watchdog::start(name) }
    }

    fn command(folder: &std::path::Path) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_petasosd"));
        command.arg("--socket").arg(folder.join("socket")).stderr(Stdio::null());
        let policies = folder.join("policies.json");
        if policies.exists() {
            command.arg("--policies").arg(policies);
        }
        // Whatever is tested holds with several runtimes, too (docs/TESTING.md).
        if let Ok(runtimes) = std::env::var("PETASOS_TEST_RUNTIMES") {
            command.args(["--runtimes", &*runtimes]);
        }
        command
    }

    /// Kills the process that this test has started.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Lets the process do nothing, or go on.
    pub fn signal(&self, signal: rustix::process::Signal) {
        let id = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(id, signal).unwrap();
    }

    /// The process that serves.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Another process has taken over. Gives the one before.
    pub fn succeeded(&mut self, by: Child) -> Child {
        std::mem::replace(&mut self.child, by)
    }

    /// What it is started with next time.
    pub fn set_arguments(&mut self, arguments: &[&str]) {
        self.arguments = owned(arguments);
    }

    pub fn folder(&self) -> &std::path::Path {
        &self.folder
    }

    pub fn restart(&mut self) {
        let mut command = Daemon::command(&self.folder);
        // Why it does not start is in the test's output.
        command.args(&self.arguments).stderr(Stdio::inherit());
        self.child = command.spawn().unwrap();
        self.await_socket();
    }

    fn await_socket(&mut self) {
        for _ in 0..3000 {
            if std::os::unix::net::UnixStream::connect(self.folder.join("socket")).is_ok() {
                return;
            }
            assert_eq!(self.child.try_wait().unwrap(), None, "the daemon has ended");
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("the daemon does not listen");
    }

    /// The service, for an application of this name.
    pub fn service(&self, application: &str) -> ServiceChoice {
        let config = ServiceConfig::new(&format!("unix:{}/socket", self.folder.display()));
        ServiceChoice::Managed(config.unwrap().application(application).unwrap())
    }

    /// A loop on this thread.
    pub fn event_loop(&self, application: &str) -> Loop {
        let service = self.service(application);
        Loop::new(LoopConfig { service, ..LoopConfig::default() }).unwrap()
    }

    /// A server on its own thread.
    pub fn server(&self, application: &str) -> Server {
        let service = self.service(application);
        let server = Server::builder().add(WorkServer::new(Worker)).listen("127.0.0.1:0");
        server.service(service).start().unwrap()
    }
}

fn owned(arguments: &[&str]) -> Vec<String> {
    arguments.iter().map(|&argument| argument.to_owned()).collect()
}

fn folder(name: &str, policies: Option<&str>) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("petasosd-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    if let Some(policies) = policies {
        std::fs::write(folder.join("policies.json"), policies).unwrap();
    }
    folder
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // It may have been killed.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// A client in this thread's loop.
pub fn client(event_loop: &Loop, server: &Server) -> WorkClient {
    WorkClient::new(event_loop.channel(server.local_address().unwrap()))
}

/// A client outside of loops.
pub async fn client_elsewhere(daemon: &Daemon, server: &Server) -> WorkClient {
    let target = format!("petasos://{}", server.local_address().unwrap());
    let channel = Channel::builder(&target).service(daemon.service("elsewhere"));
    WorkClient::new(channel.connect().await.unwrap())
}

pub fn item(text: &str, number: i64) -> Msg<Item> {
    let mut item = Item::new();
    item.set_text(text).set_number(number);
    item
}

/// A server without a service.
pub fn plain_server() -> Server {
    let server = Server::builder().add(WorkServer::new(Worker)).listen("127.0.0.1:0");
    server.service(ServiceChoice::Direct).start().unwrap()
}

pub struct Worker;

impl Work for Worker {
    async fn echo(&self, request: Request<Item>) -> Result<Response<Item>, Status> {
        let seen = request.metadata().get("asked").map(str::to_owned);
        assert_eq!(request.metadata().get("petasos-caller"), None, "the service says who calls");
        let mut response = Response::new(request.into_message());
        if let Some(seen) = seen {
            response.metadata_mut().append("seen", &seen).unwrap();
        }
        Ok(response)
    }

    async fn fail(&self, request: Request<Item>) -> Result<Response<Item>, Status> {
        let code = petasos::Code::from_number(request.number() as u32);
        Err(Status::new(code, request.text().to_owned()))
    }

    async fn hold(&self, _: Request<Item>) -> Result<Response<Item>, Status> {
        core::future::pending().await
    }

    async fn count(&self, upto: Request<Item>, mut out: Sender<Item>) -> Result<(), Status> {
        for number in 0..upto.number() {
            out.send(item(upto.text(), number)).await?;
        }
        Ok(())
    }

    async fn sum(&self, mut items: Streaming<Item>) -> Result<Response<Item>, Status> {
        let mut sum = 0;
        while let Some(item) = items.message().await? {
            sum += item.number();
        }
        Ok(Response::new(item("sum", sum)))
    }

    async fn chat(&self, mut items: Streaming<Item>, mut out: Sender<Item>) -> Result<(), Status> {
        while let Some(item) = items.message().await? {
            out.send(item).await?;
        }
        Ok(())
    }
}
