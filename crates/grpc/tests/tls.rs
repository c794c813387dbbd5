//! Certificates: who is trusted, who is let in, and files that change.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]
#![cfg(feature = "tls")]

mod common;

use std::path::{Path, PathBuf};
use std::time::Duration;

use common::{Server, Service, message, run, unary};
use petasos_call::{Code, Metadata, Status};
use petasos_grpc::{ClientConfig, ClientTls, Connection, GrpcConfig, Pem, PemFiles, ServerTls};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, date_time_ymd};

type Authority = CertifiedIssuer<'static, KeyPair>;

fn authority() -> Authority {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// A certificate for `name`, by `authority`, which trusts the same authority's others.
fn pem(authority: &Authority, name: &str, is_expired: bool) -> Pem {
    let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
    if is_expired {
        params.not_after = date_time_ymd(2001, 1, 1);
    }
    let key = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, authority).unwrap();
    Pem {
        certificate: Some(certificate.pem().into_bytes()),
        key: Some(key.serialize_pem().into_bytes()),
        authorities: Some(authority.pem().into_bytes()),
    }
}

/// A server at `localhost`, whose `/who` answers with the client's names.
async fn server(tls: ServerTls) -> Server {
    let mut config = GrpcConfig::default();
    config.tls = Some(tls);
    server_of(config).await
}

async fn server_of(config: GrpcConfig) -> Server {
    let service = Service::new().with("/who", |mut call| async move {
        let names = call.peer.identity.as_ref().map(|identity| identity.names.join(" "));
        let _ = call.responses.send(message(names.unwrap_or_default().as_bytes())).await;
        call.responses.end(Status::ok(), Metadata::new());
    });
    Server::start(service, config).await
}

/// Whom the server takes the client for. A refusal of a client comes after its handshake.
async fn who(server: &Server, host: &str, pem: &Pem) -> Result<String, Status> {
    let mut config = ClientConfig::default();
    config.tls = Some(ClientTls::from_pem(pem).unwrap());
    let target = format!("{host}:{}", server.address.port());
    let connection = Connection::connect(&target, config).await?;
    let names = unary(&connection, "/who", b"").await?;
    Ok(String::from_utf8(names.to_vec()).unwrap())
}

#[test]
fn both_ends_prove_who_they_are() {
    run(async {
        let authority = authority();
        let tls = ServerTls::from_pem(&pem(&authority, "localhost", false)).unwrap();
        let server = server(tls).await;
        let client = pem(&authority, "client.test", false);
        assert_eq!(who(&server, "localhost", &client).await.unwrap(), "client.test");
    });
}

#[test]
fn a_server_without_authorities_asks_for_no_certificate() {
    run(async {
        let authority = authority();
        let own = Pem { authorities: None, ..pem(&authority, "localhost", false) };
        let server = server(ServerTls::from_pem(&own).unwrap()).await;
        let anonymous = Pem { authorities: Some(authority.pem().into()), ..Pem::default() };
        assert_eq!(who(&server, "localhost", &anonymous).await.unwrap(), "");
    });
}

#[test]
fn strangers_expired_and_unlisted_certificates_are_refused() {
    run(async {
        let authority = authority();
        let tls = ServerTls::from_pem(&pem(&authority, "localhost", false)).unwrap();
        let server = server(tls.allow(["client.test".to_owned()])).await;
        let good = pem(&authority, "client.test", false);
        let stranger = Pem {
            authorities: good.authorities.clone(),
            ..pem(&self::authority(), "client.test", false)
        };
        let distrustful = pem(&self::authority(), "client.test", false);
        let nobody = Pem { certificate: None, key: None, ..good.clone() };
        let refused = [
            ("localhost", stranger),
            ("localhost", distrustful),
            ("localhost", nobody),
            ("localhost", pem(&authority, "client.test", true)),
            ("localhost", pem(&authority, "other.test", false)),
            // Not the server's name.
            ("127.0.0.1", good.clone()),
        ];
        for (index, (host, pem)) in refused.iter().enumerate() {
            let status = who(&server, host, pem).await.unwrap_err();
            assert_eq!(status.code(), Code::Unavailable, "{index}: {status}");
        }
        assert_eq!(who(&server, "localhost", &good).await.unwrap(), "client.test");
    });
}

#[test]
fn an_expired_server_is_not_trusted() {
    run(async {
        let authority = authority();
        let server =
            server(ServerTls::from_pem(&pem(&authority, "localhost", true)).unwrap()).await;
        let client = pem(&authority, "client.test", false);
        let status = who(&server, "localhost", &client).await.unwrap_err();
        assert_eq!(status.code(), Code::Unavailable);
        assert!(status.message().contains("xpired"), "{status}");
    });
}

struct Folder(PathBuf);

impl Folder {
    fn write(&self, pem: &Pem) -> PemFiles {
        let file = |name: &str, contents: &Option<Vec<u8>>| {
            let path = Path::new(&self.0).join(name);
            contents.as_ref().map(|contents| {
                std::fs::write(&path, contents).unwrap();
                path
            })
        };
        PemFiles {
            certificate: file("certificate", &pem.certificate),
            key: file("key", &pem.key),
            authorities: file("authorities", &pem.authorities),
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn files_that_change_are_read_again_and_bad_ones_are_not_used() {
    run(async {
        let folder = std::env::temp_dir().join(format!("petasos-tls-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let folder = Folder(folder);
        let (old, new) = (authority(), authority());
        let old_client = pem(&old, "client.test", false);
        let new_client = pem(&new, "client.test", false);
        let tls = ServerTls::from_files(folder.write(&pem(&old, "localhost", false))).unwrap();
        let server = server(tls).await;
        assert!(who(&server, "localhost", &old_client).await.is_ok());
        folder.write(&Pem { key: Some(b"no key".into()), ..pem(&new, "localhost", false) });
        // The server looks once a second.
        tokio::time::sleep(Duration::from_millis(1100)).await;
        assert!(who(&server, "localhost", &old_client).await.is_ok());
        folder.write(&pem(&new, "localhost", false));
        while who(&server, "localhost", &new_client).await.is_err() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert!(who(&server, "localhost", &old_client).await.is_err());
    });
}

#[test]
fn what_is_no_pem_is_refused_at_once() {
    let good = pem(&authority(), "localhost", false);
    let bad = [
        Pem::default(),
        Pem { key: None, ..good.clone() },
        Pem { certificate: None, ..good.clone() },
        Pem { certificate: Some(b"nothing".into()), ..good.clone() },
        Pem { key: Some(b"nothing".into()), ..good.clone() },
        Pem { key: pem(&authority(), "localhost", false).key, ..good.clone() },
        Pem { authorities: Some(b"nothing".into()), ..good.clone() },
    ];
    for (index, pem) in bad.iter().enumerate() {
        assert!(ServerTls::from_pem(pem).is_err(), "{index}");
    }
    assert!(ClientTls::from_pem(&Pem { authorities: None, ..good }).is_err());
    assert!(ServerTls::from_files(PemFiles::default()).is_err());
}

/// A client that has called and stays connected; `None` if it was refused.
async fn stay(server: &Server, pem: &Pem) -> Option<Connection> {
    let mut config = ClientConfig::default();
    config.tls = Some(ClientTls::from_pem(pem).unwrap());
    let target = format!("localhost:{}", server.address.port());
    let connection = Connection::connect(&target, config).await.ok()?;
    unary(&connection, "/who", b"").await.ok().map(|_| connection)
}

#[test]
fn issue_10_one_name_leaves_connections_to_others_behind_its_address() {
    run(async {
        let authority = authority();
        let mut config = GrpcConfig::default();
        config.tls = Some(ServerTls::from_pem(&pem(&authority, "localhost", false)).unwrap());
        (config.connections_per_address_max, config.connections_per_name_max) = (1, 2);
        let server = server_of(config).await;
        let [alice, bob] = ["alice.test", "bob.test"].map(|name| pem(&authority, name, false));
        let held = [stay(&server, &alice).await, stay(&server, &alice).await];
        assert!(held.iter().all(Option::is_some), "names do not count for their address");
        assert!(stay(&server, &alice).await.is_none(), "a name has so many and no more");
        assert_eq!(server.stats().name_connections_refused, 1);
        // The connection that was refused counts for its address until it has ended.
        let others = async {
            loop {
                if let Some(connection) = stay(&server, &bob).await {
                    return connection;
                }
            }
        };
        let _other = others.await;
        drop(held);
        while stay(&server, &alice).await.is_none() {}
    });
}

#[test]
fn issue_10_a_names_handshakes_are_limited_and_are_not_its_addresses() {
    run(async {
        let authority = authority();
        let mut config = GrpcConfig::default();
        config.tls = Some(ServerTls::from_pem(&pem(&authority, "localhost", false)).unwrap());
        config.handshakes_per_second = 2;
        let server = server_of(config).await;
        let [alice, bob] = ["alice.test", "bob.test"].map(|name| pem(&authority, name, false));
        let mut served = 0;
        while server.stats().handshakes_refused == 0 {
            served += u32::from(stay(&server, &alice).await.is_some());
        }
        assert!(served >= 2, "{served}");
        // One was refused by its name, so the address has most of its tokens.
        assert!(stay(&server, &bob).await.is_some());
    });
}
