//! The program as its users run it: a server process, and commands that ask it.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, SanType};

const PROGRAM: &str = env!("CARGO_BIN_EXE_petasos-kv");

/// A server process, which ends with the test.
struct Server {
    child: Child,
    address: String,
}

impl Server {
    fn start(options: &[&str]) -> Server {
        let mut command = Command::new(PROGRAM);
        command.args(["serve", "--listen", "127.0.0.1:0", "--until-stdin-closes"]).args(options);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        let mut line = String::new();
        let out = child.stdout.as_mut().expect("it is piped");
        BufReader::new(out).read_line(&mut line).expect("it says where it listens");
        let address = line.trim().strip_prefix("listening on ").expect("it listens").to_owned();
        Server { child, address }
    }

    /// The addresses at which its process listens: those of all loops.
    fn addresses(&self) -> Vec<String> {
        let sockets = std::fs::read_to_string(format!("/proc/{}/net/tcp", self.child.id()));
        let own = self.sockets();
        let sockets = sockets.expect("the process is there");
        let listening = sockets.lines().skip(1).filter_map(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            // State 0A listens; the tenth field is the socket's number.
            let port = fields[1].split(':').next_back()?;
            let is_own =
                fields[3] == "0A" && own.iter().any(|own| Some(&own.as_str()) == fields.get(9));
            is_own.then(|| u16::from_str_radix(port, 16).ok())?
        });
        listening.map(|port| format!("127.0.0.1:{port}")).collect()
    }

    /// The numbers of the process's sockets.
    fn sockets(&self) -> Vec<String> {
        let descriptors = std::fs::read_dir(format!("/proc/{}/fd", self.child.id()));
        let links = descriptors.expect("the process is ours").flatten();
        let links = links.filter_map(|entry| std::fs::read_link(entry.path()).ok());
        let number = |link: PathBuf| {
            let link = link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned();
            Some(link)
        };
        links.filter_map(number).collect()
    }

    fn ask(&self, command: &str, rest: &[&str]) -> Output {
        ask(&[&[command, &self.address], rest].concat())
    }

    /// What a command prints that succeeds.
    fn answer(&self, command: &str, rest: &[&str]) -> String {
        let output = self.ask(command, rest);
        assert!(output.status.success(), "{command} {rest:?}: {output:?}");
        String::from_utf8(output.stdout).expect("it is text")
    }

    /// What a command says that fails.
    fn complaint(&self, command: &str, rest: &[&str]) -> String {
        complaint(&self.ask(command, rest), 1)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It ends when its standard input does.
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

fn ask(words: &[&str]) -> Output {
    Command::new(PROGRAM).args(words).stdin(Stdio::null()).output().expect("the program starts")
}

fn complaint(output: &Output, code: i32) -> String {
    assert_eq!(output.status.code(), Some(code), "{output:?}");
    String::from_utf8(output.stderr.clone()).expect("it is text")
}

#[test]
fn what_is_stored_is_printed() {
    for options in [&["--loops", "3"][..], &["--mode", "store", "--spin"]] {
        let server = Server::start(options);
        server.answer("set", &["colour", "blue"]);
        server.answer("set", &["form", "round", "--flags", "7"]);
        assert_eq!(server.answer("get", &["colour"]), "blue\n");
        assert_eq!(server.answer("get", &["form", "colour"]), "round\nblue\n");
        let json = server.answer("get", &["form", "--json"]);
        let item: serde_json::Value = serde_json::from_str(&json).expect("it is JSON");
        assert_eq!((&item["value"], &item["flags"]), (&"round".into(), &7.into()));
        let stamp = item["stamp"].to_string();
        let there = server.complaint("set", &["form", "square", "--if-absent"]);
        assert!(there.contains("the key has an item"), "{there}");
        server.answer("set", &["form", "square", "--if-stamp", &stamp]);
        let newer = server.complaint("set", &["form", "flat", "--if-stamp", &stamp]);
        assert!(newer.contains("another one by now; read it"), "{newer}");
        assert_eq!(server.answer("get", &["form"]), "square\n");
        assert_eq!(server.answer("add", &["count"]), "1\n");
        assert_eq!(server.answer("add", &["count", "41"]), "42\n");
        assert_eq!(server.answer("add", &["count", "-40"]), "2\n");
        let no_number = server.complaint("add", &["form"]);
        assert!(no_number.contains("no number of 8 bytes"), "{no_number}");
        assert_eq!(server.answer("get", &["form", "colour", "--one-address"]), "square\nblue\n");
        server.answer("delete", &["form"]);
        let gone = server.complaint("get", &["form", "colour"]);
        assert_eq!(gone, "petasos: there is nothing at `form`; `set` stores a value\n");
        server.answer("touch", &["colour", "100000"]);
        assert!(server.complaint("touch", &["form", "0"]).contains("the key has no item"));
        // What other loops have may be told a little later.
        let is_told = (0..200).any(|_| {
            std::thread::sleep(Duration::from_millis(20));
            let stats = server.answer("stats", &["--json"]);
            let stats: serde_json::Value = serde_json::from_str(&stats).expect("it is JSON");
            (&stats["items"], &stats["deletes"]) == (&2.into(), &1.into())
        });
        assert!(is_told, "{}", server.answer("stats", &["--json"]));
        assert!(server.answer("stats", &[]).contains("capacity bytes"));
    }
}

#[test]
fn a_value_comes_from_standard_input_and_has_a_limit() {
    let server = Server::start(&["--value-max", "2KiB"]);
    let set = |bytes: &[u8]| {
        let mut command = Command::new(PROGRAM);
        command.args(["set", &server.address, "key", "-"]).stdin(Stdio::piped());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        let mut stdin = child.stdin.take().expect("it is piped");
        // A program that has read enough may close it.
        let _ = stdin.write_all(bytes);
        drop(stdin);
        child.wait_with_output().expect("it ends")
    };
    assert!(set(b"two\nlines\n").status.success());
    assert_eq!(server.answer("get", &["key"]), "two\nlines\n");
    for bytes in [3 << 10, 2 << 20] {
        let said = complaint(&set(&vec![b'x'; bytes]), 1);
        assert!(said.contains("shorten it, or restart the server"), "{said}");
    }
    let said = server.complaint("set", &["", "x"]);
    assert!(said.contains("a key has 1 to 1024 bytes"), "{said}");
}

/// Each says what is wrong and what to do.
#[test]
fn wrong_options_and_missing_servers_are_explained() {
    let little = complaint(&ask(&["serve", "--memory", "1MiB"]), 1);
    assert!(little.contains("give more --memory, a lower --value-max"), "{little}");
    for words in [&["serve", "--loops", "0"][..], &["get", "127.0.0.1:1"], &["set", "a:1", "b"]] {
        complaint(&ask(words), 2);
    }
    let conflict = ["set", "127.0.0.1:1", "k", "v", "--if-absent", "--if-present"];
    complaint(&ask(&conflict), 2);
    let nobody = complaint(&ask(&["get", "127.0.0.1:1", "key"]), 1);
    assert!(nobody.contains("nothing listens there"), "{nobody}");
    let no_address = complaint(&ask(&["stats", "nowhere"]), 1);
    assert!(no_address.contains("give HOST:PORT"), "{no_address}");
    let beyond = complaint(&ask(&["serve", "--listen", "0.0.0.0:0"]), 1);
    assert!(beyond.contains("plaintext"), "{beyond}");
}

/// A full store refuses, and says so; a cache takes all.
#[test]
fn full_stores_refuse_and_caches_forget() {
    let options = |mode| ["--mode", mode, "--memory", "4MiB", "--value-max", "64KiB"];
    let value = "x".repeat(60_000);
    let store = Server::start(&options("store"));
    let set = |server: &Server, key: u32| server.ask("set", &[&key.to_string(), &value]);
    let refused = (0..80).map(|key| set(&store, key)).find(|output| !output.status.success());
    let said = complaint(&refused.expect("4 MiB have an end"), 1);
    assert!(said.contains("more --memory"), "{said}");
    assert!(store.ask("get", &["0"]).status.success(), "nothing is forgotten");
    let cache = Server::start(&options("cache"));
    assert!((0..80).all(|key| set(&cache, key).status.success()));
    assert!(cache.ask("get", &["79"]).status.success());
    assert!(!cache.ask("get", &["0"]).status.success(), "it is forgotten");
}

/// A server that is killed leaves its clients with an error, and not for longer than they wait.
#[test]
fn a_killed_server_is_said_to_be_lost() {
    let mut server = Server::start(&["--loops", "2"]);
    server.answer("set", &["key", "value"]);
    server.child.kill().expect("it runs");
    server.child.wait().expect("it has ended");
    let said = server.complaint("get", &["key", "--timeout", "2000"]);
    assert!(said.contains("nothing listens there"), "{said}");
}

/// A signal ends it, and it says why.
#[test]
fn a_signal_ends_a_server_in_order() {
    let mut command = Command::new(PROGRAM);
    command.args(["serve", "--listen", "127.0.0.1:0", "--loops", "2"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program starts");
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().expect("it is piped"))
        .read_line(&mut line)
        .expect("it says");
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("it runs");
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("told to stop: finishing"));
}

/// A folder that is removed with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let folder = std::env::temp_dir().join(format!("petasos-kv-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("there is room");
        Folder(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Authority {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("there is randomness");
        Authority(CertifiedIssuer::self_signed(params, key).expect("it signs itself"))
    }

    /// The options of a process called `name`, whose files are in `folder`.
    fn options(&self, folder: &Path, name: &str) -> Vec<String> {
        let mut params = CertificateParams::default();
        let dns = SanType::DnsName(name.try_into().expect("it is a name"));
        params.subject_alt_names = vec![dns, SanType::IpAddress([127, 0, 0, 1].into())];
        let key = KeyPair::generate().expect("there is randomness");
        let certificate = params.signed_by(&key, &self.0).expect("it signs");
        let files = [
            ("--tls-cert", certificate.pem()),
            ("--tls-key", key.serialize_pem()),
            ("--tls-ca", self.0.pem()),
        ];
        let option = |(option, pem): (&str, String)| {
            let path = folder.join(format!("{name}{option}"));
            std::fs::write(&path, pem).expect("there is room");
            [option.to_owned(), path.display().to_string()]
        };
        files.into_iter().flat_map(option).collect()
    }
}

fn with<'a>(words: &[&'a str], options: &'a [String]) -> Vec<&'a str> {
    words.iter().copied().chain(options.iter().map(String::as_str)).collect()
}

/// Each loop of a server is a way in, and each demands what the first one does.
#[test]
fn over_tls_every_loop_wants_a_certificate_that_is_allowed() {
    let (folder, authority) = (Folder::new("tls"), Authority::new());
    let own = authority.options(&folder.0, "server.test");
    let listed = [&own[..], &["--allow".to_owned(), "client.test".to_owned()]].concat();
    let server = Server::start(&with(&["--loops", "3", "--transport", "udp"], &listed));
    let client = authority.options(&folder.0, "client.test");
    let keys: Vec<String> = (0..20).map(|number| number.to_string()).collect();
    for key in &keys {
        server.answer("set", &with(&[key, "value", "--transport", "udp"], &client));
    }
    let all: Vec<&str> = keys.iter().map(String::as_str).collect();
    let asked = [&all[..], &["--transport", "udp"]].concat();
    assert_eq!(server.answer("get", &with(&asked, &client)), "value\n".repeat(20));
    let stats = server.answer("stats", &with(&["--json", "--transport", "udp"], &client));
    let stats: serde_json::Value = serde_json::from_str(&stats).expect("it is JSON");
    assert_eq!(stats["astray"], 0, "all three loops were asked: {stats}");
    let (stranger, plain) = (authority.options(&folder.0, "other.test"), Vec::new());
    let addresses = server.addresses();
    assert_eq!(addresses.len(), 3, "one for each loop");
    for address in addresses {
        for options in [&stranger, &plain] {
            let words = with(&["get", &address, "0", "--transport", "udp"], options);
            let said = complaint(&ask(&words), 1);
            assert!(said.contains("allow-list") || said.contains("demands TLS"), "{said}");
        }
    }
}
