//! The program as its users run it: members as processes that are killed, and commands that ask
//! their group.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use std::io::{BufRead, BufReader};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, SanType};

const PROGRAM: &str = env!("CARGO_BIN_EXE_petasos-quorum");

/// An address of the whole loopback network that no other test has: a member that starts again
/// finds it free.
fn address(test: u8, member: u8) -> String {
    let [.., high, low] = std::process::id().to_be_bytes();
    format!("127.{high}.{low}.{}:7432", 10 * test + member)
}

fn folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// A member's process, which is killed with the test.
struct Member {
    child: Child,
    number: String,
}

impl Member {
    fn start(options: &[&str]) -> Member {
        let mut command = Command::new(PROGRAM);
        command.args(["serve", "--until-stdin-closes"]).args(options);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let (number, _) = line
            .strip_prefix("member ")
            .and_then(|rest| rest.split_once(" listening on "))
            .unwrap_or_else(|| panic!("it says where it listens, not {line:?}"));
        Member { child, number: number.to_owned() }
    }

    /// Ends it as a crash does.
    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Ends it as its operator does.
    fn end(mut self) {
        drop(self.child.stdin.take());
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        // Of one that has ended, there is nothing to kill.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn ask(words: &[&str]) -> Output {
    Command::new(PROGRAM).args(words).stdin(Stdio::null()).output().unwrap()
}

/// What a command prints that succeeds.
fn answer(words: &[&str]) -> String {
    let output = ask(words);
    assert!(output.status.success(), "{words:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// What a command says that fails.
fn complaint(words: &[&str]) -> String {
    let output = ask(words);
    assert_eq!(output.status.code(), Some(1), "{words:?}: {output:?}");
    String::from_utf8(output.stderr).unwrap()
}

/// Waits until the members' status is as wanted.
fn await_status(members: &str, is_good: impl Fn(&str) -> bool) -> String {
    for _ in 0..300 {
        let status = String::from_utf8(ask(&["status", members]).stdout).unwrap();
        if is_good(&status) {
            return status;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("{:?}", ask(&["status", members]));
}

fn voters(status: &str) -> usize {
    status.matches("follower").count() + status.matches("leader").count()
}

/// The number of the leader, in a status.
fn leader(status: &str) -> String {
    let line = status.lines().find(|line| line.contains("leader")).unwrap();
    line.split('|').nth(1).unwrap().trim().to_owned()
}

/// Members on disks join, are killed, come back and go; what was acknowledged stays.
#[test]
fn a_group_on_disks_outlives_kills() {
    let folder = folder("kills");
    let dirs: Vec<String> =
        (1..=4).map(|member| folder.join(member.to_string()).display().to_string()).collect();
    let addresses: Vec<String> = (1..=4).map(|member| address(1, member)).collect();
    let made = answer(&["init", "--dir", &dirs[0], "--listen", &addresses[0]]);
    assert!(made.contains("member 1, at"), "{made}");
    let twice = complaint(&["init", "--dir", &dirs[0], "--listen", &addresses[0]]);
    assert!(twice.contains("is a member's already"), "{twice}");
    let mut members = vec![Some(Member::start(&["--dir", &dirs[0]]))];
    let all = addresses.join(",");
    for at in 1..3 {
        let options = ["--dir", &dirs[at], "--listen", &addresses[at], "--join", &addresses[0]];
        members.push(Some(Member::start(&options)));
        await_status(&addresses[0], |status| voters(status) == at + 1);
    }
    for round in 0..4 {
        let value = round.to_string();
        answer(&["put", &all, &format!("key {round}"), &value]);
        let killed = leader(&await_status(&all, |status| status.contains("leader")));
        let at = members
            .iter()
            .position(|member| member.as_ref().is_some_and(|member| member.number == killed))
            .unwrap();
        members[at].take().unwrap().kill();
        answer(&["put", &all, "latest", &value, "--timeout", "20000"]);
        assert_eq!(answer(&["get", &all, "latest", "--timeout", "20000"]), format!("{value}\n"));
        members[at] = Some(Member::start(&["--dir", &dirs[at]]));
        await_status(&all, |status| voters(status) == 3 && status.contains("leader"));
    }
    let range = answer(&["range", &all, "--from", "key", "--until", "kez"]);
    assert_eq!(range, "key 0\t0\nkey 1\t1\nkey 2\t2\nkey 3\t3\n");
    let same = answer(&["compare", &all]);
    assert_eq!(same.lines().count(), 3, "{same}");
    // Somebody else's start in the same directory is refused, and harms nobody.
    let in_use = complaint(&["serve", "--dir", &dirs[0]]);
    assert!(in_use.contains("in use") || in_use.contains("cannot listen"), "{in_use}");
    // A member goes, and another one comes.
    let going = leader(&await_status(&all, |status| status.contains("leader")));
    answer(&["member", "remove", &all, &going, "--timeout", "20000"]);
    await_status(&all, |status| voters(status) == 2 && status.contains("leader"));
    let gone = members.iter().position(|member| member.as_ref().unwrap().number == going).unwrap();
    members[gone].take().unwrap().end();
    let options = ["--dir", &dirs[3], "--listen", &addresses[3], "--join", &all];
    let new = Member::start(&options);
    assert_eq!(new.number, "4");
    await_status(&all, |status| voters(status) == 3);
    let missing = complaint(&["member", "remove", &all, &going]);
    assert!(missing.contains("no such member"), "{missing}");
    for member in members.into_iter().flatten() {
        member.end();
    }
    new.end();
    let verified = answer(&["verify", &dirs[3]]);
    assert!(verified.starts_with("member 4 of group "), "{verified}");
}

/// A group in memory; commands that are wrong say why.
#[test]
fn a_group_in_memory_says_what_is_wrong() {
    let (first, second) = (address(2, 1), address(2, 2));
    let one = Member::start(&["--in-memory", "--init", "--listen", &first, "--table", "2KiB"]);
    let two = Member::start(&["--in-memory", "--join", &first, "--listen", &second]);
    let both = format!("{first},{second}");
    await_status(&both, |status| voters(status) == 2 && status.contains("leader"));
    answer(&["put", &both, "colour", "blue"]);
    let json = answer(&["get", &both, "colour", "--json"]);
    let item: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(item["value"], "blue");
    let stamp = item["stamp"].to_string();
    answer(&["put", &both, "colour", "green", "--if-stamp", &stamp]);
    let stale = complaint(&["put", &both, "colour", "red", "--if-stamp", &stamp]);
    assert!(stale.contains("has another stamp by now; read it again"), "{stale}");
    let full = complaint(&["put", &both, "long", &"x".repeat(2000)]);
    assert!(full.contains("full; delete something"), "{full}");
    assert_eq!(answer(&["get", &second, "colour", "--stale"]), "green\n");
    answer(&["delete", &both, "colour"]);
    let gone = complaint(&["get", &both, "colour"]);
    assert_eq!(gone, "petasos: there is nothing at `colour`; `put` stores a value\n");
    let follower = if leader(&await_status(&both, |status| status.contains("leader"))) == "1" {
        "2"
    } else {
        "1"
    };
    answer(&["transfer", &both, follower]);
    assert_eq!(leader(&await_status(&both, |status| status.contains("leader"))), follower);
    answer(&["snapshot", &both]);
    let no_member = complaint(&["status", "127.0.0.1:1", "--timeout", "300"]);
    assert!(no_member.contains("check the addresses"), "{no_member}");
    let nobody = complaint(&["serve", "--in-memory", "--listen", "0.0.0.0:7000"]);
    assert!(nobody.contains("cannot call 0.0.0.0:7000"), "{nobody}");
    // Without a majority, nothing is acknowledged.
    two.kill();
    let late = complaint(&["put", &both, "colour", "late", "--timeout", "1500"]);
    assert!(late.contains("not known") || late.contains("nothing was done"), "{late}");
    drop(one);
}

struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Authority {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Authority(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// The options of a process called `name`, at `address`, whose files are in `folder`.
    fn options(&self, folder: &Path, name: &str, address: &str) -> Vec<String> {
        let mut params = CertificateParams::default();
        let (ip, _) = address.rsplit_once(':').unwrap();
        let ip: IpAddr = ip.parse().unwrap();
        params.subject_alt_names =
            vec![SanType::DnsName(name.try_into().unwrap()), SanType::IpAddress(ip)];
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        let files = [
            ("--tls-cert", certificate.pem()),
            ("--tls-key", key.serialize_pem()),
            ("--tls-ca", self.0.pem()),
        ];
        let option = |(option, pem): (&str, String)| {
            let path = folder.join(format!("{name}{option}"));
            std::fs::write(&path, pem).unwrap();
            [option.to_owned(), path.display().to_string()]
        };
        files.into_iter().flat_map(option).collect()
    }
}

fn with<'a>(words: &[&'a str], options: &'a [String]) -> Vec<&'a str> {
    words.iter().copied().chain(options.iter().map(String::as_str)).collect()
}

/// Members call each other over TLS, and nobody who is not on their lists.
#[test]
fn over_tls_members_and_clients_are_those_that_are_allowed() {
    let (folder, authority) = (folder("tls"), Authority::new());
    let addresses = [address(3, 1), address(3, 2)];
    let both = addresses.join(",");
    let udp = ["--transport", "udp"];
    let options = |name: &str, address: &str| {
        let own = authority.options(&folder, name, address);
        let listed = ["--allow", "one.test", "--allow", "two.test", "--allow", "client.test"];
        [own, listed.map(str::to_owned).to_vec()].concat()
    };
    let first = options("one.test", &addresses[0]);
    let first_words = ["--in-memory", "--init", "--listen", &addresses[0]];
    let _one = Member::start(&with(&[&first_words[..], &udp].concat(), &first));
    let second = options("two.test", &addresses[1]);
    let second_words = ["--in-memory", "--join", &addresses[0], "--listen", &addresses[1]];
    let _two = Member::start(&with(&[&second_words[..], &udp].concat(), &second));
    let client = authority.options(&folder, "client.test", &addresses[0]);
    let has_joined = |_: &usize| {
        std::thread::sleep(Duration::from_millis(100));
        let output = ask(&with(&["status", &both, "--transport", "udp"], &client));
        voters(&String::from_utf8(output.stdout).unwrap()) == 2
    };
    assert!((0..300).find(has_joined).is_some(), "the second one votes");
    answer(&with(&["put", &both, "colour", "blue", "--transport", "udp"], &client));
    let get = ["get", &both, "colour", "--transport", "udp", "--timeout", "1500"];
    assert_eq!(answer(&with(&get, &client)), "blue\n");
    let stranger = authority.options(&folder, "other.test", &addresses[0]);
    for options in [&stranger, &Vec::new()] {
        let said = complaint(&with(&get, options));
        assert!(said.contains("nothing was done"), "{said}");
    }
}
