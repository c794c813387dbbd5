//! Two processes' TLS, in memory: who is let in, and what each end is told (C16, C18).
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::time::Duration;

use petasos_tls::{
    CertificateFlaw, CredentialError, HandshakeFailure, Identity, PeerTls, Pem, PemFiles,
};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, SanType,
    date_time_ymd,
};
use rustls::{CipherSuite, Connection};

const ALPN: &[u8] = b"test/1";
const SERVER: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

type Authority = CertifiedIssuer<'static, KeyPair>;

fn authority() -> Authority {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    // An authority is told from another by its name.
    params.distinguished_name.push(DnType::CommonName, format!("{:?}", key.public_key_raw()));
    CertifiedIssuer::self_signed(params, key).unwrap()
}

/// A certificate with these names, whose holder trusts the same authority's others.
fn pem_of(authority: &Authority, names: &[&str], change: impl Fn(&mut CertificateParams)) -> Pem {
    let mut params = CertificateParams::default();
    params.subject_alt_names = names.iter().map(|name| san(name)).collect();
    change(&mut params);
    let key = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, authority).unwrap();
    Pem {
        certificate: Some(certificate.pem().into_bytes()),
        key: Some(key.serialize_pem().into_bytes()),
        authorities: Some(authority.pem().into_bytes()),
    }
}

fn san(name: &str) -> SanType {
    if let Ok(address) = name.parse() {
        return SanType::IpAddress(address);
    }
    let text = name.try_into().unwrap();
    if name.contains("://") { SanType::URI(text) } else { SanType::DnsName(text) }
}

fn pem(authority: &Authority, names: &[&str]) -> Pem {
    pem_of(authority, names, |_| {})
}

fn expired(params: &mut CertificateParams) {
    params.not_after = date_time_ymd(2001, 1, 1);
}

fn early(params: &mut CertificateParams) {
    params.not_before = date_time_ymd(4000, 1, 1);
}

fn peer(pem: &Pem, allowed: Option<&[&str]>) -> PeerTls {
    let allowed = allowed.map(|names| names.iter().map(|&name| name.to_owned()).collect());
    PeerTls::from_pem(pem, ALPN, allowed).unwrap()
}

/// Moves what `from` has to say to `to`; what is wrong with it.
fn carry(from: &mut Connection, to: &mut Connection) -> Result<(), HandshakeFailure> {
    let mut bytes = Vec::new();
    while from.wants_write() {
        from.write_tls(&mut bytes).unwrap();
    }
    let mut rest = &bytes[..];
    while !rest.is_empty() {
        to.read_tls(&mut rest).unwrap();
        to.process_new_packets().map_err(|error| HandshakeFailure::from(&error))?;
    }
    Ok(())
}

/// The names that the server and the client see; or what the first of them to fail is told, and
/// then the other.
type Outcome = Result<(Vec<String>, Vec<String>), (HandshakeFailure, HandshakeFailure)>;

fn names(of: &Connection) -> Vec<String> {
    Identity::of(of.peer_certificates().and_then(<[_]>::first).expect("there is one")).names
}

fn meet(dialler: &PeerTls, acceptor: &PeerTls) -> Outcome {
    let mut client = Connection::from(dialler.dial(SERVER));
    let mut server = Connection::from(acceptor.accept());
    for _ in 0..3 {
        if let Err(first) = carry(&mut client, &mut server) {
            return Err((first, carry(&mut server, &mut client).unwrap_err()));
        }
        if let Err(first) = carry(&mut server, &mut client) {
            return Err((first, carry(&mut client, &mut server).unwrap_err()));
        }
    }
    assert!(!client.is_handshaking() && !server.is_handshaking());
    client.writer().write_all(b"hello").unwrap();
    carry(&mut client, &mut server).unwrap();
    let mut heard = [0; 5];
    server.reader().read_exact(&mut heard).unwrap();
    assert_eq!((&heard, server.alpn_protocol()), (b"hello", Some(ALPN)));
    Ok((names(&server), names(&client)))
}

#[test]
fn c18_both_ends_prove_who_they_are() {
    let authority = authority();
    let server = peer(&pem(&authority, &["127.0.0.1", "server.test"]), None);
    let client = peer(&pem(&authority, &["spiffe://test/client"]), None);
    let (clients, servers) = meet(&client, &server).unwrap();
    assert_eq!(
        (clients, servers),
        (vec!["spiffe://test/client".into()], vec!["server.test".into()])
    );
}

#[test]
fn c18_a_list_lets_in_whom_it_names_and_replaces_the_address() {
    let authority = authority();
    let server = pem(&authority, &["spiffe://test/server"]);
    let client = pem(&authority, &["spiffe://test/client", "client.test"]);
    let listed = peer(&server, Some(&["nobody.test", "client.test"]));
    assert!(meet(&peer(&client, Some(&["spiffe://test/server"])), &listed).is_ok());
    let flawed = |flaw: CertificateFlaw| {
        Err((HandshakeFailure::Theirs(flaw.clone()), HandshakeFailure::Ours(flaw)))
    };
    let wrong = peer(&client, Some(&["spiffe://test/other"]));
    assert_eq!(meet(&wrong, &listed), flawed(CertificateFlaw::NotAllowed));
    let (client, server) =
        (peer(&client, Some(&["spiffe://test/server"])), peer(&server, Some(&[])));
    assert_eq!(meet(&client, &server), flawed(CertificateFlaw::NotAllowed));
}

#[test]
fn c18_a_server_needs_its_address_if_there_is_no_list() {
    let authority = authority();
    let server = peer(&pem(&authority, &["127.0.0.2", "server.test"]), None);
    let client = peer(&pem(&authority, &["client.test"]), None);
    let (first, second) = meet(&client, &server).unwrap_err();
    assert_eq!(first, HandshakeFailure::Theirs(CertificateFlaw::WrongAddress));
    assert!(matches!(second, HandshakeFailure::Ours(CertificateFlaw::Other(_))), "{second}");
}

#[test]
fn c18_strangers_and_certificates_out_of_their_time_are_refused() {
    let (authority, other) = (authority(), authority());
    let good = pem(&authority, &["127.0.0.1"]);
    let stranger = Pem { authorities: good.authorities.clone(), ..pem(&other, &["127.0.0.1"]) };
    let late = pem_of(&authority, &["127.0.0.1"], expired);
    let cases = [
        (stranger, CertificateFlaw::UnknownAuthority, CertificateFlaw::UnknownAuthority),
        (late, CertificateFlaw::Expired, CertificateFlaw::Expired),
        // Both are one alert.
        (
            pem_of(&authority, &["127.0.0.1"], early),
            CertificateFlaw::NotYetValid,
            CertificateFlaw::Expired,
        ),
    ];
    for (bad, theirs, ours) in cases {
        let told = Err((HandshakeFailure::Theirs(theirs), HandshakeFailure::Ours(ours)));
        assert_eq!(meet(&peer(&bad, None), &peer(&good, None)), told, "the client is bad");
        assert_eq!(meet(&peer(&good, None), &peer(&bad, None)), told, "the server is bad");
        let list = Some(&["127.0.0.1"][..]);
        assert_eq!(meet(&peer(&good, list), &peer(&bad, list)), told, "and the client has a list");
    }
}

#[test]
fn c16_only_the_two_suites_are_offered_and_nothing_is_resumed() {
    let authority = authority();
    let one = peer(&pem(&authority, &["127.0.0.1"]), None);
    for _ in 0..2 {
        let mut client = Connection::from(one.dial(SERVER));
        let mut server = Connection::from(one.accept());
        while client.is_handshaking() || server.is_handshaking() {
            carry(&mut client, &mut server).unwrap();
            carry(&mut server, &mut client).unwrap();
        }
        let suite = client.negotiated_cipher_suite().unwrap().suite();
        assert!(matches!(
            suite,
            CipherSuite::TLS13_AES_128_GCM_SHA256 | CipherSuite::TLS13_CHACHA20_POLY1305_SHA256
        ));
        assert_eq!(client.handshake_kind(), Some(rustls::HandshakeKind::Full));
    }
}

#[test]
fn plaintext_is_told_from_tls() {
    let authority = authority();
    let mut server = Connection::from(peer(&pem(&authority, &["127.0.0.1"]), None).accept());
    server.read_tls(&mut &b"\x20\0\x01\0PTSC\x01\x01\x01\x01"[..]).unwrap();
    let error = server.process_new_packets().unwrap_err();
    assert_eq!(HandshakeFailure::from(&error), HandshakeFailure::Plaintext);
}

#[test]
fn both_roles_need_certificate_key_and_authorities() {
    let good = pem(&authority(), &["127.0.0.1"]);
    let bad = [
        Pem::default(),
        Pem { key: None, ..good.clone() },
        Pem { certificate: None, ..good.clone() },
        Pem { authorities: None, ..good.clone() },
        Pem { authorities: Some(b"nothing".into()), ..good.clone() },
        Pem { key: pem(&authority(), &["127.0.0.1"]).key, ..good.clone() },
    ];
    for (index, pem) in bad.iter().enumerate() {
        assert!(PeerTls::from_pem(pem, ALPN, None).is_err(), "{index}");
    }
    let missing = PemFiles { key: Some(PathBuf::from("/nonexistent")), ..PemFiles::default() };
    let error = PeerTls::from_files(missing, ALPN, None).unwrap_err();
    assert!(matches!(&error, CredentialError::File { .. }), "{error}");
    assert!(error.to_string().contains("/nonexistent"));
}

#[test]
fn files_that_change_are_read_again_and_bad_ones_are_not_used() {
    let folder = std::env::temp_dir().join(format!("petasos-tls-peers-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let write = |pem: &Pem| {
        let file = |name: &str, contents: &Option<Vec<u8>>| {
            let path = folder.join(name);
            std::fs::write(&path, contents.as_ref().unwrap()).unwrap();
            Some(path)
        };
        PemFiles {
            certificate: file("certificate", &pem.certificate),
            key: file("key", &pem.key),
            authorities: file("authorities", &pem.authorities),
        }
    };
    let (old, new) = (authority(), authority());
    let (old_client, new_client) =
        (peer(&pem(&old, &["c.test"]), None), peer(&pem(&new, &["c.test"]), None));
    let files = write(&pem(&old, &["127.0.0.1"]));
    let server = PeerTls::from_files(files, ALPN, None).unwrap();
    assert!(meet(&old_client, &server).is_ok());
    write(&Pem { key: Some(b"no key".into()), ..pem(&new, &["127.0.0.1"]) });
    // Files are looked at once a second.
    std::thread::sleep(Duration::from_millis(1100));
    assert!(meet(&old_client, &server).is_ok());
    write(&pem(&new, &["127.0.0.1"]));
    while meet(&new_client, &server).is_err() {
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(meet(&old_client, &server).is_err());
    std::fs::remove_dir_all(&folder).unwrap();
}
