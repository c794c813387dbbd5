//! A process of the same user, but in another container: rings are refused, at both ends.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, Command, Stdio};

use petasos_netio::{PacketIo, RouteError};
use petasos_netio_conformance::turns;
use petasos_netio_shm::{ShmConfig, ShmIo};

/// Set in the child: the name of the parent.
const PARENT: &str = "PETASOS_TEST_PARENT";

fn bind(other_users: bool) -> ShmIo {
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let config = ShmConfig { other_users, ..ShmConfig::default() };
    ShmIo::bind(any, config).expect("the name is free")
}

struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Not a test of its own: takes anybody, connects to the parent, and says where it listens.
#[test]
fn child_in_another_container() {
    let Ok(parent) = std::env::var(PARENT) else { return };
    let mut io = bind(true);
    io.route(parent.parse().expect("an address")).expect("nothing is refused at this end");
    println!("\nlistens at {}", io.local_address());
    std::io::stdout().flush().expect("the parent reads");
    // Ends with the parent, if it is not killed before.
    let _ = std::io::stdin().read_line(&mut String::new());
}

#[test]
fn rings_of_another_container_are_refused_at_both_ends() {
    let mut io = bind(false);
    // The same user number for the kernel, and the same network.
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-current-user", "--mount", "--"]);
    command.arg(std::env::current_exe().expect("a test has a file"));
    command.args(["child_in_another_container", "--exact", "--nocapture"]);
    command.env(PARENT, io.local_address().to_string());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = Ended(command.spawn().expect("util-linux is installed"));
    let out = BufReader::new(child.0.stdout.take().expect("it is piped"));
    let mut lines = out.lines().map_while(Result::ok);
    let Some(theirs) = lines.find_map(|line| line.strip_prefix("listens at ")?.parse().ok()) else {
        petasos_skips::skip("user-namespaces", "this system gives no user namespace");
        return;
    };
    let refused = turns().any(|_| {
        io.receive();
        io.link_stats().links_refused > 0 || io.links() > 0
    });
    assert!(refused && io.links() == 0, "the listening end refuses");
    let Err(RouteError::Unreachable(error)) = io.route(theirs) else { panic!("it is refused") };
    assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied, "the connecting end refuses");
}
