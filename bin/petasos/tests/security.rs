//! `serve` and `call` with certificates, and in the clear beyond this host.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use std::path::PathBuf;

mod shelf;
mod support;

use petasos::PemFiles;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, SanType};
use shelf::Running;
use support::{Folder, Server, petasos};

const UDP: [&str; 2] = ["--transport", "udp"];

struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new(name: &str) -> Authority {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        Authority(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// The options of a process called `name`, at loopback, whose files are in `folder`.
    fn options(&self, folder: &Folder, name: &str) -> Vec<String> {
        let mut params = CertificateParams::default();
        let here = SanType::IpAddress([127, 0, 0, 1].into());
        params.subject_alt_names = vec![SanType::DnsName(name.try_into().unwrap()), here];
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        let files = [
            ("--tls-cert", certificate.pem()),
            ("--tls-key", key.serialize_pem()),
            ("--tls-ca", self.0.pem()),
        ];
        let option = |(option, pem): (&str, String)| {
            [option.to_owned(), folder.file(&format!("{name}{option}"), pem.as_bytes())]
        };
        files.into_iter().flat_map(option).collect()
    }
}

fn words<'a>(options: &'a [String], more: &[&'a str]) -> Vec<&'a str> {
    options.iter().map(String::as_str).chain(more.iter().copied()).collect()
}

#[test]
fn certificates_let_in_and_keep_out_with_advice() {
    let (folder, authority) = (Folder::new("security"), Authority::new("one"));
    let own = authority.options(&folder, "server.test");
    let server = Server::start(&words(&own, &["--allow", "client.test", "--transport", "udp"]));
    let client = authority.options(&folder, "client.test");
    let echo = |options: &[String], more: &[&str]| {
        server.call(&[&["echo", "sealed"], &words(options, more)[..], &UDP].concat())
    };
    assert_eq!(echo(&client, &[]).success(), "sealed\n");
    assert_eq!(echo(&client, &["--allow", "server.test"]).success(), "sealed\n");
    let line = |options: &[String], more: &[&str]| echo(options, more).failure().to_owned();
    let unlisted = line(&authority.options(&folder, "other.test"), &[]);
    assert!(unlisted.contains("allow-list; start the server with --allow"), "{unlisted}");
    let stranger = line(&Authority::new("other").options(&folder, "client.test"), &[]);
    assert!(stranger.contains("no trusted authority vouches for it; check --tls-ca"), "{stranger}");
    let client = authority.options(&folder, "client.test");
    let wrong = line(&client, &["--allow", "elsewhere.test"]);
    assert!(wrong.contains("check --allow against the names"), "{wrong}");
    let plain = line(&[], &[]);
    assert!(plain.contains("demands TLS") && plain.contains("give --tls-cert"), "{plain}");
    assert_eq!(echo(&client, &[]).success(), "sealed\n");
}

#[test]
fn a_plaintext_server_is_told_from_one_with_tls() {
    let (folder, authority) = (Folder::new("plain-server"), Authority::new("one"));
    let server = Server::start(&UDP);
    let client = authority.options(&folder, "client.test");
    let finished = server.call(&[&["echo", "x"], &words(&client, &[])[..], &UDP].concat());
    let line = finished.failure();
    assert!(line.contains("check that the server has --tls-cert"), "{line}");
    assert_eq!(server.call(&["echo", "x"]).success(), "x\n");
}

#[test]
fn serve_shows_and_demands_certificates_on_its_typed_ports() {
    let (folder, authority) = (Folder::new("typed-serve"), Authority::new("one"));
    let own = authority.options(&folder, "server.test");
    let more = ["--allow", "client.test", "--typed", "127.0.0.1:0", "--grpc", "127.0.0.1:0"];
    let mut server = Server::start(&words(&own, &more));
    let client = authority.options(&folder, "client.test");
    let other = authority.options(&folder, "other.test");
    for scheme in ["petasos://", "grpcs://"] {
        let line = server.process.line();
        let target = line.strip_prefix("typed services on ").expect("it says where");
        assert!(target.starts_with(scheme), "{target}");
        let list =
            |options: &[String]| petasos(&[&["list", target], &words(options, &[])[..]].concat());
        assert!(list(&client).success().contains("petasos.demo.v1.Echo"));
        for refused in [list(&other), list(&[])] {
            assert_ne!(refused.code, Some(0), "{refused:?}");
        }
    }
}

#[test]
fn typed_commands_show_certificates_on_both_ports() {
    let (folder, authority) = (Folder::new("typed"), Authority::new("one"));
    let own = authority.options(&folder, "server.test");
    let file = |at: usize| own.get(at).map(PathBuf::from);
    let (certificate, key, authorities) = (file(1), file(3), file(5));
    let server = Running::secured(PemFiles { certificate, key, authorities });
    let client = authority.options(&folder, "client.test");
    let stranger = Authority::new("other").options(&folder, "stranger.test");
    for address in &server.addresses {
        let list =
            |options: &[String]| petasos(&[&["list", address], &words(options, &[])[..]].concat());
        assert!(list(&client).success().contains("shelf.Shelf"));
        for (options, why) in [(&stranger[..], "certificate"), (&[], "tls")] {
            let refused = list(options);
            assert_ne!(refused.code, Some(0));
            assert!(refused.stderr.to_lowercase().contains(why), "{refused:?}");
        }
    }
    let grpcs = &server.addresses[1];
    // Dialled as if it spoke datagrams' control protocol.
    let wrong = grpcs.replace("grpcs://", "petasos://");
    let missed = petasos(&["call", &wrong, "shelf.Shelf/Find", r#"{"title": "Emma"}"#]);
    assert_eq!(missed.code, Some(64 + 14), "{missed:?}");
    assert!(missed.stderr.contains("called with grpcs:// before the address"), "{missed:?}");
    let bare = grpcs.trim_start_matches("grpcs://");
    let told = petasos(&["raw", bare, "echo", "x"]);
    let advice = format!("call it with `petasos call grpcs://{bare} …`");
    assert!(told.failure().contains(&advice), "{told:?}");
    assert!(!told.stderr.contains("before the address"), "{told:?}");
    let alone = petasos(&["list", grpcs, "--tls-cert", "/x", "--tls-ca", "/y"]);
    assert!(alone.failure().contains("give --tls-cert and --tls-key together"));
    let missing = petasos(&["list", grpcs, "--tls-ca", "/nonexistent"]);
    assert!(missing.failure().contains("/nonexistent"), "{missing:?}");
}

/// A client with TLS that takes a gRPC port without TLS for a Petasos port with it.
#[test]
fn whoever_speaks_tls_to_a_plain_grpc_port_is_told_what_to_type() {
    let (folder, authority) = (Folder::new("tls-to-grpc"), Authority::new("one"));
    let server = Running::start(true);
    let client = authority.options(&folder, "client.test");
    let bare = server.addresses[1].trim_start_matches("grpc://");
    let missed = petasos(&[&["list", bare], &words(&client, &[])[..]].concat());
    assert_eq!(missed.code, Some(64 + 14), "{missed:?}");
    assert!(missed.stderr.contains("called with grpc:// before the address"), "{missed:?}");
    let told = petasos(&[&["raw", bare, "echo", "x"], &words(&client, &[])[..]].concat());
    let advice = format!("call it with `petasos call grpc://{bare} …`");
    let line = told.failure();
    assert!(line.contains("does not speak TLS") && line.contains(&advice), "{line}");
    assert!(!line.contains("before the address"), "{line}");
}

#[test]
fn plaintext_beyond_this_host_takes_consent() {
    let finished = petasos(&["serve", "--listen", "0.0.0.0:0"]);
    let line = finished.failure();
    assert!(line.contains("there is no TLS; give --tls-cert") && line.contains("--plaintext"));
    // An address for documentation, to which nothing is sent.
    let finished = petasos(&["raw", "192.0.2.1:7411", "echo", "x"]);
    let line = finished.failure();
    assert!(line.contains("is not on this host") && line.contains("--plaintext"), "{line}");
    for target in ["192.0.2.1:7411", "grpc://192.0.2.1:7411"] {
        let refused = petasos(&["list", target]);
        assert_ne!(refused.code, Some(0), "{target}");
        let line = refused.stderr;
        assert!(line.contains("is not on this host") && line.contains("--plaintext"), "{line}");
    }
}

#[test]
fn the_demo_sends_nothing_in_the_clear_beyond_this_host_unasked() {
    let folder = Folder::new("demo-plaintext");
    let (text, report) = (folder.file("text", b"one\ntwo\n"), folder.path("report"));
    let demo = ["demo", "--file", &text, "--report", &report];
    // An address for documentation, to which nothing is sent.
    let finished = petasos(&[&demo[..], &["--connect", "192.0.2.1:7411"]].concat());
    let line = finished.failure();
    assert!(line.contains("is not on this host") && line.contains("--plaintext"), "{line}");
}

#[test]
fn the_demo_works_with_certificates() {
    let (folder, authority) = (Folder::new("demo-tls"), Authority::new("one"));
    let (text, report) = (folder.file("text", b"one\ntwo\n"), folder.path("report"));
    let own = authority.options(&folder, "server.test");
    let client = authority.options(&folder, "client.test");
    let server = Server::start(&words(&own, &["--allow", "client.test"]));
    let demo = ["demo", "--file", &text, "--report", &report];
    let connect = ["--connect", &server.address];
    let run = |options: &[&str]| petasos(&[&demo[..], options].concat());
    assert!(run(&words(&client, &connect)).success().contains("every byte was right"));
    let line = run(&connect);
    assert!(line.failure().contains("give --tls-cert"), "{line:?}");
    // Without a server that runs, both processes of the demo use the same certificate.
    assert!(run(&words(&client, &[])).success().contains("every byte was right"));
}

#[test]
fn options_that_lack_their_company_are_named() {
    let finished = petasos(&["serve", "--tls-cert", "/nonexistent"]);
    assert!(finished.failure().contains("give --tls-cert, --tls-key and --tls-ca together"));
    let missing = ["--tls-cert", "/nonexistent", "--tls-key", "/nonexistent", "--tls-ca", "/x"];
    let finished = petasos(&[&["serve"], &missing[..]].concat());
    let line = finished.failure();
    assert!(line.contains("TLS cannot be set up: /nonexistent: "), "{line}");
}
