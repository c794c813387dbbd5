//! Who sends what is no command, to the adapter and to nodes.

use std::time::Duration;

use petasos::{Channel, Request, Routing, Status, block_on};
use petasos_redis::{RedisClient, encode};

use crate::group::Group;
use crate::redis::{Client, array};

#[test]
fn hostile_clients_of_the_adapter_are_told_and_cost_nobody_else() {
    let Some(group) = Group::start("hostile", 1, &["--connections-max", "20"]) else { return };
    let mut fine = group.client();
    let long = vec![b'a'; 70_000];
    let cases: [(&[u8], &str); 8] = [
        (b"*99999999\r\n", "invalid multibulk length"),
        (b"*1\r\n$99999999999\r\n", "longer than"),
        (b"*1\r\n$-5\r\n", "invalid bulk length"),
        (b"*1\r\n:5\r\n", "expected '$', got ':'"),
        (b"*1\r\n$1\r\nabc\r\n", "longer than announced"),
        (&long, "too big inline request"),
        (b"SET a 'b c'\r\n", "quotes"),
        (b"\x16\x03\x01*4\r\n\xff\xff\xff\r\n", "unknown command"),
    ];
    for (bytes, expected) in cases {
        let mut client = group.client();
        client.send(bytes);
        let said = match expected {
            "unknown command" => String::from_utf8_lossy(&client.reply()).into_owned(),
            _ => client.rest(),
        };
        assert!(said.starts_with("-ERR ") && said.contains(expected), "{expected}: {said}");
        assert_eq!(fine.run("SET k v"), "+OK");
    }
    // What came before the fault is answered.
    let mut client = group.client();
    client.send(&[&array(&["SET", "k", "w"])[..], b"*x\r\n"].concat());
    assert!(client.rest().starts_with("+OK\r\n-ERR Protocol error"), "it is answered in order");
    // Connections that send half a command hold their places only.
    let halves: Vec<_> = (0..40)
        .map(|_| {
            let mut client = group.client();
            client.send(b"*3\r\n$3\r\nSET\r\n$1");
            client
        })
        .collect();
    let mut refused = group.client();
    assert_eq!(refused.rest(), "-ERR max number of clients reached\r\n");
    assert_eq!(fine.run("GET k"), "$1\r\nw");
    drop(halves);
    assert_eq!(fine.run("QUIT"), "+OK");
    assert_eq!(fine.rest(), "");
}

/// What a node's replies are to one command.
fn asked(client: &RedisClient, writes: bool, command: &[u8]) -> Result<String, Status> {
    let request = Request::new(encode([command])).with_timeout(Duration::from_secs(30));
    let request = request.with_routing(Routing {
        is_idempotent: !writes,
        ..if writes { Routing::to_primary() } else { Routing::default() }
    });
    let answer = block_on(if writes { client.write(request) } else { client.read(request) });
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    answer.map(|replies| text(replies.resp()))
}

#[test]
fn nodes_trust_no_caller() {
    let Some(group) = Group::start("callers", 1, &[]) else { return };
    let channel = block_on(Channel::connect(&group.target)).expect("the router is there");
    let client = RedisClient::new(channel);
    let read = |command: &[u8]| asked(&client, false, command).expect("it answers");
    let write = |command: &[u8]| asked(&client, true, command).expect("it answers");
    assert_eq!(write(&array(&["SET", "k", "v"])), "+OK\r\n");
    // What may be repeated changes nothing.
    assert!(read(&array(&["SET", "k", "w"])).contains("write is not allowed"));
    assert_eq!(read(&array(&["get", "k"])), "$1\r\nv\r\n");
    for words in [
        &["CONFIG", "SET", "dir", "/"][..],
        &["MULTI"],
        &["SUBSCRIBE", "c"],
        &["BLPOP", "l", "0"],
        &["EVAL", "return 1", "0"],
        &["SHUTDOWN"],
        &["REPLICAOF", "NO", "ONE"],
        &["SELECT", "3"],
        &["AUTH", "x"],
        &["NOSUCH"],
        &["GET"],
        &["GET\0", "k"],
        &[""],
    ] {
        let said = write(&array(words));
        assert!(said.starts_with('-') && said.ends_with("\r\n"), "{words:?}: {said}");
        assert_eq!(said.matches("\r\n").count(), 1, "{words:?}: {said}");
    }
    for bytes in [
        &b""[..],
        b"GET k\r\n",
        b"*1\r\n",
        b"*0\r\n",
        b"*-1\r\n",
        b"*2\r\n$3\r\nGET\r\n",
        b"*999999999\r\n$3\r\nGET\r\n",
        b"*2\r\n$3\r\nGET\r\n$999999999\r\nk\r\n",
        b"*2\r\n$3\r\nGET\r\n$1\r\nkk\r",
        b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\nmore",
        b"*2\r\n$3\r\nGET\r\n:1\r\n",
        b"\xff\xff\xff\xff",
    ] {
        let said = read(bytes);
        assert!(said.starts_with("-ERR Protocol error"), "{}: {said}", bytes.escape_ascii());
    }
    // A user without rights has none here either.
    group.nodes[0].run("ACL SETUSER default -set");
    let refused = write(&array(&["SET", "k", "x"]));
    assert!(refused.contains("acl verification failed"), "{refused}");
    group.nodes[0].run("ACL SETUSER default +@all");
    // Over its memory it takes only what frees some.
    group.nodes[0].run("CONFIG SET maxmemory 1");
    assert!(write(&array(&["SET", "k", "x"])).starts_with("-OOM"), "there is no memory");
    assert_eq!(write(&array(&["DEL", "k"])), ":1\r\n");
    let mut node = Client::connect(group.nodes[0].address);
    assert!(node.run("MODULE UNLOAD petasos").starts_with('-'), "its threads run");
    assert_eq!(node.run("PING"), "+PONG");
}
