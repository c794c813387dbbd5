//! A service with two applications, one of which calls the other, and dashboards.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use petasos::{Channel, Code, Msg, Request, ServiceChoice, ServiceConfig, Status, block_on};
use petasos_admin::{AdminClient, ChangeRequest};
use petasos_base::Clock;
use petasos_base::sync::{AtomicBool, Ordering};
use serde_json::Value;

use crate::process::Process;
use crate::shelf::Running;
use crate::shelf::generated::{Key, ShelfClient};
use crate::support::{Petasos, WATCHDOG};

/// What somebody may give as a name who wants it to be markup.
pub const HOSTILE: &str = "<script>window.pwned=1</script><img src=x onerror=window.pwned=1>";

/// A service, an application `shelf` that serves, and an application `front` that calls it.
pub struct Scene {
    pub daemon: Process,
    server: Running,
    is_over: Arc<AtomicBool>,
    callers: Vec<JoinHandle<()>>,
}

impl Scene {
    /// Nothing if there is no `petasosd`.
    pub fn new(test: &str) -> Option<Scene> {
        let daemon = Process::start(&format!("dashboard-{test}"))?;
        let server = Running::managed(through(&daemon, "shelf"));
        let (is_over, callers) = (Arc::new(AtomicBool::new(false)), Vec::new());
        let mut scene = Scene { daemon, server, is_over, callers };
        scene.call_as("front", Duration::from_millis(2));
        Some(scene)
    }

    /// Adds an application that calls so often.
    pub fn call_as(&mut self, name: &str, each: Duration) {
        let channel = Channel::builder(&self.server.addresses[0]);
        let channel = channel.service(through(&self.daemon, name));
        let channel = block_on(channel.connect()).expect("it serves");
        let until = self.is_over.clone();
        let client = ShelfClient::new(channel);
        self.callers.push(std::thread::spawn(move || call(&client, each, &until)));
    }

    /// Adds a policy, as `petasos ctl policy add` does.
    pub fn add_policy(&self, application: &str, kind: &str, configuration: &str) {
        let mut request = ChangeRequest::new();
        let mut edit = request.edit();
        let mut steps = edit.steps_mut();
        let mut step = steps.add();
        let mut add = step.add_policy_mut();
        add.set_application(application).set_kind(kind).set_configuration(configuration);
        self.change(request).expect("the policy is right");
    }

    /// Attaches an engine, as `petasos ctl engine attach` does.
    pub fn attach(&self, application: &str, kind: &str) -> Result<(), Status> {
        let mut request = ChangeRequest::new();
        let mut edit = request.edit();
        let mut steps = edit.steps_mut();
        let mut step = steps.add();
        let mut attach = step.attach_engine_mut();
        attach.set_application(application).set_kind(kind).set_configuration("{}");
        self.change(request)
    }

    fn change(&self, request: Msg<ChangeRequest>) -> Result<(), Status> {
        let channel = Channel::builder(&format!("grpc+unix://{}", admin(&self.daemon)));
        let client = AdminClient::new(block_on(channel.connect()).expect("it listens"));
        block_on(client.change(Request::new(request))).map(drop)
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        for caller in self.callers.drain(..) {
            caller.join().expect("it does not panic");
        }
    }
}

/// Through the service, as an application of this name.
fn through(daemon: &Process, name: &str) -> ServiceChoice {
    let config = ServiceConfig::new(&daemon.service()).expect("it is a path");
    ServiceChoice::Managed(config.application(name).expect("it is a name"))
}

/// Calls until it is over; one of 50 calls fails. It does not take all of the machine.
fn call(client: &ShelfClient, each: Duration, is_over: &AtomicBool) {
    let mut count = 0;
    while !is_over.load(Ordering::Relaxed) {
        let mut key = Key::new();
        key.edit().set_title(if count % 50 == 49 { "lost" } else { "Emma" });
        match block_on(client.find(Request::new(key))) {
            Ok(_) => {}
            Err(status) => assert_eq!(status.code(), Code::NotFound, "{status:?}"),
        }
        count += 1;
        std::thread::sleep(each);
    }
}

/// Where operators connect.
fn admin(daemon: &Process) -> String {
    let service = daemon.service();
    let folder = service.strip_prefix("unix:").and_then(|path| path.strip_suffix("/socket"));
    format!("{}/admin.sock", folder.expect("it is its socket"))
}

/// A running `petasos dashboard`.
pub struct Dashboard {
    _process: Petasos,
    /// With the token.
    pub url: String,
    pub address: String,
    token: String,
}

impl Dashboard {
    pub fn of(scene: &Scene) -> Dashboard {
        Dashboard::start(&scene.daemon, &[])
    }

    pub fn start(daemon: &Process, more: &[&str]) -> Dashboard {
        Dashboard::at(&admin(daemon), more)
    }

    /// Of the service with this socket for operators.
    pub fn at(socket: &str, more: &[&str]) -> Dashboard {
        let arguments = ["--socket", socket, "--listen", "127.0.0.1:0"];
        let mut process = Petasos::start(&[&arguments[..], more].concat());
        let line = process.line();
        let url = line.strip_prefix("dashboard at ").expect("it says where").to_owned();
        let (address, token) = url.split_once("/#token=").expect("it has a token");
        let address = address.strip_prefix("http://").expect("it is on loopback").to_owned();
        let token = token.to_owned();
        Dashboard { _process: process, url, address, token }
    }

    /// The page of the router, with the token.
    pub fn router_url(&self) -> String {
        self.url.replace("/#", "/router#")
    }

    pub fn bearer(&self) -> String {
        format!("Authorization: Bearer {}\r\n", self.token)
    }

    /// Asks with these headers, each with its line's end.
    pub fn ask(&self, method: &str, target: &str, headers: &str) -> Answer {
        let address = &self.address;
        let request = format!("{method} {target} HTTP/1.1\r\nHost: {address}\r\n{headers}\r\n");
        ask(address, &request)
    }

    /// Waits for a state.
    pub fn await_state(&self, is_right: impl Fn(&Value) -> bool) -> Value {
        self.await_state_since(0, is_right)
    }

    pub fn await_state_since(&self, sequence: u64, is_right: impl Fn(&Value) -> bool) -> Value {
        self.await_of(&format!("/api/state?since={sequence}"), is_right)
    }

    /// Waits for a state at a path.
    pub fn await_of(&self, target: &str, is_right: impl Fn(&Value) -> bool) -> Value {
        answered(|| self.ask("GET", target, &self.bearer()).json(), is_right)
    }
}

/// Asks until the answer is right.
pub fn answered(ask: impl Fn() -> Value, is_right: impl Fn(&Value) -> bool) -> Value {
    let clock = Clock::system();
    let deadline = clock.now() + WATCHDOG;
    loop {
        let answer = ask();
        if is_right(&answer) {
            return answer;
        }
        assert!(clock.now() < deadline, "it stays {answer}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// What a server answers.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(of, _)| of.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

/// Sends a request of one line and headers, and reads the answer.
pub fn ask(address: &str, request: &str) -> Answer {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(WATCHDOG)).expect("it is a socket");
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut bytes = Vec::new();
    let length = |head: &str| {
        let lines = head.lines().filter_map(|line| line.split_once(": "));
        let mut lengths = lines.filter(|(name, _)| name.eq_ignore_ascii_case("content-length"));
        lengths.next().map_or(0, |(_, length)| length.parse().expect("it is a number"))
    };
    loop {
        let mut part = [0; 16 << 10];
        let count = stream.read(&mut part).expect("it answers");
        bytes.extend_from_slice(&part[..count]);
        let text = String::from_utf8_lossy(&bytes);
        if let Some((head, body)) = text.split_once("\r\n\r\n")
            && body.len() >= length(head)
        {
            let status = head.strip_prefix("HTTP/1.1 ").expect("it is HTTP")[..3].parse();
            let (head, body) = (head.to_owned(), body.to_owned());
            return Answer { status: status.expect("a number"), head, body };
        }
        assert!(count > 0, "it has ended within an answer: {text}");
    }
}
