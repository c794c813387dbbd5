//! A router, a primary with replicas, and an adapter.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::redis::{Client, Node, Process, folder, has_all, module, router_program, until};

pub struct Group {
    // Ends before those that it calls.
    _adapter: Process,
    pub adapter: SocketAddr,
    pub nodes: Vec<Node>,
    pub target: String,
    _router: Process,
    _folder: PathBuf,
}

impl Group {
    /// A group whose nodes are all members; `None` if this host cannot have one.
    pub fn start(test: &str, nodes: usize, adapter: &[&str]) -> Option<Group> {
        if !has_all() {
            return None;
        }
        let folder = folder(test);
        let (router, target) = start_router();
        let first = start_node(&folder, 0, &target, None, &[]);
        let mut all = vec![first];
        for number in 1..nodes {
            all.push(start_node(&folder, number, &target, Some(all[0].address), &[]));
        }
        until("all are members", || all.iter().all(|node| node.status("membership") == "member"));
        let mut command = Command::new(env!("CARGO_BIN_EXE_petasos-redis-adapter"));
        command.args(["--listen", "127.0.0.1:0", "--group", &target]).args(adapter);
        let mut process = Process::start(command.stdout(Stdio::piped()));
        let line = process.first_line();
        let address = line.trim().rsplit(' ').next().and_then(|address| address.parse().ok());
        let adapter = address.unwrap_or_else(|| panic!("the adapter says `{line}`"));
        let (router, process) = (router, process);
        Some(Group {
            _adapter: process,
            adapter,
            nodes: all,
            target,
            _router: router,
            _folder: folder,
        })
    }

    pub fn client(&self) -> Client {
        Client::connect(self.adapter)
    }
}

fn start_router() -> (Process, String) {
    let mut command = Command::new(router_program());
    command.args(["--listen", "127.0.0.1:0", "--policy", "jbsq20"]);
    command.args(["--service", "petasos.redis.v1.Redis"]);
    let mut router = Process::start(command.stdout(Stdio::piped()).stderr(Stdio::null()));
    let line = router.first_line();
    let at = line.split_once("join at ").and_then(|(_, rest)| rest.split_once(','));
    let address = at.unwrap_or_else(|| panic!("the router says `{line}`")).0;
    let target = format!("router://{address}");
    (router, target)
}

/// Starts a node, which joins as soon as it is in step.
fn start_node(
    folder: &std::path::Path,
    number: usize,
    target: &str,
    primary: Option<SocketAddr>,
    more: &[&str],
) -> Node {
    let module = module().to_str().expect("a text");
    let mut options = vec!["--loadmodule", module, "group", target, "listen", "127.0.0.1:0"];
    let port = primary.map(|primary| primary.port().to_string());
    if let Some(port) = &port {
        options.extend(["--replicaof", "127.0.0.1", port]);
    }
    options.extend(more);
    Node::start(&folder.join(number.to_string()), &options)
}
