//! Files that are wrong.

use super::*;

#[test]
fn what_is_wrong_is_said_with_its_line() {
    let two = "[[group]]\nlisten = \"127.0.0.1:7000\"\n[[group]]\nlisten = ";
    for (text, line, what) in [
        ("[[group]]\nlisten = 7\n".to_owned(), "line 2", "expected"),
        ("[[group]]\nlisten = \"127.0.0.1:1\"\nx = 1".to_owned(), "line 3", "x"),
        (format!("{two}\"127.0.0.1:7000\"\n"), "line 3", "two at this address"),
        (format!("{two}\"127.0.0.1:1\"\npolicy = \"best\""), "line 3", "`best`"),
        (format!("{two}\"127.0.0.1:1\"\nasked_max = 0"), "line 3", "asked_max"),
        (format!("{two}\"127.0.0.1:1\"\nwaiting_max = 1"), "line 3", "waiting_max"),
        ("[admin]\nviewers = [\"root\"]\n".to_owned(), "line 2", "uid:N"),
        ("[admin]\nsock = \"a\"\n".to_owned(), "line 2", "sock"),
    ] {
        let wrong = parse(&text).expect_err(&text);
        assert!(wrong.contains(line) && wrong.contains(what), "{text}: {wrong}");
    }
    let (groups, admin) = parse(&format!("{two}\"127.0.0.1:0\"\n")).expect("it is right");
    assert_eq!((groups.len(), admin), (2, AdminOptions::default()));
}
