//! Daemons that other hosts reach are replaced while calls cross hosts (C22).

use std::net::SocketAddr;

use petasos::{Code, Loop, ServiceChoice};

use super::chain::Chain;
use super::hostile;
use super::traffic::{Counting, Load, check};
use crate::certificates::{Authority, Folder};
use crate::support::managed::WorkClient;
use crate::support::*;

/// Two addresses of loopback, as two hosts have them.
const HERE: &str = "127.0.0.1:0";
const THERE: &str = "127.0.0.2:0";

/// Calls and streams from `here` to `there`.
fn loads(here: &Chain, there: SocketAddr) -> [Load; 2] {
    [
        Load::unary_at(here.daemon.service("unary"), there, 0),
        Load::streams_at(here.daemon.service("streams"), there, 1 << 40),
    ]
}

#[test]
fn the_port_of_grpc_clients_is_handed_over_and_their_calls_are_neither_lost_nor_repeated() {
    let arguments = ["--listen-grpc", HERE];
    let (mut chain, address) = Chain::start_saying("grpc", &arguments, "clients at grpc://");
    let (counts, _server) = Counting::serve(&chain.daemon);
    let loads = [Load::grpc(&address, 0), Load::grpc(&address, 1 << 40)];
    loads.iter().for_each(Load::await_more);
    let why = chain.fail_to_replace(&[]);
    assert!(why.contains(&format!("give --listen-grpc {address}")), "{why}");
    for _ in 0..5 {
        chain.replace(&["--listen-grpc", &address]);
        chain.await_former();
    }
    check(&counts, &loads.map(Load::stop));
}

fn replace(chain: &mut Chain, address: SocketAddr, options: &[&str]) {
    let listen = address.to_string();
    chain.replace(&[&["--listen", &*listen], options].concat());
    chain.await_former();
}

#[test]
fn the_host_that_is_called_is_replaced_and_loses_and_repeats_nothing() {
    let (mut there, there_at) = Chain::start_reached("called-there", THERE, &[]);
    let (here, _) = Chain::start_reached("called-here", HERE, &[]);
    let (counts, _server) = Counting::serve(&there.daemon);
    let [unary, streams] = loads(&here, there_at);
    // And by a program without a service.
    let direct = Load::unary_at(ServiceChoice::Direct, there_at, 1 << 50);
    for _ in 0..5 {
        [&unary, &streams, &direct].into_iter().for_each(Load::await_more);
        replace(&mut there, there_at, &[]);
    }
    check(&counts, &[unary.stop(), streams.stop(), direct.stop()]);
}

#[test]
fn hosts_with_packets_over_tcp_are_replaced_and_lose_and_repeat_nothing() {
    let tcp = ["--transport", "tcp"];
    let (mut there, there_at) = Chain::start_reached("tcp-there", THERE, &tcp);
    let (mut here, here_at) = Chain::start_reached("tcp-here", HERE, &tcp);
    let (counts, _server) = Counting::serve(&there.daemon);
    let loads = loads(&here, there_at);
    for _ in 0..3 {
        loads.iter().for_each(Load::await_more);
        replace(&mut there, there_at, &tcp);
        replace(&mut here, here_at, &tcp);
    }
    check(&counts, &loads.map(Load::stop));
}

#[test]
fn the_host_that_calls_is_replaced_and_loses_and_repeats_nothing() {
    let (there, there_at) = Chain::start_reached("calls-there", THERE, &[]);
    let (mut here, here_at) = Chain::start_reached("calls-here", HERE, &[]);
    let (counts, _server) = Counting::serve(&there.daemon);
    let loads = loads(&here, there_at);
    for _ in 0..5 {
        loads.iter().for_each(Load::await_more);
        replace(&mut here, here_at, &[]);
    }
    check(&counts, &loads.map(Load::stop));
}

#[test]
fn the_host_that_calls_and_is_not_called_is_replaced_and_loses_and_repeats_nothing() {
    let (there, there_at) = Chain::start_reached("only-there", THERE, &[]);
    let peer = ["--peer", "nobody=petasos://127.0.0.1:1"];
    let mut here = Chain::start("only-here", &peer);
    let (counts, _server) = Counting::serve(&there.daemon);
    let loads = loads(&here, there_at);
    for _ in 0..5 {
        loads.iter().for_each(Load::await_more);
        here.replace(&peer);
        here.await_former();
    }
    check(&counts, &loads.map(Load::stop));
}

#[test]
fn hosts_that_are_replaced_in_turns_lose_and_repeat_nothing() {
    let (mut there, there_at) = Chain::start_reached("turns-there", THERE, &[]);
    let (mut here, here_at) = Chain::start_reached("turns-here", HERE, &[]);
    let (counts, _server) = Counting::serve(&there.daemon);
    let loads = loads(&here, there_at);
    for _ in 0..5 {
        loads.iter().for_each(Load::await_more);
        replace(&mut there, there_at, &[]);
        replace(&mut here, here_at, &[]);
    }
    check(&counts, &loads.map(Load::stop));
}

#[test]
fn hosts_with_certificates_are_replaced_and_lose_and_repeat_nothing() {
    let authority = Authority::new("hosts");
    let certified = |name: &str, host: &str| {
        let folder = Folder::new(&format!("petasosd-replaced-{name}"));
        let files = folder.write(&authority.pem(host));
        let text = |path: Option<std::path::PathBuf>| path.unwrap().display().to_string();
        let options = [
            ("--tls-cert", text(files.certificate)),
            ("--tls-key", text(files.key)),
            ("--tls-ca", text(files.authorities)),
            ("--allow", "spiffe://hosts/here".to_owned()),
            ("--allow", "spiffe://hosts/there".to_owned()),
        ];
        let options = options.into_iter().flat_map(|(name, value)| [name.to_owned(), value]);
        (folder, options.collect::<Vec<String>>())
    };
    let (_there_files, there_options) = certified("there", "spiffe://hosts/there");
    let (_here_files, here_options) = certified("here", "spiffe://hosts/here");
    let there_options: Vec<&str> = there_options.iter().map(String::as_str).collect();
    let here_options: Vec<&str> = here_options.iter().map(String::as_str).collect();
    let (mut there, there_at) = Chain::start_reached("tls-there", THERE, &there_options);
    let (here, _) = Chain::start_reached("tls-here", HERE, &here_options);
    let (counts, _server) = Counting::serve(&there.daemon);
    let [unary, streams] = loads(&here, there_at);
    for _ in 0..5 {
        [&unary, &streams].into_iter().for_each(Load::await_more);
        replace(&mut there, there_at, &there_options);
    }
    check(&counts, &[unary.stop(), streams.stop()]);
}

/// A client at `here`, and what it calls at an address.
fn client_at(here: &Chain, there: SocketAddr) -> (Loop, WorkClient) {
    let event_loop = here.daemon.event_loop("client");
    let client = WorkClient::new(event_loop.channel(there));
    (event_loop, client)
}

fn works(event_loop: &Loop, client: &WorkClient) {
    event_loop.block_on(async {
        assert_eq!(client.echo(item("on", 1)).await.unwrap().number(), 1);
    });
}

#[test]
fn a_stream_between_hosts_ends_where_it_has_begun() {
    let (mut there, address) = Chain::start_reached("stream-there", THERE, &[]);
    let (here, _) = Chain::start_reached("stream-here", HERE, &[]);
    let _server = there.daemon.server("server");
    let (event_loop, client) = client_at(&here, address);
    event_loop.block_on(async {
        let (mut out, mut back) = client.chat().await.unwrap();
        for number in 0..30 {
            out.send(item("over", number)).await.unwrap();
            assert_eq!(back.message().await.unwrap().unwrap().number(), number);
            if number == 10 {
                there.replace(&["--listen", &address.to_string()]);
            }
            // Others begin at the successor meanwhile.
            assert_eq!(client.echo(item("new", number)).await.unwrap().number(), number);
        }
        out.close();
        assert!(back.message().await.unwrap().is_none());
    });
    there.await_former();
    works(&event_loop, &client);
}

#[test]
fn a_stream_between_hosts_that_does_not_end_is_ended_with_the_process() {
    let drain = ["--drain-timeout", "1"];
    let (mut there, address) = Chain::start_reached("drain-there", THERE, &drain);
    let (here, _) = Chain::start_reached("drain-here", HERE, &[]);
    let _server = there.daemon.server("server");
    let (event_loop, client) = client_at(&here, address);
    event_loop.block_on(async {
        let (mut out, mut back) = client.chat().await.unwrap();
        out.send(item("before", 1)).await.unwrap();
        assert_eq!(back.message().await.unwrap().unwrap().number(), 1);
        there.replace(&["--listen", &address.to_string()]);
        let ended = back.message().await.unwrap_err();
        assert_eq!(ended.code(), Code::Unavailable, "{ended:?}");
        assert_eq!(client.echo(item("new", 4)).await.unwrap().number(), 4);
    });
    there.await_former();
    works(&event_loop, &client);
}

#[test]
fn a_successor_that_does_not_serve_leaves_other_hosts_to_the_one_before() {
    let (mut there, address) = Chain::start_reached("before-there", THERE, &[]);
    let (here, _) = Chain::start_reached("before-here", HERE, &[]);
    let _server = there.daemon.server("server");
    let (event_loop, client) = client_at(&here, address);
    works(&event_loop, &client);
    for options in [&[][..], &["--listen", "127.0.0.2:1"], &["--listen", "127.0.0.3:0"]] {
        let why = there.fail_to_replace(options);
        assert!(why.contains(&format!("give --listen {address}")), "{why}");
    }
    // One that is killed when it has the sockets and has not said that it serves.
    let socket = hostile::connect(&there);
    hostile::say(&socket, &hostile::HELLO);
    assert!(hostile::hear(&socket) > 0, "it gets the offer");
    drop(socket);
    works(&event_loop, &client);
    // Who has not connected yet does so.
    let (newcomer, fresh) = {
        let config = petasos::LoopConfig {
            service: here.daemon.service("newcomer"),
            ..petasos::LoopConfig::default()
        };
        drop((event_loop, client));
        let newcomer = Loop::new(config).unwrap();
        let fresh = WorkClient::new(newcomer.channel(address));
        (newcomer, fresh)
    };
    works(&newcomer, &fresh);
    replace(&mut there, address, &[]);
    works(&newcomer, &fresh);
}

#[test]
fn a_successor_that_dies_when_it_serves_other_hosts_is_a_crash() {
    let (mut there, address) = Chain::start_reached("after-there", THERE, &[]);
    let (here, _) = Chain::start_reached("after-here", HERE, &[]);
    let (counts, _server) = Counting::serve(&there.daemon);
    let unary = Load::unary_at(here.daemon.service("unary"), address, 0);
    for _ in 0..2 {
        replace(&mut there, address, &[]);
        unary.await_more();
        there.kill();
        there.restart();
        unary.await_more();
    }
    let done = unary.stop();
    println!("{} went through, {} failed", done.ids.len(), done.failed.len());
    for failed in &done.failed {
        let is_known = failed.contains("Unavailable") || failed.contains("Unimplemented");
        assert!(is_known, "{failed}");
    }
    let counts = counts.lock().unwrap();
    assert!(counts.values().all(|count| *count == 1), "none ran twice");
    assert!(done.ids.iter().all(|id| counts.contains_key(id)), "what was answered has run");
}

#[test]
fn one_that_other_hosts_do_not_reach_is_succeeded_by_one_that_they_do() {
    let mut there = Chain::start("opened-there", &[]);
    let (here, _) = Chain::start_reached("opened-here", HERE, &[]);
    let _server = there.daemon.server("server");
    let free = std::net::TcpListener::bind(THERE).unwrap().local_addr().unwrap();
    replace(&mut there, free, &[]);
    let (event_loop, client) = client_at(&here, free);
    works(&event_loop, &client);
}

#[test]
fn a_host_with_an_address_for_one_application_is_replaced_and_loses_and_repeats_nothing() {
    let folder = Folder::new("petasosd-replaced-own");
    let (uid, file) = (rustix::process::geteuid().as_raw(), folder.path().join("petasosd.toml"));
    // Counting attaches under this name.
    let text = format!(
        "[application.server]\naccounts = [\"uid:{uid}\"]\ntransport = {{ listen = \"{THERE}\" }}"
    );
    std::fs::write(&file, &text).expect("it can be written");
    let options = ["--config", file.to_str().expect("it is text")];
    let own = "`server` is reached by other hosts at petasos://";
    let (mut there, there_at) = Chain::start_saying("own-there", &options, own);
    let there_at = there_at.parse().expect("it is an address");
    let (here, _) = Chain::start_reached("own-here", HERE, &[]);
    let (counts, _server) = Counting::serve(&there.daemon);
    let loads = loads(&here, there_at);
    let why = there.fail_to_replace(&[]);
    assert!(why.contains("has a transport of the application `server`"), "{why}");
    for _ in 0..3 {
        loads.iter().for_each(Load::await_more);
        there.replace(&options);
        there.await_former();
    }
    check(&counts, &loads.map(Load::stop));
}
