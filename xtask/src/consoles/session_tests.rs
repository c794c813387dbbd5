//! Sessions with programs that every system has.

use super::*;

fn session() -> Session {
    Session::new(Path::new("/"), Path::new("/nowhere"), "a.md")
}

fn shown(command: &str, output: &str) -> Shown {
    let output = output.lines().map(str::to_owned).collect();
    Shown { line: 7, command: command.into(), output }
}

#[test]
fn wrong_output_fails_and_says_where() {
    let mut session = session();
    session.run(&shown("echo hello, world", "hello, world"), false).unwrap();
    let error = session.run(&shown("echo hello, you", "hello, world"), false).unwrap_err();
    assert!(error.starts_with("a.md:7: `echo hello, you`: not what is shown"), "{error}");
    assert!(error.contains("shown: hello, world\nprinted: hello, you"), "{error}");
}

#[test]
fn errors_are_output_and_have_to_be_shown() {
    let mut session = session();
    let failing = "false() { echo 'false: gone' >&2; return 3; }; false";
    session.run(&shown(failing, "false: gone"), false).unwrap();
    session.run(&shown("echo $?  # the status", "3"), false).unwrap();
    let error = session.run(&shown("echo a; exit 4", "a"), false).unwrap_err();
    assert!(error.contains("exit status 4"), "{error}");
    let error = session.run(&shown("no-such-program", ""), false).unwrap_err();
    assert!(error.contains("no-such-program"), "{error}");
}

#[test]
fn servers_run_to_the_end_and_are_compared_then() {
    let script = "bash -c 'sleep 60 > /dev/null 2>&1 & trap \"kill $!; echo ended; exit\" TERM; \
                  echo ready; wait' serve";
    let mut first = session();
    first.run(&shown(script, "ready\nended"), false).unwrap();
    first.run(&shown("echo between", "between"), false).unwrap();
    first.finish().unwrap();
    let mut second = session();
    second.run(&shown(script, "ready"), false).unwrap();
    assert!(second.finish().unwrap_err().contains("not shown: ended"));
}

#[test]
fn the_input_of_servers_stays_open() {
    // `read -t 0` succeeds if a read would not wait, as at the end of the input.
    let script = "bash -c 'read -t 0 && echo ended || echo open' serve";
    let mut session = session();
    session.run(&shown(script, "open"), false).unwrap();
    session.finish().unwrap();
}

#[test]
fn servers_that_do_not_start_are_errors() {
    let error = session().run(&shown("true serve", "listening"), false).unwrap_err();
    assert!(error.contains("it ended, or printed nothing"), "{error}");
    let error = session().run(&shown("echo serve", "a"), true);
    assert_eq!(error, Ok(()));
}

#[test]
fn servers_are_known_by_their_subcommand() {
    assert!(serves("petasos serve --listen 127.0.0.1:7411"));
    assert!(!serves("petasos list 127.0.0.1:7000   # of `hello serve`, serve"));
    assert!(!serves("petasos call 127.0.0.1:7000 server"));
}
