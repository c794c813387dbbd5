//! Which outputs count as equal, and which do not.

use super::*;

fn check(shown: &str, printed: &str) -> Result<(), String> {
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    compare(&lines(shown), &lines(printed))
}

#[test]
fn figures_with_their_units_are_free() {
    for (shown, printed) in [
        ("round trip 61.3 µs", "round trip 1.2 ms"),
        ("listening on 127.0.0.1:7411", "listening on 127.0.0.1:38215"),
        ("server: process 29253, listening on [::1]:9", "server: process 7, listening on [::1]:10"),
        ("| put lines |     64 |  1.4 MiB | 1.64 M |", "| put lines | 8 | 900 KiB | 980 k |"),
        ("+-----+---+", "+--+-------+"),
        ("in 500ms, 3 % of 1,418,350 bytes", "in 2 s, 20 % of 7 bytes"),
    ] {
        assert_eq!(check(shown, printed), Ok(()), "{shown}");
    }
}

#[test]
fn words_are_compared() {
    for (shown, printed) in [
        ("hello, world", "hello, you"),
        ("stored", "stored 1"),
        ("p99 [µs]", "p50 [µs]"),
        ("grpc.reflection.v1.ServerReflection", "grpc.reflection.v2.ServerReflection"),
        ("5 calls", "5 bytes"),
        ("5 s", "5 seconds"),
        ("-5", "5"),
        ("a 5", "a –"),
        ("7411x", "7412x"),
    ] {
        assert!(check(shown, printed).is_err(), "{shown}");
        assert!(check(printed, shown).is_err(), "{shown}");
    }
}

#[test]
fn lines_that_lack_or_are_too_many_are_found() {
    assert!(check("a\nb", "a").unwrap_err().contains("shown: b\nprinted: (nothing)"));
    assert!(check("a", "a\nb").unwrap_err().contains("not shown: b"));
    assert!(check("", "a").unwrap_err().contains("not shown: a"));
    assert!(check("a\nb\nc", "a\nx\nc").unwrap_err().contains("shown: b\nprinted: x"));
    assert_eq!(check("", ""), Ok(()));
}

#[test]
fn three_dots_stand_for_any_lines() {
    for (shown, printed) in [
        ("...", ""),
        ("...", "a\nb"),
        ("a\n...\nd", "a\nb\nc\nd"),
        ("a\n...\nd", "a\nd"),
        ("...\nb\n...", "a\nb\nc"),
        ("...\nb\nc", "b\nb\nc"),
        ("a\n...\nc\n...\ne", "a\nb\nc\nd\nc\ne"),
    ] {
        assert_eq!(check(shown, printed), Ok(()), "{shown:?}");
    }
    for (shown, printed) in [
        ("a\n...\nd", "a\nb\nc"),
        ("a\n...\na", "a"),
        ("...\nx\n...", "a\nb\nc"),
        ("a\n...", "b\na"),
        ("...\nb", "b\nc"),
        ("a\n...\nb\n...\nb", "a\nb"),
    ] {
        assert!(check(shown, printed).is_err(), "{shown:?}");
    }
}

#[test]
fn three_dots_in_a_line_stand_for_any_text() {
    for (shown, printed, same) in [
        ("report: ...", "report: x.html", true),
        ("a ... c ... e", "a b c d e", true),
        ("a ... c", "a b d", false),
        ("a...", "b", false),
    ] {
        assert_eq!(check(shown, printed).is_ok(), same, "{shown:?}");
    }
}
