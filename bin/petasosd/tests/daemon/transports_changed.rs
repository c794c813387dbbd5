//! Transports of applications that a reload adds, replaces and removes while calls run (ADR 21).

use std::cell::RefCell;

use petasos::Code;
use petasos_admin::StepMut;

use crate::admin::Operator;
use crate::certificates::Authority;
use crate::load::{LAST, Load};
use crate::servers::until;
use crate::support::*;
use crate::transports::{application, tls};

const LISTEN: &str = "listen = \"127.0.0.1:0\"\n";
const WORDS: [&str; 2] = ["reached by other hosts at ", "`shop` is reached by other hosts at "];

fn reload(mut step: StepMut<'_>) {
    step.reload_mut();
}

/// An application that calls names one call after the other.
struct Caller(RefCell<Client>);

impl Caller {
    fn of(daemon: &Daemon, name: &str) -> Caller {
        Caller(daemon.attach_caller(name).into())
    }

    fn greet(&self, target: &str, name: &str) -> Result<String, u8> {
        let mut client = self.0.borrow_mut();
        let target = client.target(target);
        client.greet(target, name)
    }
}

fn write(daemon: &Daemon, text: &str) {
    std::fs::write(daemon.folder().join("petasosd.toml"), text).unwrap();
}

/// An address that no other process of this host has: of a network that is this host's alone.
fn own_address(last: u8) -> String {
    let [.., a, b] = std::process::id().to_be_bytes();
    format!("127.{}.{b}.{last}:4107", 64 + a % 128)
}

/// A daemon that is reached at an address of its own and, as `shop`, with these keys.
fn there(test: &str, keys: &str) -> (Daemon, Vec<String>) {
    let text = [LISTEN, &application("shop", keys)].concat();
    Daemon::start_configured(test, None, |_| text, &WORDS)
}

#[test]
fn adr21_a_transport_is_replaced_while_calls_run_and_none_is_lost_or_repeated() {
    let (there, at) = there("replaced-there", LISTEN);
    let (here, _) =
        Daemon::start_reached("replaced-here", None, "127.0.0.1:0", &[("shop", &at[1])]);
    let server = there.serve_as("shop", "a", LAST);
    let load = Load::begin(here.attach_caller("client"), "shop");
    let operator = Operator::of(&there);
    for round in 0..10 {
        let grpc = if round % 2 == 0 { "listen-grpc = \"127.0.0.1:0\"\n" } else { "" };
        write(&there, &[LISTEN, &application("shop", &[LISTEN, grpc].concat())].concat());
        operator.change(&[&reload]);
        load.await_bursts(3);
    }
    load.end(server);
}

#[test]
fn adr21_transports_come_and_go_and_a_plan_that_fails_leaves_them_as_they_were() {
    // Accounts apply to those that attach later.
    let uid = rustix::process::geteuid().as_raw();
    let account = format!("[application.bank]\naccounts = [\"uid:{uid}\"]\n");
    let text = [LISTEN, &application("shop", LISTEN), &account].concat();
    let (there, at) = Daemon::start_configured("added-there", None, |_| text, &WORDS);
    let shop = at[1].strip_prefix("petasos://").unwrap();
    let (added, target) = (own_address(1), format!("petasos://{}", own_address(1)));
    let peers = [("all", &*at[0]), ("shop", &*at[1]), ("bank", &*target)];
    let (here, _) = Daemon::start_reached("added-here", None, "127.0.0.1:0", &peers);
    let server = there.serve_as("shop", "a", "stop");
    let bank = there.serve_as("bank", "b", "stop");
    let caller = Caller::of(&here, "client");
    let greet = |name: &str| caller.greet(name, name);
    let said = |name: &str| Ok(format!("hello, {name}"));
    assert_eq!((greet("shop"), greet("all")), (said("shop"), said("all")));
    assert_eq!(greet("bank"), Err(Code::Unavailable as u8), "nobody listens there");
    let operator = Operator::of(&there);
    let bank_too = [
        LISTEN,
        &application("shop", LISTEN),
        &application("bank", &format!("listen = \"{added}\"\n")),
    ];
    write(&there, &bank_too.concat());
    operator.fails(&[&reload, &|mut step: StepMut<'_>| {
        step.remove_policy_mut().set_id(99);
    }]);
    assert_eq!((greet("shop"), greet("all")), (said("shop"), said("all")));
    // What was opened and undone is not there.
    assert_eq!(greet("bank"), Err(Code::Unavailable as u8));
    operator.change(&[&reload]);
    until(|| greet("bank").is_ok());
    assert_eq!(greet("shop"), said("shop"));
    // An address that somebody else has.
    let _taken = std::net::TcpListener::bind(own_address(2)).unwrap();
    let taken = format!("listen = \"{}\"\n", own_address(2));
    write(&there, &[LISTEN, &application("shop", &taken)].concat());
    let (_, why) = operator.fails(&[&reload]);
    assert!(why.contains("application `shop`: cannot listen at"), "{why}");
    // Or another application: its callers are not to be shared.
    let bank_at = format!("listen = \"{added}\"\n");
    for same in [
        [application("shop", &bank_at), application("bank", &bank_at)],
        [application("shop", &bank_at), String::new()],
    ] {
        write(&there, &[LISTEN, &same.concat()].concat());
        let (_, why) = operator.fails(&[&reload]);
        assert!(why.contains("application `shop`: cannot listen at"), "{why}");
    }
    assert_eq!((greet("shop"), greet("bank")), (said("shop"), said("bank")));
    // Without a transport of its own, it is called where all are.
    write(&there, LISTEN);
    operator.change(&[&reload]);
    until(|| std::net::TcpStream::connect(shop).is_err());
    assert_eq!(greet("shop"), Err(Code::Unavailable as u8));
    assert_eq!(caller.greet("all", "stop"), said("stop"));
    assert_eq!(Caller::of(&there, "client").greet("b", "stop"), said("stop"));
    assert_eq!(server.join().unwrap().last().unwrap(), "stop");
    assert!(bank.join().unwrap().iter().all(|name| ["all", "bank", "stop"].contains(&&**name)));
}

#[test]
fn adr21_who_may_call_no_more_is_refused_soon_after_the_reload() {
    let authority = Authority::new("tests");
    let text = |folder: &std::path::Path, allowed: &str| {
        let service = tls(folder, "service", &authority.pem("spiffe://hosts/there"));
        let its = tls(folder, "shop", &authority.pem("spiffe://apps/shop"));
        let keys = format!("{LISTEN}allow = [\"spiffe://hosts/{allowed}\"]\n{its}");
        [LISTEN, &service, &application("shop", &keys)].concat()
    };
    let (there, at) =
        Daemon::start_configured("allowed", None, |folder| text(folder, "teller"), &WORDS);
    let host = |name: &str| {
        let (pem, peers) = (authority.pem(&format!("spiffe://hosts/{name}")), [("shop", &*at[1])]);
        let test = format!("allowed-{name}");
        Daemon::start_certified(&test, None, "127.0.0.1:0", &peers, (&pem, &[])).0
    };
    let hosts = ["teller", "clerk"].map(host);
    let [teller, clerk] = hosts.each_ref().map(|host| Caller::of(host, "client"));
    let server = there.serve_as("shop", "a", "stop");
    let greet = |from: &Caller, name: &str| from.greet("shop", name);
    let unavailable = || Err(Code::Unavailable as u8);
    assert_eq!(greet(&teller, "ann"), Ok("hello, ann".to_owned()));
    assert_eq!(greet(&clerk, "ann"), unavailable());
    write(&there, &text(there.folder(), "clerk"));
    Operator::of(&there).change(&[&reload]);
    until(|| greet(&teller, "bob") == unavailable());
    until(|| greet(&clerk, "carl").is_ok());
    assert_eq!(greet(&teller, "dan"), unavailable(), "and stays so");
    assert_eq!(greet(&clerk, "stop"), Ok("hello, stop".to_owned()));
    assert!(!server.join().unwrap().contains(&"dan".to_owned()));
}

#[test]
fn adr21_one_application_at_a_time_moves_from_datagrams_to_tcp() {
    let over_tcp = ["transport = \"tcp\"\n", LISTEN].concat();
    let (there, at) = there("tcp-there", LISTEN);
    let server = there.serve_as("shop", "a", "stop");
    let tcp = own_address(3);
    let peers =
        format!("peer = [\"all={}\", \"shop={}\", \"shop-tcp=petasos://{tcp}\"]\n", at[0], at[1]);
    let text = [LISTEN, &peers, &application("buyer", LISTEN)].concat();
    let (here, _) = Daemon::start_configured("tcp-here", None, |_| text, &WORDS[..1]);
    let operators = [&here, &there].map(Operator::of);
    let gather = |mut step: StepMut<'_>| {
        step.configure_transport_mut().set_gathered(false);
    };
    operators.iter().for_each(|one| drop(one.fails(&[&gather])));
    let [buyer, other] = ["buyer", "other"].map(|name| Caller::of(&here, name));
    assert_eq!(buyer.greet("shop", "ann"), Ok("hello, ann".to_owned()));
    let at_tcp = format!("listen = \"{tcp}\"\ntransport = \"tcp\"\n");
    write(&there, &[LISTEN, &application("shop", &at_tcp)].concat());
    write(&here, &[LISTEN, &peers, &application("buyer", &over_tcp)].concat());
    operators.iter().for_each(|one| one.change(&[&reload]));
    until(|| buyer.greet("shop-tcp", "bob").is_ok());
    // Both ends of a call must have the same.
    assert_eq!(other.greet("shop-tcp", "eve"), Err(Code::Unavailable as u8));
    // TCP can be switched now.
    operators.iter().for_each(|one| one.change(&[&gather]));
    assert_eq!(buyer.greet("shop-tcp", "stop"), Ok("hello, stop".to_owned()));
    assert!(!server.join().unwrap().contains(&"eve".to_owned()));
}
