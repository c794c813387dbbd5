//! etcd's own clients, unmodified: `etcdctl` and python3-etcd3 of Debian, and Go's.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::servers::{Member, folder, output};

/// What a command of `etcdctl` prints, which succeeds.
fn etcdctl(member: &Member, words: &[&str]) -> Option<String> {
    let mut command = Command::new("etcdctl");
    command.env("ETCDCTL_API", "3").args(["--endpoints", &member.port]).args(words);
    let (is_good, text) = output("etcdctl", &mut command)?;
    assert!(is_good, "{words:?}: {text}");
    Some(text)
}

fn member(test: u8) -> Member {
    Member::start(test, 1, &["--in-memory", "--init", "--keeps", "etcd"])
}

#[test]
fn etcdctl_does_what_it_does_with_etcd() {
    let member = member(3);
    let Some(put) = etcdctl(&member, &["put", "colour", "blue"]) else { return };
    assert_eq!(put, "OK\n");
    let ask = |words: &[&str]| etcdctl(&member, words).unwrap();
    assert_eq!(ask(&["get", "colour"]), "colour\nblue\n");
    assert_eq!(ask(&["put", "colours", "all"]), "OK\n");
    let sorted = ["get", "--prefix", "col", "--order", "DESCEND", "--keys-only"];
    assert_eq!(ask(&sorted), "colours\n\ncolour\n\n");
    assert_eq!(ask(&["del", "colour", "--prev-kv"]), "1\ncolour\nblue\n");
    assert_eq!(ask(&["get", "colour", "--rev", "2"]), "colour\nblue\n");
    assert_eq!(ask(&["lock", "door", "echo", "held"]), "held\n");
    let granted = ask(&["lease", "grant", "600"]);
    let lease = granted.split(' ').nth(1).unwrap();
    assert_eq!(ask(&["put", "leased", "1", "--lease", lease]), "OK\n");
    assert!(ask(&["lease", "timetolive", lease, "--keys"]).contains("attached keys([leased])"));
    assert!(ask(&["lease", "list"]).contains(lease));
    assert!(ask(&["lease", "revoke", lease]).contains("revoked"));
    assert_eq!(ask(&["get", "leased"]), "");
    assert_eq!(ask(&["compact", "4"]), "compacted revision 4\n");
    assert!(ask(&["endpoint", "health"]).contains("is healthy"));
    assert!(ask(&["endpoint", "status"]).contains("true"));
    assert!(ask(&["member", "list"]).contains(&format!("petasos://{}", member.address)));
    assert_eq!(ask(&["alarm", "list"]), "");
    assert!(ask(&["defrag"]).contains("Finished"));
}

/// What is refused is refused with advice.
#[test]
fn what_etcd_has_and_a_group_has_not_is_refused() {
    let member = member(4);
    let refused = |words: &[&str]| {
        let mut command = Command::new("etcdctl");
        command.env("ETCDCTL_API", "3").args(["--endpoints", &member.port]).args(words);
        output("etcdctl", &mut command).map(|(is_good, text)| {
            assert!(!is_good, "{words:?}: {text}");
            text
        })
    };
    let Some(text) = refused(&["member", "add", "x", "--peer-urls", "http://127.0.0.1:1"]) else {
        return;
    };
    assert!(text.contains("petasos quorum serve --join"), "{text}");
    assert!(refused(&["member", "remove", "9"]).unwrap().contains("member not found"));
    let text = refused(&["user", "add", "me:secret"]).unwrap();
    assert!(text.contains("no such method"), "{text}");
    let file = folder("etcdctl").join("snapshot");
    let save = ["snapshot", "save", file.to_str().unwrap()];
    assert!(refused(&save).unwrap().contains("no such method"));
}

const PYTHON: &str = r#"
import sys, etcd3
host, port = sys.argv[1].split(':')
client = etcd3.client(host=host, port=int(port))
client.put('a', '1')
assert client.get('a')[0] == b'1'
tried = client.transaction(
    compare=[client.transactions.value('a') == '1', client.transactions.version('a') > 0],
    success=[client.transactions.put('a', '2'), client.transactions.get('a')],
    failure=[])
assert tried[0] and tried[1][1][0][0] == b'2', tried
assert client.replace('a', '2', '3') and not client.replace('a', '2', '4')
lease = client.lease(60)
client.put('leased', 'x', lease)
assert list(lease.keys) == [b'leased'] and lease.remaining_ttl > 50
assert lease.refresh()[0].TTL == 60
events, cancel = client.watch_prefix('w')
client.put('w1', '1')
client.delete('w1')
assert isinstance(next(events), etcd3.events.PutEvent)
assert isinstance(next(events), etcd3.events.DeleteEvent)
cancel()
lease.revoke()
assert client.get('leased')[0] is None
with client.lock('door', ttl=20) as lock:
    assert lock.is_acquired()
assert [value for value, _ in client.get_prefix('a', sort_order='descend')] == [b'3']
assert len(list(client.members)) == 1
print('done')
"#;

/// The package is Debian's, so its interpreter is, too.
#[test]
fn pythons_client_works() {
    let member = member(5);
    if !Path::new("/usr/lib/python3/dist-packages/etcd3").exists() {
        return petasos_skips::skip("python3-etcd3", "there is no python3-etcd3");
    }
    let mut command = Command::new("/usr/bin/python3");
    command.args(["-c", PYTHON, &member.port]);
    let (is_good, text) = output("python3-etcd3", &mut command).unwrap();
    assert!(is_good && text.contains("done"), "{text}");
}

/// Builds `tools/clientv3`, if there is Go, and the modules that it fetches.
fn clientv3() -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/clientv3");
    let program = folder("clientv3").join("clientv3");
    let mut go = Command::new("go");
    go.arg("build").arg("-o").arg(&program).arg(".").current_dir(source);
    let (is_good, text) = output("suites", &mut go)?;
    if !is_good {
        petasos_skips::skip("suites", text);
        return None;
    }
    Some(program)
}

#[test]
fn gos_client_works() {
    let Some(program) = clientv3() else { return };
    let member = member(6);
    let (is_good, text) = output("suites", Command::new(program).arg(&member.port)).unwrap();
    assert!(is_good && text.contains("done"), "{text}");
}
