//! TLS, and what is refused without it.

use std::path::Path;
use std::process::{Command, Stdio};

use petasos::{Code, Pem};
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity, ServerTlsConfig};

use crate::certificates::{Authority, Folder};
use crate::facade::{Daemon, item};
use crate::support::{Application, client};
use crate::tonic_work::TonicServer;
use crate::tonic_work::generated::work_client::WorkClient;

/// Only the client with this name may call.
const ONLY_ANN: &str = r#"[{"application": "server", "kind": "access", "configuration": {
    "default": "deny",
    "rules": [{"name": "ann", "action": "allow", "identity": "spiffe://hosts/ann"}]}}]"#;

fn options(folder: &Folder, pem: &Pem) -> Vec<String> {
    let files = folder.write(pem);
    let text = |path: Option<std::path::PathBuf>| path.unwrap().display().to_string();
    let [certificate, key, authorities] =
        [files.certificate, files.key, files.authorities].map(text);
    let options = ["--tls-cert", &certificate, "--tls-key", &key, "--tls-ca", &authorities];
    options.map(str::to_owned).to_vec()
}

fn identity(pem: &Pem) -> Identity {
    Identity::from_pem(pem.certificate.as_ref().unwrap(), pem.key.as_ref().unwrap())
}

fn authorities(pem: &Pem) -> Certificate {
    Certificate::from_pem(pem.authorities.as_ref().unwrap())
}

#[test]
fn clients_prove_themselves_and_policies_know_them() {
    let authority = Authority::new("tests");
    let folder = Folder::new("petasosd-grpc-tls-in");
    let options = options(&folder, &authority.pem("spiffe://hosts/here"));
    let mut arguments = vec!["--listen-grpc", "127.0.0.1:0"];
    arguments.extend(options.iter().map(String::as_str));
    let (daemon, address) =
        Daemon::start_saying("grpc-tls-in", Some(ONLY_ANN), &arguments, "clients at grpcs://");
    let _application = Application::start(&daemon);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let tls = |pem: Option<&Pem>| {
            let config = ClientTlsConfig::new().domain_name("127.0.0.1");
            let config = config.ca_certificate(authorities(&authority.pem("x")));
            pem.map_or(config.clone(), |pem| config.identity(identity(pem)))
        };
        let call = async |tls: ClientTlsConfig| {
            let endpoint = Endpoint::from_shared(format!("https://{address}")).unwrap();
            let channel = endpoint.tls_config(tls).unwrap().connect().await;
            let mut client = WorkClient::new(channel.map_err(|error| error.to_string())?);
            let echoed = client.echo(crate::tonic_work::item("x", 7)).await;
            echoed.map(|echoed| echoed.into_inner().number).map_err(|status| {
                assert!(!status.message().is_empty());
                format!("{:?}", status.code())
            })
        };
        let (ann, bob) = (authority.pem("spiffe://hosts/ann"), authority.pem("spiffe://hosts/bob"));
        assert_eq!(call(tls(Some(&ann))).await, Ok(7));
        assert_eq!(call(tls(Some(&bob))).await, Err("PermissionDenied".to_owned()));
        assert!(call(tls(None)).await.is_err(), "nobody without a certificate");
        let stranger = Authority::new("others").pem("spiffe://hosts/ann");
        assert!(call(tls(Some(&stranger))).await.is_err(), "of another authority");
    });
}

#[test]
fn the_service_proves_itself_to_servers_and_checks_them() {
    let authority = Authority::new("tests");
    let folder = Folder::new("petasosd-grpc-tls-out");
    let here = authority.pem("spiffe://hosts/here");
    let options = options(&folder, &here);
    let mut arguments = vec!["--listen", "127.0.0.1:0"];
    arguments.extend(options.iter().map(String::as_str));
    let (daemon, _) = Daemon::start_saying("grpc-tls-out", None, &arguments, "at petasos://");
    let server = |authority: &Authority| {
        let pem = authority.pem("spiffe://hosts/there");
        let tls = ServerTlsConfig::new().identity(identity(&pem));
        TonicServer::start("127.0.0.1:0", Some(tls.client_ca_root(authorities(&here))))
    };
    let (good, stranger) = (server(&authority), server(&Authority::new("others")));
    let (event_loop, client) = client(&daemon, &format!("grpcs://{}", good.address));
    event_loop.block_on(async {
        assert_eq!(client.echo(item("x", 7)).await.unwrap().number(), 7);
        // That the server has TLS shows when it is called without.
        for target in [format!("grpcs://{}", stranger.address), format!("grpc://{}", good.address)]
        {
            let channel = petasos::Channel::builder(&target).connect_lazily().unwrap();
            let client = crate::facade::managed::WorkClient::new(channel);
            let status = client.echo(item("x", 8)).await.unwrap_err();
            assert_eq!(status.code(), Code::Unavailable, "{target}: {status}");
        }
    });
}

#[test]
fn without_consent_nothing_leaves_or_comes_in_beyond_this_host_in_plaintext() {
    let (daemon, _) =
        Daemon::start_saying("grpc-plain", None, &["--listen", "127.0.0.1:0"], "at petasos://");
    for (target, code, why) in [
        ("grpc://192.0.2.1:7", Code::Unavailable, "not on this host"),
        ("grpcs://127.0.0.1:7", Code::InvalidArgument, "--tls-cert"),
    ] {
        let (event_loop, client) = client(&daemon, target);
        let status = event_loop.block_on(client.echo(item("x", 1))).unwrap_err();
        assert_eq!(status.code(), code, "{status}");
        assert!(status.message().contains(why), "{status}");
    }
    let folder = Folder::new("petasosd-grpc-plain");
    let (is_served, said) = ended(folder.path(), &["--listen-grpc", "0.0.0.0:0"]);
    assert!(!is_served && said.contains("--plaintext"), "{said}");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let (is_served, said) = ended(folder.path(), &["--listen-grpc", &address]);
    assert!(!is_served && said.contains(&address), "{said}");
    let (_consents, address) = Daemon::start_saying(
        "grpc-consents",
        None,
        &["--listen-grpc", "0.0.0.0:0", "--plaintext"],
        "gRPC clients at grpc://",
    );
    assert!(address.starts_with("0.0.0.0:"), "{address}");
}

/// What a service that does not start says.
fn ended(folder: &Path, arguments: &[&str]) -> (bool, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_petasosd"));
    command.arg("--socket").arg(folder.join("socket")).args(arguments);
    let output = command.stderr(Stdio::piped()).output().unwrap();
    (output.status.success(), String::from_utf8(output.stderr).unwrap())
}
