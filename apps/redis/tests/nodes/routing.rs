//! Where commands run.

use crate::group::Group;
use crate::redis::{array, until};

#[test]
fn writes_run_on_the_primary_and_reads_are_balanced() {
    let Some(group) = Group::start("routing", 3, &[]) else { return };
    let roles: Vec<_> = group.nodes.iter().map(|node| node.status("role")).collect();
    assert_eq!(roles, ["primary", "replica", "replica"]);
    let mut client = group.client();
    for number in 0..50 {
        assert_eq!(client.run(&format!("SET key:{number} value:{number}")), "+OK");
    }
    let writes: Vec<_> = group.nodes.iter().map(|node| node.count("writes")).collect();
    assert_eq!(writes, [50, 0, 0], "they run on the primary only");
    // Nobody else writes to it: what has come by the module is replicated by itself.
    for node in &group.nodes {
        until("the replica follows", || node.run("GET key:49") == "$8\r\nvalue:49");
        assert_eq!(node.run("DBSIZE"), ":50");
    }
    for number in 0..300 {
        let number = number % 50;
        let expected = format!("value:{number}");
        let reply = client.run(&format!("GET key:{number}"));
        assert_eq!(reply, format!("${}\r\n{expected}", expected.len()));
    }
    let reads = || group.nodes.iter().map(|node| node.count("reads")).collect::<Vec<_>>();
    // A read that is not answered soon may run again.
    assert!(reads().iter().sum::<u64>() >= 300, "{:?}", reads());
    // One connection has one read at a time, so the router may give all to one; many do not, once
    // the router hears all nodes, which a busy host may put off.
    let many = array(&["GET", "key:1"]).repeat(600);
    let is_balanced = (0..100).any(|_| {
        let before = reads();
        client.send(&many);
        (0..600).for_each(|_| assert_eq!(client.reply(), b"$7\r\nvalue:1\r\n"));
        reads().iter().zip(before).all(|(now, before)| now - before >= 60)
    });
    assert!(is_balanced, "each node answers a tenth of the reads: {:?}", reads());
}

#[test]
fn reads_by_the_primary_see_what_was_written() {
    let Some(group) = Group::start("primary-reads", 2, &["--reads", "primary"]) else { return };
    let mut client = group.client();
    for number in 0..200 {
        let mut both = array(&["SET", "last", &number.to_string()]);
        both.extend(array(&["GET", "last"]));
        client.send(&both);
        assert_eq!(client.reply(), b"+OK\r\n");
        let text = number.to_string();
        assert_eq!(client.reply(), format!("${}\r\n{text}\r\n", text.len()).into_bytes());
    }
    assert_eq!(group.nodes[1].count("reads"), 0);
}

#[test]
fn pipelined_writes_keep_their_order() {
    let Some(group) = Group::start("order", 1, &[]) else { return };
    let mut client = group.client();
    let mut commands = Vec::new();
    for number in 0..500 {
        commands.extend(array(&["RPUSH", "list", &number.to_string()]));
        // What stands between them does not change that.
        if number % 7 == 0 {
            commands.extend(array(&["STRLEN", "other"]));
        }
    }
    client.send(&commands);
    for number in 0..500 {
        assert_eq!(client.reply(), format!(":{}\r\n", number + 1).into_bytes());
        if number % 7 == 0 {
            assert_eq!(client.reply(), b":0\r\n");
        }
    }
    let list = client.run("LRANGE list 0 -1");
    let numbers: Vec<_> = list.lines().skip(2).step_by(2).map(str::to_owned).collect();
    let expected: Vec<_> = (0..500).map(|number| number.to_string()).collect();
    assert_eq!(numbers, expected);
}
