//! Files that are wrong.

use super::file::parse;
use super::*;

#[test]
fn what_is_wrong_is_said_with_its_line() {
    let two = "[[group]]\nlisten = \"127.0.0.1:7000\"\n[[group]]\nlisten = ";
    let ejection = |wrong| format!("{two}\"127.0.0.1:1\"\neject_percent = 9\n{wrong}");
    for (text, line, what) in [
        ("[[group]]\nlisten = 7\n".to_owned(), "line 2", "expected"),
        ("[[group]]\nlisten = \"127.0.0.1:1\"\nx = 1".to_owned(), "line 3", "x"),
        (format!("{two}\"127.0.0.1:7000\"\n"), "line 3", "two at this address"),
        (format!("{two}\"127.0.0.1:1\"\npolicy = \"best\""), "line 3", "`best`"),
        (format!("{two}\"127.0.0.1:1\"\nasked_max = 0"), "line 3", "asked_max"),
        (format!("{two}\"127.0.0.1:1\"\nwaiting_max = 1"), "line 3", "waiting_max"),
        (format!("{two}\"127.0.0.1:1\"\neject_percent = 101"), "line 3", "`eject_percent` is 101"),
        (format!("{two}\"127.0.0.1:1\"\nslow_start_ms = 90000000"), "line 3", "`slow_start_ms`"),
        (format!("{two}\"127.0.0.1:1\"\nhold_us = 9\npolicy = \"rr\""), "line 3", "`hold_us`"),
        (ejection("eject_failures = 0"), "line 3", "`eject_failures` is 0"),
        (
            ejection("eject_ms = 300001"),
            "line 3",
            "`eject_ms` is 300.001s, but must not exceed 300s",
        ),
        ("[admin]\nviewers = [\"root\"]\n".to_owned(), "line 2", "uid:N"),
        ("[admin]\nsock = \"a\"\n".to_owned(), "line 2", "sock"),
    ] {
        let wrong = parse(&text).expect_err(&text);
        assert!(wrong.contains(line) && wrong.contains(what), "{text}: {wrong}");
    }
    let (groups, admin) = parse(&format!("{two}\"127.0.0.1:0\"\n")).expect("it is right");
    assert_eq!((groups.len(), admin), (2, AdminOptions::default()));
}

/// Two routers with one address: what is missing, or contradicts itself.
#[test]
fn a_virtual_address_needs_another_router_and_an_own_address() {
    let right = [
        ("listen", "\"0.0.0.0:7000\""),
        ("data", "\"10.0.0.1:7001\""),
        ("virtual_address", "\"10.0.0.100/24\""),
        ("interface", "\"eth0\""),
        ("peer", "\"10.0.0.2:7000\""),
        ("takeover_ms", "60"),
        ("plaintext", "true"),
    ];
    let file = |changed: &[(&str, &str)]| {
        let mut keys: Vec<_> = right.to_vec();
        for (name, value) in changed {
            keys.retain(|(key, _)| key != name);
            keys.push((name, value));
        }
        let lines = keys.iter().filter(|(_, value)| !value.is_empty());
        let lines = lines.map(|(key, value)| format!("{key} = {value}\n"));
        format!("[[group]]\n{}", lines.collect::<String>())
    };
    let (groups, _) = parse(&file(&[])).expect("it is right");
    let settings = groups[0].takeover().expect("it is right").expect("there is one");
    assert!(settings.is_first && settings.own == groups[0].data.expect("it is there").ip());
    assert!(!groups[0].settings().expect("it is right").active.is_active, "it finds that out");
    for (changed, what) in [
        (&[("interface", "")][..], "together"),
        (&[("peer", "")], "together"),
        (&[("virtual_address", ""), ("peer", "")], "without virtual_address"),
        (&[("virtual_address", "\"10.0.0.100\"")], "10.0.0.100/24"),
        (&[("virtual_address", "\"10.0.0.100/40\"")], "40 bits"),
        (&[("standby", "true")], "standby"),
        (&[("listen", "\"10.0.0.1:7000\"")], "listen: 0.0.0.0:7000"),
        (&[("data", "")], "data"),
        (&[("data", "\"0.0.0.0:7001\"")], "data"),
        (&[("data", "\"10.0.0.100:7001\"")], "data"),
        (&[("services", "[\"a.B\"]")], "binds"),
        (&[("peer", "\"10.0.0.1:7000\"")], "peer"),
        (&[("peer", "\"10.0.0.2:0\"")], "peer"),
        (&[("takeover_ms", "11")], "12 to 60000"),
    ] {
        let wrong = parse(&file(changed)).expect_err(what);
        assert!(wrong.contains(what), "{changed:?}: {wrong}");
    }
    let second = file(&[("listen", "\"0.0.0.0:7005\""), ("data", "\"10.0.0.1:7006\"")]);
    let wrong = parse(&format!("{}{second}", file(&[]))).expect_err("one address");
    assert!(wrong.contains("another group has the same virtual address"), "{wrong}");
    let without = at_any_ports(&groups[0]);
    assert!(without.takeover().is_ok_and(|it| it.is_none()), "a check takes no address");
}

/// Where a router is listed, and at which address.
#[test]
fn a_list_in_etcd_takes_an_address_that_others_reach() {
    let target = "router+etcd://127.0.0.1:2379/groups/a";
    let of = |listen: &str, more: &str| {
        parse(&format!("[[group]]\nlisten = \"{listen}\"\nplaintext = true\n{more}"))
            .and_then(|(groups, _)| groups[0].listing())
    };
    let listed = |listen: &str, more: &str| {
        let listing = of(listen, &format!("etcd = \"{target}\"\n{more}"));
        listing.map(|it| it.expect("it is listed").address.to_string())
    };
    let is = |listen, more, expected: &str| {
        assert_eq!(listed(listen, more).as_deref(), Ok(expected), "{listen} {more}");
    };
    is("10.0.0.1:7000", "", "10.0.0.1:7000");
    is("0.0.0.0:7000", "data = \"10.0.0.1:7001\"", "10.0.0.1:7000");
    is("[::1]:0", "", "[::1]:0");
    is("0.0.0.0:7000", "etcd_address = \"192.0.2.7:17000\"", "192.0.2.7:17000");
    assert!(of("10.0.0.1:7000", "").expect("it is right").is_none());
    for (listen, more, what) in [
        ("0.0.0.0:7000", "", "give this router's own"),
        ("10.0.0.1:7000", "etcd_address = \"0.0.0.0:7000\"", "own address"),
        ("10.0.0.1:7000", "etcd_address = \"10.0.0.1:0\"", "own address"),
        ("10.0.0.1:7000", "etcd_address = \"224.0.0.1:1\"", "own address"),
    ] {
        let wrong = listed(listen, more).expect_err(what);
        assert!(wrong.contains(what), "{wrong}");
    }
    let lonely = of("10.0.0.1:7000", "etcd_address = \"10.0.0.1:7000\"").expect_err("no etcd");
    assert!(lonely.contains("give etcd"), "{lonely}");
    for (wrong, what) in [
        ("etcd://127.0.0.1:2379/groups/a", "router+etcd://"),
        ("router+etcd://127.0.0.1:2379", "PREFIX"),
        ("router+etcds://127.0.0.1:2379/a", "ETCDCTL_CACERT"),
    ] {
        let said = of("10.0.0.1:7000", &format!("etcd = \"{wrong}\"")).expect_err(wrong);
        assert!(said.contains(what), "{said}");
    }
}

/// The address that two routers share is no router's own.
#[test]
fn a_virtual_address_is_not_listed() {
    let group = |etcd_address: &str| {
        format!(
            "[[group]]\nlisten = \"0.0.0.0:7000\"\ndata = \"10.0.0.1:7001\"\nplaintext = true\n\
             virtual_address = \"10.0.0.100/24\"\ninterface = \"eth0\"\n\
             peer = \"10.0.0.2:7000\"\netcd = \"router+etcd://127.0.0.1:2379/a\"\n{etcd_address}"
        )
    };
    let (groups, _) = parse(&group("")).expect("it is right");
    let listing = groups[0].listing().expect("it is right").expect("it is listed");
    assert_eq!(listing.address.to_string(), "10.0.0.1:7000");
    let wrong = parse(&group("etcd_address = \"10.0.0.100:7000\"")).expect_err("it is shared");
    assert!(wrong.contains("own address"), "{wrong}");
    let without = at_any_ports(&groups[0]);
    assert!(without.listing().is_ok_and(|it| it.is_none()), "a check is not listed");
}

#[test]
fn what_cares_for_workers_is_off_unless_it_is_set() {
    let core = |more: &str| {
        let text = format!("[[group]]\nlisten = \"127.0.0.1:0\"\n{more}");
        let (groups, _) = parse(&text).expect("it is right");
        groups[0].settings().expect("it is right").plane.core
    };
    let off = core("");
    assert_eq!((off.hold, off.slow_start, off.ejection), (None, None, None));
    let on = core("hold_us = 7\nslow_start_ms = 300\neject_percent = 40\neject_failures = 5\n");
    assert_eq!(on.hold.map(|hold| hold.time), Some(Duration::from_micros(7)));
    assert_eq!(on.slow_start, Some(Duration::from_millis(300)));
    let ejection = on.ejection.expect("it is set");
    let found = (ejection.failed_percent, ejection.failures_min, ejection.time);
    assert_eq!(found, (40, 5, Duration::from_secs(1)));
    assert!(core("eject_failures = 5\neject_ms = 9\n").ejection.is_none(), "without a part");
}
