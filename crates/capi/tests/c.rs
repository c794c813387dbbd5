//! The examples in C, compiled as strictly as C allows, call each other.

#[path = "../../../docs/book/certificates.rs"]
mod certificates;
#[path = "../../../bin/petasosd/tests/process/mod.rs"]
mod process;
#[path = "../../../docs/book/routers.rs"]
mod routers;

use std::io::{BufRead, BufReader};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Output, Stdio};

/// The crate is linked so that cargo makes the shared library, too.
#[test]
fn the_version_is_that_of_the_header() {
    assert_eq!(petasos_capi::petasos_abi_version(), petasos_capi::PETASOS_ABI_VERSION);
    let header = std::fs::read_to_string(crate_folder().join("include/petasos.h"));
    let line = format!("#define PETASOS_ABI_VERSION {}\n", petasos_capi::PETASOS_ABI_VERSION);
    assert!(header.expect("the header is there").contains(&line));
}

fn crate_folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Whether there is a compiler for C; says so if not.
fn has_compiler() -> bool {
    let found = Command::new("cc").arg("--version").output().is_ok();
    if !found {
        petasos_skips::skip("cc", "there is no C compiler `cc`");
    }
    found
}

/// A folder with the library under the names that linkers and loaders look for.
fn library_folder(test: &str) -> PathBuf {
    let executable = std::env::current_exe().expect("the test has a path");
    let built = executable.with_file_name("libpetasos_capi.so");
    assert!(built.exists(), "cargo has not made {}", built.display());
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    std::fs::create_dir_all(&folder).expect("a folder can be made");
    for name in ["libpetasos.so", "libpetasos.so.1"] {
        let link = folder.join(name);
        let _ = std::fs::remove_file(&link);
        symlink(&built, link).expect("a link can be made");
    }
    folder
}

/// Compiles an example.
fn compile(folder: &Path, name: &str) -> PathBuf {
    let (program, sources) = (folder.join(name), crate_folder().join("examples/c"));
    let output = Command::new("cc")
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic", "-g", "-pthread", "-I"])
        .arg(crate_folder().join("include"))
        .arg(sources.join(name).with_extension("c"))
        .arg("-L")
        .arg(folder)
        .arg(format!("-Wl,-rpath,{}", folder.display()))
        .args(["-lpetasos", "-o"])
        .arg(&program)
        .output()
        .expect("the compiler runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    program
}

/// The server, which ends with its standard input.
struct Server {
    child: Child,
    input: Option<ChildStdin>,
    ports: Vec<String>,
}

impl Server {
    fn start(folder: &Path, tls: &[String]) -> Server {
        Server::start_with(folder, tls, &[], None)
    }

    /// The same, with variables of the environment, as a worker of a group.
    fn start_with(
        folder: &Path,
        tls: &[String],
        variables: &[(&str, &str)],
        group: Option<&str>,
    ) -> Server {
        let mut child = Command::new(compile(folder, "greeter_server"))
            .envs(variables.iter().copied())
            .args(tls)
            .arg(crate_folder().join("examples/c/greeter.proto"))
            .args(["127.0.0.1:0", "127.0.0.1:0"])
            .args(group)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the server starts");
        let mut line = String::new();
        let output = child.stdout.take().expect("it was piped");
        BufReader::new(output).read_line(&mut line).expect("it is text");
        let ports = line.split_whitespace().map(str::to_owned).collect();
        Server { input: child.stdin.take(), child, ports }
    }

    fn end(mut self) {
        drop(self.input.take());
        assert!(self.child.wait().expect("it ends").success());
    }
}

fn run(client: &Path, tls: &[String], target: &str, names: &[&str]) -> Output {
    let mut command = Command::new(client);
    command.args(tls).arg(target).args(names).output().expect("the client runs")
}

#[test]
fn a_client_and_a_server_in_c_understand_each_other() {
    if !has_compiler() {
        return;
    }
    let folder = library_folder("c");
    let (client, server) = (compile(&folder, "greeter_client"), Server::start(&folder, &[]));
    assert_eq!(server.ports.len(), 2, "the server did not start");
    for (scheme, port) in ["petasos", "grpc"].iter().zip(&server.ports) {
        let target = format!("{scheme}://127.0.0.1:{port}");
        let output = run(&client, &[], &target, &["Ada", "Grace"]);
        let (out, err) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{target}: {err}");
        assert_eq!(out, "Hello, Ada\nHello, Ada\nHello, Grace\n", "{target}: {err}");
        let output = run(&client, &[], &target, &[""]);
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!(err, "Greet: code 3: nobody is named\n", "{target}");
        assert_eq!(output.status.code(), Some(1));
    }
    server.end();
}

#[test]
fn a_client_and_a_server_in_c_find_each_other_through_the_managed_service() {
    if !has_compiler() {
        return;
    }
    let Some(daemon) = process::Process::start("c") else { return };
    let service = daemon.service();
    let variables = [("PETASOS_SERVICE", service.as_str())];
    let folder = library_folder("c-managed");
    let client = compile(&folder, "greeter_client");
    let server = Server::start_with(&folder, &[], &variables, None);
    assert_eq!(server.ports.len(), 2, "the server did not start");
    let target = format!("petasos://127.0.0.1:{}", server.ports[0]);
    let run = |described: &[&str]| {
        let mut command = Command::new(&client);
        command.current_dir(crate_folder().join("examples/c")).envs(variables).args(described);
        command.args([&target, "Ada", "Grace"]).output().expect("the client runs")
    };
    let output = run(&["--proto", "greeter.proto"]);
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.stdout, b"Hello, Ada\nHello, Ada\nHello, Grace\n", "{err}");
    // Names alone do not tell the service what messages contain.
    let output = run(&[]);
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(err.contains("code 12") && err.contains("describe the service"), "{err}");
    server.end();
}

#[test]
fn a_client_and_servers_in_c_find_each_other_through_a_router() {
    if !has_compiler() {
        return;
    }
    let (folder, router) = (library_folder("c-routed"), routers::Router::start("hello.Greeter"));
    let (client, target) = (compile(&folder, "greeter_client"), router.target());
    let server = || Server::start_with(&folder, &[], &[], Some(&target));
    let servers = [server(), server()];
    assert!(servers.iter().all(|server| server.ports.len() == 2), "a server did not start");
    let greet = || run(&client, &[], &target, &["Ada", "Grace"]);
    // They join once they have started.
    routers::until(|| greet().status.success());
    for _ in 0..4 {
        let output = greet();
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.stdout, b"Hello, Ada\nHello, Ada\nHello, Grace\n", "{err}");
    }
    let output = run(&client, &[], &target, &[""]);
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(err, "Greet: code 3: nobody is named\n");
    servers.into_iter().for_each(Server::end);
}

/// Arguments that name an end's files, of which `name` is in its certificate, and its peer.
fn tls(folder: &Path, authority: &certificates::Authority, name: &str, peer: &str) -> Vec<String> {
    let pem = authority.certify(name);
    let parts = [("ca", pem.authorities), ("cert", pem.certificate), ("key", pem.key)];
    let write = |(part, bytes): (&str, Option<Vec<u8>>)| {
        let path = folder.join(format!("{name}-{part}.pem"));
        std::fs::write(&path, bytes.expect("all parts are made")).expect("it can be written");
        path.to_str().expect("a text").to_owned()
    };
    let mut arguments = vec!["--tls".to_owned()];
    arguments.extend(parts.map(write));
    arguments.push(peer.to_owned());
    arguments
}

#[test]
fn in_c_as_well_both_ends_prove_who_they_are() {
    if !has_compiler() {
        return;
    }
    let (folder, authority) = (library_folder("c-tls"), certificates::Authority::default());
    let client = compile(&folder, "greeter_client");
    let server = Server::start(&folder, &tls(&folder, &authority, "server.test", "client.test"));
    assert_eq!(server.ports.len(), 2, "the server did not start");
    let good = tls(&folder, &authority, "client.test", "server.test");
    let stranger = tls(&folder, &authority, "stranger.test", "server.test");
    let other = tls(&folder, &authority, "client.test", "other.test");
    for (scheme, port) in ["petasos", "grpcs"].iter().zip(&server.ports) {
        let target = format!("{scheme}://127.0.0.1:{port}");
        let output = run(&client, &good, &target, &["Ada"]);
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.stdout, b"Hello, Ada\nHello, Ada\n", "{target}: {err}");
        for (who, arguments) in [("a stranger", &stranger), ("of another", &other)] {
            let output = run(&client, arguments, &target, &["Ada"]);
            let err = String::from_utf8_lossy(&output.stderr);
            assert!(err.contains("code 14"), "{target}, {who}: {err}");
        }
    }
    let output = run(&client, &good, &format!("grpc://127.0.0.1:{}", server.ports[1]), &["Ada"]);
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(err.contains("code 3: ") && err.contains("grpcs://"), "{err}");
    server.end();
}
