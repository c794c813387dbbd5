//! What the adapter answers is what a server alone answers, byte for byte, however commands arrive.

use crate::group::Group;
use crate::redis::{Client, Node, array, folder};

/// Commands of each kind whose replies depend on nothing else.
const COMMANDS: &[&str] = &[
    "PING",
    "PING hi",
    "ECHO hi",
    "SELECT 0",
    "SET a 1",
    "GET a",
    "GET nothing",
    "INCR a",
    "INCRBY a 41",
    "APPEND a x",
    "INCR a",
    "GETRANGE a 0 1",
    "STRLEN a",
    "MSET b 2 c 3",
    "MGET a b nothing c",
    "SETNX a 9",
    "SETEX e 100 v",
    "EXISTS a b nothing",
    "DEL b nothing",
    "TYPE a",
    "HSET h f 1 g 2",
    "HGET h f",
    "HGETALL h",
    "HINCRBY h f 5",
    "HMGET h f x",
    "HINCRBYFLOAT h f 0.5",
    "RPUSH l a b c",
    "LRANGE l 0 -1",
    "LPOP l",
    "LLEN l",
    "LINDEX l 9",
    "SADD s m",
    "SCARD s",
    "SISMEMBER s m",
    "SMEMBERS s",
    "ZADD z 1 a 2 b",
    "ZRANGE z 0 -1",
    "ZRANGE z 0 -1 WITHSCORES",
    "ZSCORE z b",
    "ZRANK z nothing",
    "SETBIT bits 7 1",
    "BITCOUNT bits",
    "PFADD p a b",
    "PFCOUNT p",
    "XADD x 1-1 k v",
    "XRANGE x - +",
    "GEOADD geo 13.4 52.5 b",
    "GEOPOS geo b",
    "LPUSH a x",
    "GET",
    "SET a",
    "SET a 1 BAD",
    "ZADD z bad a",
    "TTL nothing",
    "EXPIRE a notanumber",
    "RENAME nothing x",
    "DBSIZE",
    "GETDEL a",
    "FLUSHALL",
    "DBSIZE",
];

#[test]
fn the_adapter_answers_as_a_server_does() {
    let Some(group) = Group::start("differences", 2, &["--reads", "primary"]) else { return };
    let alone = Node::start(&folder("differences-alone"), &[]);
    let (mut one, mut other) = (group.client(), alone.client());
    for command in COMMANDS {
        assert_eq!(one.run(command), other.run(command), "{command}");
    }
    // All at once, as arrays and as lines.
    let arrays: Vec<u8> =
        COMMANDS.iter().flat_map(|it| array(&it.split(' ').collect::<Vec<_>>())).collect();
    let lines: Vec<u8> = COMMANDS.iter().flat_map(|it| format!("{it}\r\n").into_bytes()).collect();
    for bytes in [&arrays, &lines] {
        let expected = replies(&mut other, &[bytes]);
        assert_eq!(replies(&mut one, &[bytes]), expected);
    }
    let expected = replies(&mut other, &[&arrays]);
    for step in [1, 3, 7, 64] {
        let pieces: Vec<_> = arrays.chunks(step).collect();
        assert_eq!(replies(&mut one, &pieces), expected, "in pieces of {step}");
    }
}

#[test]
fn a_command_may_be_cut_at_every_byte() {
    let Some(group) = Group::start("cuts", 1, &[]) else { return };
    let mut client = group.client();
    let commands = [array(&["SET", "k", "v\r\n$3"]), array(&["GET", "k"])].concat();
    for cut in 1..commands.len() {
        client.send(&commands[..cut]);
        // The two parts are not seen together.
        std::thread::sleep(std::time::Duration::from_micros(300));
        client.send(&commands[cut..]);
        assert_eq!(client.reply(), b"+OK\r\n", "cut at {cut}");
        assert_eq!(client.reply(), b"$5\r\nv\r\n$3\r\n", "cut at {cut}");
    }
}

/// Sends the pieces, and reads a reply of each command.
fn replies(client: &mut Client, pieces: &[&[u8]]) -> Vec<String> {
    pieces.iter().for_each(|piece| client.send(piece));
    let reply = |_| String::from_utf8_lossy(&client.reply()).into_owned();
    COMMANDS.iter().map(reply).collect()
}
