//! The router's packets come and go by AF_XDP; workers are on its link, and clients behind a
//! gateway, with sockets of the kernel.

use std::net::IpAddr;
use std::os::unix::process::CommandExt;
use std::process::Command;

use petasos_endpoint::Pem;
use rcgen::SanType;

use crate::callers::{Place, call_at, worker_at};
use crate::certificates::{Authority, Folder};
use crate::network::Network;
use crate::support::{Process, router};
use crate::typed::{SERVICE, check, target};

pub const LISTEN: [&str; 2] = ["--listen", "10.78.0.1:0"];
const BY_XDP: [&str; 5] = ["--plane", "xdp-socket", "--interface", "v0", "--partial-checksums"];

/// A plane past the kernel's stack.
pub struct ByXdp<'a> {
    /// The router's arguments for it.
    pub arguments: &'a [&'a str],
    /// What the router says of it.
    pub said: &'a str,
    /// Looks at the router after each thing that happens, while calls go on.
    pub look: &'a dyn Fn(),
}

const BY_SOCKET: ByXdp<'static> =
    ByXdp { arguments: &BY_XDP, said: "xdp-socket on v0 queue 0 (native)", look: &|| {} };

/// Calls go on while a worker is killed and another one comes, and while the router's link is down
/// for a moment.
pub fn calls_go_through(
    network: &Network,
    by: &ByXdp<'_>,
    security: &[&str],
    [of_workers, of_client]: [Place; 2],
) {
    let arguments = [&LISTEN[..], by.arguments, &SERVICE, security].concat();
    let (process, address) = network.router.run(|| router(&arguments));
    assert!(process.ready.contains(by.said), "{}", process.ready);
    assert!(has_program(network), "the interface has the program");
    let group = target(&[address]);
    let worker = || network.workers.run(|| worker_at(&group, &of_workers));
    let mut workers = vec![worker(), worker()];
    let seen = network.client.run(|| {
        call_at(&group, &of_client, |until_more| {
            let more = || {
                until_more(100);
                (by.look)();
            };
            more();
            workers[0].kill();
            more();
            workers.push(worker());
            more();
            network.router.ip("link set v0 down");
            network.router.ip("link set v0 up");
            // The system has forgotten its way to the client.
            network.router.ip("route replace 10.79.0.0/24 via 10.78.0.254");
            more();
        })
    });
    // Each of three threads has one call under way, at the kill and while nothing gets through.
    check(&seen, workers, 6);
    drop::<Process>(process);
    assert!(!has_program(network), "the program goes with its process");
}

pub fn has_program(network: &Network) -> bool {
    network.router.ip("link show dev v0").contains("xdp")
}

#[test]
fn rt26_calls_go_through_a_router_with_af_xdp_in_plaintext() {
    let Some(network) = Network::new() else { return };
    let [_, workers, client] = Network::addresses().map(|ip| Place { ip, folder: None });
    calls_go_through(&network, &BY_SOCKET, &["--plaintext"], [workers, client]);
}

#[test]
fn rt28_calls_go_through_a_router_with_af_xdp_sealed() {
    sealed_calls_go_through(&BY_SOCKET, "xdp");
}

/// Certificates of router, workers and client, as long as this is there.
pub struct Certified {
    folders: [Folder; 3],
}

impl Certified {
    /// In folders whose names begin with `of`.
    pub fn new(of: &str) -> Certified {
        let authority = Authority::new("ours");
        let pem = |name: &str, ip: IpAddr| -> Pem {
            let add = |params: &mut rcgen::CertificateParams| {
                params.subject_alt_names.push(SanType::IpAddress(ip));
            };
            authority.pem_with(&format!("{name}.test"), add)
        };
        let ips = Network::addresses();
        let mut folders = ["router", "workers", "client"].into_iter().zip(ips).map(|(name, ip)| {
            let folder = Folder::new(&format!("{of}-{name}"));
            folder.write(&pem(name, ip));
            folder
        });
        let folders = core::array::from_fn(|_| folders.next().expect("there are three"));
        Certified { folders }
    }

    /// The router's arguments.
    pub fn arguments(&self) -> [String; 6] {
        let file = |name| self.folders[0].path().join(name).to_str().expect("text").to_owned();
        let [tls_cert, tls_key, tls_ca] = ["--tls-cert", "--tls-key", "--tls-ca"].map(String::from);
        let [certificate, key, authorities] = ["certificate", "key", "authorities"].map(file);
        [tls_cert, certificate, tls_key, key, tls_ca, authorities]
    }

    /// Where workers and clients are.
    pub fn places(&self) -> [Place; 2] {
        let [_, workers, client] = Network::addresses();
        let [_, of_workers, of_client] = &self.folders;
        let place = |ip, folder: &Folder| Place { ip, folder: Some(folder.path().to_owned()) };
        [place(workers, of_workers), place(client, of_client)]
    }
}

/// The folders of certificates begin with `of`.
pub fn sealed_calls_go_through(by: &ByXdp<'_>, of: &str) {
    let Some(network) = Network::new() else { return };
    let certified = Certified::new(of);
    let arguments = certified.arguments();
    calls_go_through(&network, by, &arguments.each_ref().map(String::as_str), certified.places());
}

/// What a router with these arguments says before it ends, in the router's namespace.
pub fn said(network: &Network, arguments: &[&str]) -> (bool, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_petasos-router"));
    command.args(arguments);
    let output = network.router.run(|| command.output()).expect("it starts");
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(text).expect("it is text"))
}

#[test]
fn what_is_wrong_with_af_xdp_is_said() {
    let Some(network) = Network::new() else { return };
    let xdp = [&LISTEN[..], &["--plaintext", "--plane", "xdp-socket"]].concat();
    let cases: [(&[&str], &str); 6] = [
        (&["--interface", "v9"], "there is no interface v9"),
        (&["--interface", "lo"], "interface lo does not have the address 10.78.0.1"),
        (&["--queue", "7"], "no queue 7"),
        (&["--data", "10.99.0.1:0"], "10.99.0.1:0 is not an address of this host"),
        (&["--data", "0.0.0.0:0"], "needs an interface's address in data, not 0.0.0.0"),
        (&["--queue", "many"], "--queue"),
    ];
    for (more, wanted) in cases {
        let (is_right, text) = said(&network, &[&xdp[..], more].concat());
        assert!(!is_right && text.contains(wanted), "{more:?}: {text}");
    }
    let (is_right, text) =
        said(&network, &[&LISTEN[..], &["--plaintext", "--queue", "0"]].concat());
    assert!(!is_right && text.contains("queue is for plane xdp-socket only"), "{text}");
    network.router.ip("link set v0 down");
    let (is_right, text) = said(&network, &xdp);
    assert!(!is_right && text.contains("ip link set v0 up"), "{text}");
}

#[test]
fn without_privileges_it_says_which_it_needs() {
    let Some(network) = Network::new() else { return };
    // Where everybody may run it.
    let program = std::env::temp_dir().join(format!("petasos-router-{}", std::process::id()));
    std::fs::copy(env!("CARGO_BIN_EXE_petasos-router"), &program).expect("there is room");
    let mut command = Command::new(&program);
    command.args(LISTEN).args(BY_XDP).arg("--plaintext").uid(65_534).gid(65_534);
    let output = network.router.run(|| command.output()).expect("it starts");
    std::fs::remove_file(&program).expect("it was written");
    let text = String::from_utf8(output.stderr).expect("it is text");
    assert!(!output.status.success() && text.contains("CAP_NET_RAW"), "{text}");
}

#[test]
fn where_an_interface_has_several_queues_it_says_how_packets_reach_its_own() {
    let Some(network) = Network::with_queues(2) else { return };
    let on_one = [&LISTEN[..], &BY_XDP, &["--plaintext", "--queue", "1"]].concat();
    let (process, _) = network.router.run(|| router(&on_one));
    let port = process.ready.rsplit(':').next().expect("it says where").trim().to_owned();
    let wanted = format!("ethtool -N v0 flow-type udp4 dst-port {port} action 1");
    assert!(process.first.iter().any(|line| line.contains(&wanted)), "{:?}", process.first);
}

/// A router that runs keeps its interface while others are started and checked there.
#[test]
fn a_router_that_runs_is_not_disturbed_by_a_check_or_by_another_one() {
    let Some(network) = Network::new() else { return };
    let by_xdp = [&LISTEN[..], &BY_XDP, &["--plaintext"]].concat();
    let (first, _) = network.router.run(|| router(&by_xdp));
    let (is_right, text) = said(&network, &[&by_xdp[..], &["--check"]].concat());
    assert!(is_right && text.contains("1 group, all right"), "{text}");
    let (is_right, text) = said(&network, &by_xdp);
    assert!(!is_right && text.contains("has XDP program"), "{text}");
    assert!(text.contains(&format!("{}", first.child.id())), "and says who has it: {text}");
    let wrong = [&by_xdp[..], &["--check", "--queue", "9"]].concat();
    let (is_right, text) = said(&network, &wrong);
    assert!(!is_right && text.contains("no queue 9"), "{text}");
    assert!(has_program(&network));
}
