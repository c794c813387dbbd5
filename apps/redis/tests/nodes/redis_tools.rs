//! Redis' own clients, unmodified.

use std::process::Command;

use crate::group::Group;

#[test]
fn redis_cli_and_redis_benchmark_work() {
    let Some(group) = Group::start("tools", 2, &[]) else { return };
    let port = group.adapter.port().to_string();
    let cli = |words: &[&str]| {
        let output = Command::new("redis-cli").args(["-p", &port]).args(words).output();
        String::from_utf8_lossy(&output.expect("it is installed").stdout).trim_end().to_owned()
    };
    assert_eq!(cli(&["SET", "name", "Ada Lovelace"]), "OK");
    assert_eq!(cli(&["APPEND", "name", "!"]), "13");
    assert_eq!(cli(&["--no-raw", "LPUSH", "name", "x"]), {
        "(error) WRONGTYPE Operation against a key holding the wrong kind of value"
    });
    let refused = cli(&["MULTI"]);
    assert!(refused.contains("transaction") && refused.contains("router"), "{refused}");
    let mut command = Command::new("redis-benchmark");
    command.args(["-p", &port, "-n", "1500", "-c", "8", "-P", "8", "--csv", "-r", "50"]);
    command.args(["-t", "ping_inline,ping_mbulk,set,get,incr,lpush,rpop,sadd,hset,mset"]);
    let output = command.output().expect("it is installed with redis-cli");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{err}");
    for test in ["PING_INLINE", "SET", "GET", "INCR", "LPUSH", "MSET (10 keys)"] {
        assert!(said.contains(&format!("\"{test}\"")), "{test}: {said}{err}");
    }
    // Some of its replies are errors if a command fails, which it only counts in the server.
    assert_eq!(group.nodes[0].count("refused"), 0);
}
