//! Addresses in etcd's values.

use serde_json::Value;

use petasos::hosts;

/// The `host:port` in a value, if there is one.
pub(super) fn address(value: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(value).ok()?.trim();
    if !text.starts_with('{') {
        return hosts(text).filter(|hosts| hosts.len() == 1)?.pop();
    }
    let Ok(Value::Object(fields)) = serde_json::from_str(text) else { return None };
    // 0 adds an address; 1 removes it, in an older version of gRPC's naming.
    if fields.get("Op").and_then(Value::as_u64).unwrap_or(0) != 0 {
        return None;
    }
    let address = fields.get("Addr")?.as_str()?;
    hosts(address).filter(|hosts| hosts.len() == 1)?.pop()
}

/// The value of a server at `address`, as gRPC's naming writes it.
pub(super) fn of(address: &str) -> Vec<u8> {
    serde_json::json!({ "Op": 0, "Addr": address }).to_string().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_plain_or_json() {
        let is = |value: &[u8], expected| assert_eq!(address(value).as_deref(), Some(expected));
        is(b"127.0.0.1:7000", "127.0.0.1:7000");
        is(b" guide.internal:7000\n", "guide.internal:7000");
        is(br#"{"Op":0,"Addr":"[::1]:7000","Metadata":{"zone":"a"}}"#, "[::1]:7000");
        is(br#"{"Addr":"a:1"}"#, "a:1");
        is(&of("10.0.0.1:7000"), "10.0.0.1:7000");
    }

    #[test]
    fn what_is_no_address_is_none() {
        let values: [&[u8]; 9] = [
            b"",
            b"a",
            b"a:0",
            b"a:1,b:2",
            b"\xff:1",
            b"{",
            b"{}",
            br#"{"Addr":1}"#,
            br#"{"Op":1,"Addr":"a:1"}"#,
        ];
        for value in values {
            assert_eq!(address(value), None, "{value:?}");
        }
    }
}
