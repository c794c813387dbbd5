//! Who calls, as policies know it: a certificate's name, or that of an application (ADR 21).

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

use petasos::Code;
use petasos_attach::Attachment;
use petasos_attach::hello::{Hello, Token};

use crate::certificates::Authority;
use crate::support::*;

/// An address of loopback.
const HERE: &str = "127.0.0.1:0";

/// Allows calls of one service only.
const HERE_ONLY: &str = r#"[{"application": "*", "kind": "access", "configuration": {
    "default": "deny",
    "rules": [{"name": "here", "action": "allow", "identity": "spiffe://hosts/here"}]}}]"#;

#[test]
fn adr21_a_service_proves_itself_and_policies_know_it() {
    let authority = Authority::new("tests");
    let certified = |test: &str, name: &str, policies, peers: &[(&str, &str)]| {
        let pem = authority.pem(name);
        Daemon::start_certified(test, policies, HERE, peers, (&pem, &[]))
    };
    let (there, address) = certified("tls-there", "spiffe://hosts/there", Some(HERE_ONLY), &[]);
    let peers = [("greeter", &*address)];
    let (here, _) = certified("tls-here", "spiffe://hosts/here", None, &peers);
    let (other, _) = certified("tls-other", "spiffe://hosts/other", None, &peers);
    let (plain, _) = Daemon::start_reached("tls-plain", None, HERE, &peers);
    let server = there.serve("server", 1);
    for (daemon, said) in [
        (&other, Err(Code::PermissionDenied as u8)),
        (&plain, Err(Code::Unavailable as u8)),
        (&here, Ok("hello, ann".to_owned())),
    ] {
        let mut client = daemon.attach("client");
        let target = client.target("greeter");
        assert_eq!(client.greet(target, "ann"), said);
    }
    assert_eq!(server.join().unwrap(), ["ann"]);
}

#[test]
fn services_prove_themselves_over_tcp_and_their_packets_are_encrypted() {
    let (authority, strangers) = (Authority::new("tests"), Authority::new("strangers"));
    let certified =
        |test: &str, (by, name): (&Authority, &str), policies, peers: &[(&str, &str)]| {
            let pem = by.pem(name);
            Daemon::start_certified(test, policies, HERE, peers, (&pem, &["--transport", "tcp"]))
        };
    let there = (&authority, "spiffe://hosts/there");
    let (there, address) = certified("tcp-there", there, Some(HERE_ONLY), &[]);
    let (name, peers) = ("spiffe://hosts/here", [("greeter", &*address)]);
    let sealed = r#"[{"application": "*", "kind": "require_sealing"}]"#;
    let (here, _) = certified("tcp-here", (&authority, name), Some(sealed), &peers);
    let other = (&authority, "spiffe://hosts/other");
    let (other, _) = certified("tcp-other", other, None, &peers);
    let (stranger, _) = certified("tcp-stranger", (&strangers, name), None, &peers);
    let server = there.serve("server", 2);
    let (long, unavailable) = ("x".repeat(3_000_000), Err(Code::Unavailable as u8));
    for (daemon, name, said) in [
        (&other, "ann", Err(Code::PermissionDenied as u8)),
        (&stranger, "ann", unavailable),
        (&here, "ann", Ok("hello, ann".to_owned())),
        (&here, &*long, Ok(format!("hello, {long}"))),
    ] {
        let mut client = daemon.attach("client");
        let target = client.target("greeter");
        assert!(client.greet(target, name) == said, "a name of {} bytes", name.len());
    }
    assert_eq!(server.join().unwrap().len(), 2, "others have not been heard");
}

/// The callers' side judges by how calls leave: over TLS, in the clear, or not at all.
#[test]
fn calls_that_must_be_encrypted_leave_over_tls_only() {
    let authority = Authority::new("tests");
    let pem = |name: &str| authority.pem(name);
    let (there, address) = Daemon::start_certified(
        "sealed-there",
        None,
        HERE,
        &[],
        (&pem("spiffe://hosts/there"), &[]),
    );
    let (clear, clear_address) = Daemon::start_reached("sealed-clear", None, HERE, &[]);
    let policies = r#"[{"application": "bank", "kind": "require_sealing"}]"#;
    let (here, _) = Daemon::start_certified(
        "sealed-here",
        Some(policies),
        HERE,
        &[("vault", &*address)],
        (&pem("spiffe://hosts/here"), &[]),
    );
    let (plain, _) =
        Daemon::start_reached("sealed-plain", Some(policies), HERE, &[("vault", &*clear_address)]);
    let servers = [there.serve("server", 2), clear.serve("server", 1)];
    let said = |daemon: &Daemon, application: &str, target: &str| {
        let mut client = daemon.attach(application);
        let target = client.target(target);
        client.greet(target, "ann")
    };
    let (greeted, denied) = (Ok("hello, ann".to_owned()), Err(Code::PermissionDenied as u8));
    assert_eq!(said(&here, "bank", "vault"), greeted);
    assert_eq!(said(&here, "shop", "vault"), greeted);
    assert_eq!(said(&plain, "bank", "vault"), denied);
    assert_eq!(said(&plain, "shop", "vault"), greeted, "it need not be encrypted");
    // What stays on a host is not encrypted either.
    let beside = here.serve("beside", 1);
    assert_eq!(said(&here, "bank", "greeter"), denied);
    assert_eq!(said(&here, "shop", "greeter"), greeted);
    assert!(beside.join().unwrap() == ["ann"]);
    for (server, names) in servers.into_iter().zip([2, 1]) {
        assert_eq!(server.join().unwrap().len(), names);
    }
}

/// Allows calls of an identity only.
const FRONTEND_ONLY: &str = r#"[{"application": "*", "kind": "access", "configuration": {
    "default": "deny",
    "rules": [{"name": "frontend", "action": "allow", "identity": "frontend"}]}}]"#;

/// The option that gives a name to this process's user.
pub fn ours(name: &str) -> String {
    format!("{name}=uid:{}", rustix::process::geteuid().as_raw())
}

#[test]
fn adr21_a_service_vouches_for_names_that_are_proved_and_is_believed_if_it_is_listed() {
    let authority = Authority::new("tests");
    let certified = |test: &str, name: &str, policies, peers: &[(&str, &str)], more: &[&str]| {
        let pem = authority.pem(name);
        Daemon::start_certified(test, policies, HERE, peers, (&pem, more))
    };
    let believe = ["--believe", "spiffe://hosts/here"];
    let there = "spiffe://hosts/there";
    let (there, address) = certified("vouch-there", there, Some(FRONTEND_ONLY), &[], &believe);
    let peers = [("greeter", &*address)];
    let frontend = ours("frontend");
    let proved = ["--application", &*frontend];
    let (here, _) = certified("vouch-here", "spiffe://hosts/here", None, &peers, &proved);
    let (unproved, _) = certified("vouch-unproved", "spiffe://hosts/here", None, &peers, &[]);
    let (other, _) = certified("vouch-other", "spiffe://hosts/other", None, &peers, &proved);
    let server = there.serve("server", 2);
    let denied = || Err(Code::PermissionDenied as u8);
    for (daemon, application, said) in [
        (&here, "frontend", Ok("hello, ann".to_owned())),
        (&here, "batch", denied()),
        // Nobody knows whether it is.
        (&unproved, "frontend", denied()),
        // It could tell anything.
        (&other, "frontend", denied()),
        (&here, "frontend", Ok("hello, ann".to_owned())),
    ] {
        let mut client = daemon.attach_caller(application);
        let target = client.target("greeter");
        assert_eq!(client.greet(target, "ann"), said, "{application}");
    }
    assert_eq!(server.join().unwrap(), ["ann", "ann"]);
}

#[test]
fn adr21_a_proved_name_is_the_identity_of_calls_on_the_same_host() {
    let frontend = ours("frontend");
    let options = ["--application", &*frontend, "--application", "bank=uid:4000000000"];
    // Not for callers: what their own policies see is who serves, and nobody proves that.
    let policies = FRONTEND_ONLY.replace(r#""application": "*""#, r#""application": "server""#);
    let daemon = Daemon::start_more("proved", Some(&policies), &options);
    let server = daemon.serve("server", 1);
    for (application, said) in
        [("batch", Err(Code::PermissionDenied as u8)), ("frontend", Ok("hello, ann".to_owned()))]
    {
        let mut client = daemon.attach_caller(application);
        let target = client.target("greeter");
        assert_eq!(client.greet(target, "ann"), said, "{application}");
    }
    assert_eq!(server.join().unwrap(), ["ann"]);
    let hello = Hello::new("bank", 1).unwrap();
    let refused = Attachment::connect(&daemon.folder().join("socket"), &hello, PATIENCE);
    let refused = refused.map(|_| ()).unwrap_err().to_string();
    assert!(refused.contains("for processes of another user or group"), "{refused}");
}

#[test]
fn d1_only_those_attach_that_show_the_token_of_a_file() {
    let file = std::env::temp_dir().join(format!("petasosd-{}-token-file", std::process::id()));
    std::fs::write(&file, "a secret\n").unwrap();
    let set = |mode| std::fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
    set(0o600);
    let option = ["--token-file".to_owned(), file.display().to_string()];
    let daemon = Daemon::start_more("token", None, &option);
    let attach = |token: &[u8]| {
        let token = Token::new(token).unwrap();
        let hello = Hello { token, ..Hello::new("client", 1).unwrap() };
        Attachment::connect(&daemon.folder().join("socket"), &hello, PATIENCE).map(drop)
    };
    assert!(attach(b"a secret").is_ok());
    for wrong in [&b""[..], b"a secre", b"a secret\n", b"another"] {
        let refused = attach(wrong).unwrap_err().to_string();
        assert!(refused.contains("the token is wrong"), "{refused}");
    }
    set(0o644);
    let check = [&option[..], &["--check".to_owned()]].concat();
    let (is_well, said) = daemon.second_with(None, &check);
    assert!(!is_well && said.contains("other users have access"), "{said}");
    std::fs::remove_file(&file).unwrap();
}
