//! Nodes that are killed while commands run.

use std::collections::HashSet;
use std::thread;
use std::time::Duration;

use petasos_base::sync::{AtomicBool, AtomicU64, Ordering};

use crate::group::Group;
use crate::redis::{Client, array, until};

#[test]
fn no_read_fails_when_a_replica_is_killed() {
    let Some(mut group) = Group::start("replica-killed", 3, &[]) else { return };
    assert_eq!(group.client().run("SET k v"), "+OK");
    for node in &group.nodes {
        until("it follows", || node.run("GET k") == "$1\r\nv");
    }
    let (ends, reads) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut client = Client::connect(group.adapter);
                while !ends.load(Ordering::Relaxed) {
                    client.send(&array(&["GET", "k"]).repeat(8));
                    (0..8).for_each(|_| assert_eq!(client.reply(), b"$1\r\nv\r\n"));
                    reads.fetch_add(8, Ordering::Relaxed);
                }
            });
        }
        let more = |count: u64| {
            let from = reads.load(Ordering::Relaxed);
            until("reads go on", || reads.load(Ordering::Relaxed) >= from + count);
        };
        more(200);
        group.nodes[2].process.kill();
        more(400);
        ends.store(true, Ordering::Relaxed);
    });
}

/// What has become of a write.
#[derive(Default)]
struct Outcomes {
    tried: u64,
    acknowledged: Vec<String>,
    unknown: u64,
}

/// Adds texts that are all different to a list, until it is to end.
fn write(group: &Group, who: usize, ends: &AtomicBool, count: &AtomicU64) -> Outcomes {
    let (mut client, mut outcomes) = (Client::connect(group.adapter), Outcomes::default());
    while !ends.load(Ordering::Relaxed) {
        let id = format!("{who}:{}", outcomes.tried);
        let reply = client.run(&format!("RPUSH log {id}"));
        outcomes.tried += 1;
        match &reply {
            reply if reply.starts_with(':') => {
                outcomes.acknowledged.push(id);
                count.fetch_add(1, Ordering::Relaxed);
            }
            reply => {
                assert!(reply.starts_with("-UNKNOWN"), "{reply}");
                outcomes.unknown += 1;
            }
        }
    }
    outcomes
}

#[test]
fn no_write_runs_twice_when_the_primary_is_killed_and_a_replica_takes_its_place() {
    let adapter = ["--timeout-ms", "1500"];
    let Some(mut group) = Group::start("primary-killed", 3, &adapter) else { return };
    let mut primary = group.nodes.remove(0);
    let (ends, count) = (AtomicBool::new(false), AtomicU64::new(0));
    let (group, ends, count) = (&group, &ends, &count);
    let all: Vec<Outcomes> = thread::scope(|scope| {
        let writers: Vec<_> =
            (0..4).map(|who| scope.spawn(move || write(group, who, ends, count))).collect();
        until("writes run", || count.load(Ordering::Relaxed) > 200);
        primary.process.kill();
        // Reads go on without it.
        assert!(group.client().run("LLEN log").starts_with(':'));
        thread::sleep(Duration::from_millis(50));
        assert_eq!(group.nodes[0].run("REPLICAOF NO ONE"), "+OK");
        let port = group.nodes[0].address.port();
        assert_eq!(group.nodes[1].run(&format!("REPLICAOF 127.0.0.1 {port}")), "+OK");
        until("it joins as primary", || {
            group.nodes[0].status("role") == "primary"
                && group.nodes[0].status("membership") == "member"
        });
        let before = count.load(Ordering::Relaxed);
        until("writes run again", || count.load(Ordering::Relaxed) > before + 200);
        ends.store(true, Ordering::Relaxed);
        writers.into_iter().map(|writer| writer.join().expect("it does not panic")).collect()
    });
    let list = group.nodes[0].run("LRANGE log 0 -1");
    let ids: Vec<&str> = list.lines().skip(2).step_by(2).collect();
    let different: HashSet<&str> = ids.iter().copied().collect();
    assert_eq!(different.len(), ids.len(), "a write has run twice");
    let acknowledged: usize = all.iter().map(|it| it.acknowledged.len()).sum();
    let unknown: u64 = all.iter().map(|it| it.unknown).sum();
    // Replication is asynchronous: the killed primary may have acknowledged more.
    assert!(
        ids.len() as u64 <= acknowledged as u64 + unknown,
        "{} {acknowledged} {unknown}",
        ids.len()
    );
    let after = all.iter().filter_map(|it| it.acknowledged.last());
    assert!(after.into_iter().all(|id| different.contains(&**id)), "the last ones are there");
}
