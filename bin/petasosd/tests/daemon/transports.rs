//! Applications with transports of their own (ADR 21): certificates, addresses, or both.

use std::path::Path;

use petasos::{Code, Pem};
use petasos_admin::StepMut;

use crate::admin::Operator;
use crate::certificates::Authority;
use crate::support::*;

const REACHED: &str = "reached by other hosts at ";

/// The keys of a certificate, whose files are in a folder.
pub fn tls(folder: &Path, name: &str, pem: &Pem) -> String {
    let files = [("cert", &pem.certificate), ("key", &pem.key), ("ca", &pem.authorities)];
    let keys = files.map(|(kind, contents)| {
        let file = folder.join(format!("{name}-{kind}.pem"));
        std::fs::write(&file, contents.as_ref().unwrap()).unwrap();
        format!("tls-{kind} = \"{}\"\n", file.display())
    });
    keys.concat()
}

/// An application of this user with a transport that has these keys.
pub fn application(name: &str, keys: &str) -> String {
    let uid = rustix::process::geteuid().as_raw();
    format!(
        "[application.{name}]\naccounts = [\"uid:{uid}\"]\n\
         [application.{name}.transport]\n{keys}\n"
    )
}

fn greeted(daemon: &Daemon, application: &str, target: &str, name: &str) -> Result<String, u8> {
    let mut client = daemon.attach_caller(application);
    let target = client.target(target);
    client.greet(target, name)
}

/// Allows calls of one identity only.
const FRONTEND_ONLY: &str = r#"[{"application": "*", "kind": "access", "configuration": {
    "default": "deny",
    "rules": [{"name": "frontend", "action": "allow", "identity": "spiffe://apps/frontend"}]}}]"#;

#[test]
fn adr21_an_application_with_a_certificate_needs_nobody_that_vouches_for_it() {
    let authority = Authority::new("tests");
    let there = authority.pem("spiffe://hosts/there");
    // It believes no service about who calls.
    let (there, address) = Daemon::start_certified(
        "own-there",
        Some(FRONTEND_ONLY),
        "127.0.0.1:0",
        &[],
        (&there, &[]),
    );
    let peers = format!("peer = [\"greeter={address}\"]\n");
    let certified = |folder: &Path| {
        let service = tls(folder, "service", &authority.pem("spiffe://hosts/here"));
        let its = tls(folder, "frontend", &authority.pem("spiffe://apps/frontend"));
        format!("{peers}{service}{}", application("frontend", &its))
    };
    let (here, _) = Daemon::start_configured("own-here", None, |folder| certified(folder), &[]);
    let server = there.serve("server", 3);
    let denied = || Err(Code::PermissionDenied as u8);
    for (application, said) in [
        ("frontend", Ok("hello, ann".to_owned())),
        ("batch", denied()),
        ("frontend", Ok("hello, ann".to_owned())),
        ("batch", denied()),
        ("frontend", Ok("hello, ann".to_owned())),
    ] {
        assert_eq!(greeted(&here, application, "greeter", "ann"), said, "{application}");
    }
    assert_eq!(server.join().unwrap(), ["ann"; 3]);
}

#[test]
fn adr21_applications_that_serve_the_same_are_called_at_their_own_addresses() {
    let listen = "listen = \"127.0.0.1:0\"\n";
    let text =
        |_: &Path| [listen, &application("bank", listen), &application("shop", listen)].concat();
    let (there, at) = Daemon::start_configured(
        "addresses",
        None,
        text,
        &[REACHED, "`bank` is reached by other hosts at ", "`shop` is reached by other hosts at "],
    );
    let peers: Vec<_> =
        ["all", "bank", "shop"].into_iter().zip(at.iter().map(|at| &**at)).collect();
    let (here, _) = Daemon::start_reached("addresses-here", None, "127.0.0.1:0", &peers);
    // Nobody serves at the service's own address yet, whatever applications have one of their own.
    let servers = [there.serve_as("shop", "a", "stop"), there.serve_as("bank", "b", "stop")];
    for name in ["shop", "bank"] {
        assert_eq!(greeted(&here, "client", name, name), Ok(format!("hello, {name}")));
    }
    assert_eq!(greeted(&here, "client", "all", "ann"), Err(Code::Unimplemented as u8));
    // Also from the same host.
    assert_eq!(greeted(&there, "client", &at[2], "near"), Ok("hello, near".to_owned()));
    let other = there.serve_as("other", "c", "stop");
    for (target, name) in [("all", "ann"), ("shop", "stop"), ("bank", "stop"), ("all", "stop")] {
        assert_eq!(greeted(&here, "client", target, name), Ok(format!("hello, {name}")));
    }
    let names = servers.map(|server| server.join().unwrap());
    assert_eq!(names, [&["shop", "near", "stop"][..], &["bank", "stop"]]);
    assert_eq!(other.join().unwrap(), ["ann", "stop"]);
}

#[test]
fn adr21_who_may_call_an_application_is_its_certificates_matter() {
    let authority = Authority::new("tests");
    let text = |folder: &Path| {
        let service = tls(folder, "service", &authority.pem("spiffe://hosts/there"));
        let its = tls(folder, "bank", &authority.pem("spiffe://apps/bank"));
        let keys = format!("listen = \"127.0.0.1:0\"\nallow = [\"spiffe://hosts/teller\"]\n{its}");
        format!("listen = \"127.0.0.1:0\"\n{service}{}", application("bank", &keys))
    };
    let words = [REACHED, "`bank` is reached by other hosts at "];
    let (there, at) = Daemon::start_configured("own-allow", None, text, &words);
    let host = |name: &str| {
        let (pem, peers) = (authority.pem(&format!("spiffe://hosts/{name}")), [("bank", &*at[1])]);
        let test = format!("own-allow-{name}");
        Daemon::start_certified(&test, None, "127.0.0.1:0", &peers, (&pem, &[])).0
    };
    let server = there.serve("bank", 1);
    assert_eq!(greeted(&host("other"), "client", "bank", "eve"), Err(Code::Unavailable as u8));
    let said = greeted(&host("teller"), "client", "bank", "ann");
    assert_eq!(said, Ok("hello, ann".to_owned()));
    assert_eq!(server.join().unwrap(), ["ann"]);
}

#[test]
fn a_transport_is_for_a_name_that_others_cannot_have() {
    let file = std::env::temp_dir().join(format!("petasosd-own-{}.toml", std::process::id()));
    let refused = |text: &str| {
        std::fs::write(&file, text).unwrap();
        let said = Daemon::start_failing(&["--config", file.to_str().unwrap()]);
        let _ = std::fs::remove_file(&file);
        said
    };
    for (text, why) in [
        ("[application.shop.transport]\nlisten = \"127.0.0.1:0\"", "give its `accounts`"),
        (
            "[application.shop]\naccounts = [\"uid:7\"]\ntransport = {}",
            "give it `listen`, `listen-grpc`, `transport` or a certificate",
        ),
        (
            "[application.shop]\naccounts = [\"uid:7\"]\ntransport = { tls-cert = \"x\" }",
            "give --tls-cert, --tls-key and --tls-ca together",
        ),
        (
            "[application.shop]\naccounts = [\"uid:7\"]\ntransport = { port = 7 }",
            "unknown field `port`",
        ),
        (
            "[application.shop]\naccounts = [\"uid:7\"]\n\
             transport = { listen = \"192.0.2.1:0\" }",
            "192.0.2.1",
        ),
    ] {
        let said = refused(text);
        assert!(said.contains(why), "{text}: {said}");
    }
}

#[test]
fn a_reload_takes_no_account_from_a_transport_and_leaves_none_without_a_key() {
    let listen = "listen = \"127.0.0.1:0\"\n";
    let text = |_: &Path| application("shop", listen);
    let words = ["`shop` is reached by other hosts at "];
    let (daemon, _) = Daemon::start_configured("own-reload", None, text, &words);
    let operator = Operator::of(&daemon);
    let reload = |mut step: StepMut<'_>| {
        step.reload_mut();
    };
    let anybodys = format!("[application.shop.transport]\n{listen}");
    for (text, why) in [
        (application("shop", ""), "give it `listen`, `listen-grpc`, `transport` or a certificate"),
        (anybodys, "give its `accounts`"),
    ] {
        std::fs::write(daemon.folder().join("petasosd.toml"), text).unwrap();
        let (code, said) = operator.fails(&[&reload]);
        assert!(said.contains(why), "{code:?} {said}");
    }
    std::fs::write(daemon.folder().join("petasosd.toml"), application("shop", listen)).unwrap();
    operator.change(&[&reload]);
}
