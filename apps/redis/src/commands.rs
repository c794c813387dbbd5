//! What each command is to a group: a table, so that nothing is guessed.
//!
//! A command that is in no table is refused, also one that newer servers know: whether it changes
//! something decides where it may run, and whether it may run twice.

/// What is to be done with a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// It changes nothing: any node, and again if that fails.
    Read,
    /// It changes something, or has to see all changes: the primary, at most once.
    Write,
    /// It is about the connection, and answered without a node.
    Own(Own),
}

/// A command about the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Own {
    /// `PING [TEXT]`.
    Ping,
    /// `ECHO TEXT`.
    Echo,
    /// `SELECT 0`.
    Select,
    /// `HELLO [2]`.
    Hello,
    /// `CLIENT SETNAME NAME` and `CLIENT SETINFO …`, which change nothing here.
    Client,
    /// `QUIT`.
    Quit,
}

/// Commands that change nothing, in order.
const READS: &[&str] = &[
    "BITCOUNT",
    "BITFIELD_RO",
    "BITPOS",
    "DBSIZE",
    "DUMP",
    "EXISTS",
    "EXPIRETIME",
    "GEODIST",
    "GEOHASH",
    "GEOPOS",
    "GEORADIUSBYMEMBER_RO",
    "GEORADIUS_RO",
    "GEOSEARCH",
    "GET",
    "GETBIT",
    "GETRANGE",
    "HEXISTS",
    "HGET",
    "HGETALL",
    "HKEYS",
    "HLEN",
    "HMGET",
    "HRANDFIELD",
    "HSTRLEN",
    "HVALS",
    "KEYS",
    "LCS",
    "LINDEX",
    "LLEN",
    "LPOS",
    "LRANGE",
    "MGET",
    "PEXPIRETIME",
    "PTTL",
    "RANDOMKEY",
    "SCARD",
    "SDIFF",
    "SINTER",
    "SINTERCARD",
    "SISMEMBER",
    "SMEMBERS",
    "SMISMEMBER",
    "SORT_RO",
    "SRANDMEMBER",
    "STRLEN",
    "SUBSTR",
    "SUNION",
    "TTL",
    "TYPE",
    "XLEN",
    "XRANGE",
    "XREVRANGE",
    "ZCARD",
    "ZCOUNT",
    "ZDIFF",
    "ZINTER",
    "ZINTERCARD",
    "ZLEXCOUNT",
    "ZMSCORE",
    "ZRANDMEMBER",
    "ZRANGE",
    "ZRANGEBYLEX",
    "ZRANGEBYSCORE",
    "ZRANK",
    "ZREVRANGE",
    "ZREVRANGEBYLEX",
    "ZREVRANGEBYSCORE",
    "ZREVRANK",
    "ZSCORE",
    "ZUNION",
];

/// Commands that change something, in order; and PFCOUNT, which may keep what it has counted.
const WRITES: &[&str] = &[
    "APPEND",
    "BITFIELD",
    "BITOP",
    "COPY",
    "DECR",
    "DECRBY",
    "DEL",
    "EXPIRE",
    "EXPIREAT",
    "FLUSHALL",
    "FLUSHDB",
    "GEOADD",
    "GEORADIUS",
    "GEORADIUSBYMEMBER",
    "GEOSEARCHSTORE",
    "GETDEL",
    "GETEX",
    "GETSET",
    "HDEL",
    "HINCRBY",
    "HINCRBYFLOAT",
    "HMSET",
    "HSET",
    "HSETNX",
    "INCR",
    "INCRBY",
    "INCRBYFLOAT",
    "LINSERT",
    "LMOVE",
    "LMPOP",
    "LPOP",
    "LPUSH",
    "LPUSHX",
    "LREM",
    "LSET",
    "LTRIM",
    "MSET",
    "MSETNX",
    "PERSIST",
    "PEXPIRE",
    "PEXPIREAT",
    "PFADD",
    "PFCOUNT",
    "PFMERGE",
    "PSETEX",
    "RENAME",
    "RENAMENX",
    "RESTORE",
    "RPOP",
    "RPOPLPUSH",
    "RPUSH",
    "RPUSHX",
    "SADD",
    "SDIFFSTORE",
    "SET",
    "SETBIT",
    "SETEX",
    "SETNX",
    "SETRANGE",
    "SINTERSTORE",
    "SMOVE",
    "SORT",
    "SPOP",
    "SREM",
    "SUNIONSTORE",
    "TOUCH",
    "UNLINK",
    "XADD",
    "XDEL",
    "XTRIM",
    "ZADD",
    "ZDIFFSTORE",
    "ZINCRBY",
    "ZINTERSTORE",
    "ZMPOP",
    "ZPOPMAX",
    "ZPOPMIN",
    "ZRANGESTORE",
    "ZREM",
    "ZREMRANGEBYLEX",
    "ZREMRANGEBYRANK",
    "ZREMRANGEBYSCORE",
    "ZUNIONSTORE",
];

const OWN: &[(&str, Own)] = &[
    ("CLIENT", Own::Client),
    ("ECHO", Own::Echo),
    ("HELLO", Own::Hello),
    ("PING", Own::Ping),
    ("QUIT", Own::Quit),
    ("SELECT", Own::Select),
];

/// Commands that a group cannot have, and why.
const REFUSED: &[(&[&str], &str)] = &[
    (
        &["MULTI", "EXEC", "DISCARD", "WATCH", "UNWATCH"],
        "a transaction needs one connection to one node",
    ),
    (
        &[
            "SUBSCRIBE",
            "UNSUBSCRIBE",
            "PSUBSCRIBE",
            "PUNSUBSCRIBE",
            "SSUBSCRIBE",
            "SUNSUBSCRIBE",
            "PUBLISH",
            "SPUBLISH",
            "PUBSUB",
            "MONITOR",
        ],
        "a subscription needs one connection to one node",
    ),
    (
        &[
            "BLPOP",
            "BRPOP",
            "BRPOPLPUSH",
            "BLMOVE",
            "BLMPOP",
            "BZPOPMIN",
            "BZPOPMAX",
            "BZMPOP",
            "XREAD",
            "XREADGROUP",
            "WAIT",
        ],
        "a command that may block would hold a node's place at the router",
    ),
    (
        &["SCAN", "HSCAN", "SSCAN", "ZSCAN"],
        "a cursor means something to the node that gave it only",
    ),
    (
        &["EVAL", "EVALSHA", "EVAL_RO", "EVALSHA_RO", "SCRIPT", "FCALL", "FCALL_RO", "FUNCTION"],
        "nobody knows what a script changes",
    ),
    (
        &[
            "AUTH",
            "ACL",
            "CONFIG",
            "DEBUG",
            "INFO",
            "SHUTDOWN",
            "SAVE",
            "BGSAVE",
            "REPLICAOF",
            "SLAVEOF",
            "FAILOVER",
            "ROLE",
            "CLUSTER",
            "MODULE",
            "COMMAND",
            "LATENCY",
            "SLOWLOG",
            "MEMORY",
            "OBJECT",
            "SWAPDB",
            "MOVE",
            "MIGRATE",
            "RESET",
        ],
        "it is about one node: ask that one directly",
    ),
];

/// The longest name in the tables.
const NAME_BYTES_MAX: usize = 20;

/// What a command of this name is; `None` if it is refused ([`refusal`]).
pub fn class(name: &[u8]) -> Option<Class> {
    let name = upper(name)?;
    if READS.binary_search(&&*name).is_ok() {
        return Some(Class::Read);
    }
    if WRITES.binary_search(&&*name).is_ok() {
        return Some(Class::Write);
    }
    OWN.iter().find(|(own, _)| *own == name).map(|(_, own)| Class::Own(*own))
}

/// Why a command of this name is refused, as the text of an error.
pub fn refusal(name: &[u8]) -> String {
    let shown = name[..name.len().min(2 * NAME_BYTES_MAX)].escape_ascii();
    let known = upper(name);
    let known = known.as_deref();
    let found = REFUSED.iter().find(|(names, _)| known.is_some_and(|name| names.contains(&name)));
    match found {
        Some((_, why)) => format!("ERR '{shown}' is not supported behind a router: {why}"),
        None => format!("ERR unknown command '{shown}', or not known to this adapter"),
    }
}

fn upper(name: &[u8]) -> Option<String> {
    if name.len() > NAME_BYTES_MAX {
        return None;
    }
    core::str::from_utf8(name).ok().map(str::to_ascii_uppercase)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_in_one_table_and_in_order() {
        let mut all: Vec<&str> = Vec::new();
        for table in [READS, WRITES] {
            assert!(table.is_sorted(), "they are searched for");
            all.extend(table);
        }
        all.extend(OWN.iter().map(|(name, _)| name));
        all.extend(REFUSED.iter().flat_map(|(names, _)| *names));
        assert!(all.iter().all(|name| name.len() <= NAME_BYTES_MAX), "a name is longer");
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count, "a name is in two tables");
    }

    #[test]
    fn case_does_not_matter_and_what_is_unknown_is_refused() {
        assert_eq!(class(b"gEt"), Some(Class::Read));
        assert_eq!(class(b"georadiusbymember_ro"), Some(Class::Read));
        assert_eq!(class(b"INCR"), Some(Class::Write));
        assert_eq!(class(b"ping"), Some(Class::Own(Own::Ping)));
        for name in [&b"multi"[..], b"GETS", b"", b"\xff", &[b'G'; 4096]] {
            assert_eq!(class(name), None);
        }
        assert!(refusal(b"multi").contains("transaction"));
        assert!(refusal(b"no\r\nsuch").starts_with("ERR unknown command 'no\\r\\nsuch'"));
        assert!(refusal(&[b'a'; 9999]).len() < 200);
    }
}
