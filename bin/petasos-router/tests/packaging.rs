//! What is in `packaging/` starts the router with options that it has.

use std::path::Path;
use std::process::Command;

fn read(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Checks a configuration, with a folder that there is in the place of the one for logs.
fn check(name: &str, text: &str) -> Result<(), String> {
    let folder = std::env::temp_dir();
    let text = text.replace("/var/log/petasos-router", &folder.display().to_string());
    let path = folder.join(format!("petasos-router-packaging-{}-{name}", std::process::id()));
    std::fs::write(&path, text).expect("there is room");
    let mut command = Command::new(env!("CARGO_BIN_EXE_petasos-router"));
    let output = command.arg("--check").arg(&path).output().expect("it starts");
    std::fs::remove_file(&path).expect("it was written");
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8(output.stderr).expect("it is text")),
    }
}

#[test]
fn the_unit_starts_as_it_checks() {
    let unit = read("petasos-router.service");
    let line = |name: &str| unit.lines().find_map(|line| line.strip_prefix(name));
    let (start, check_line) = (line("ExecStart="), line("ExecStartPre="));
    let file = "/etc/petasos/petasos-router.toml";
    assert_eq!(start, Some(&*format!("/usr/bin/petasos-router --config {file}")));
    assert_eq!(check_line, Some(&*format!("/usr/bin/petasos-router --check {file}")));
    assert_eq!(line("Type="), Some("notify"));
    let text = read("petasos-router.toml");
    assert_eq!(check("plain", &text), Ok(()));
    assert!(!std::env::temp_dir().join("audit.log").exists(), "a check makes nothing");
    assert!(
        text.contains(petasos_admin::DEFAULT_ROUTER_SOCKET),
        "`petasos ctl router` looks there"
    );
}

#[test]
fn the_holders_unit_has_the_socket_that_the_file_names() {
    let unit = read("petasos-router-holder.service");
    let line = |name: &str| unit.lines().find_map(|line| line.strip_prefix(name));
    let folder = format!("/run/{}", line("RuntimeDirectory=").expect("it has one"));
    let start = format!("/usr/bin/petasos-router --hold {folder}/holder.sock");
    assert_eq!(line("ExecStart="), Some(&*start));
    assert_eq!(line("Type="), Some("notify"));
    let named = format!("#   holder = \"{folder}/holder.sock\"");
    assert!(read("petasos-router.toml").contains(&named), "routers look there");
}

#[test]
fn examples_of_options_are_options() {
    let text = read("petasos-router.toml");
    let is_example = |line: &&str| line.starts_with('#') && !line.starts_with("# ");
    let examples: Vec<&str> = text.lines().filter(is_example).filter(|it| *it != "#").collect();
    assert_eq!(examples.len(), 8, "{examples:?}");
    let all = examples.iter().fold(text.clone(), |text, line| text.replace(line, &line[1..]));
    assert_eq!(check("all", &all), Ok(()));
    let wrong = check("wrong", &text.replace("listen =", "listens ="));
    assert!(wrong.is_err_and(|why| why.contains("listens")));
}

#[test]
fn systemd_is_told_when_the_router_serves_reads_and_ends() {
    use std::os::unix::net::UnixDatagram;

    use rustix::process::{Pid, Signal, kill_process};
    let path = std::env::temp_dir().join(format!("petasos-router-notify-{}", std::process::id()));
    // There may be none.
    let _ = std::fs::remove_file(&path);
    let told = UnixDatagram::bind(&path).expect("there is room");
    told.set_read_timeout(Some(std::time::Duration::from_secs(60))).expect("it is a socket");
    let next = || {
        let mut bytes = [0; 256];
        let len = told.recv(&mut bytes).expect("it says something");
        String::from_utf8_lossy(&bytes[..len]).into_owned()
    };
    let mut command = Command::new(env!("CARGO_BIN_EXE_petasos-router"));
    command.args(["--listen", "127.0.0.1:0", "--drain-s", "0"]).env("NOTIFY_SOCKET", &path);
    let mut child = command.spawn().expect("it starts");
    let pid = Pid::from_child(&child);
    assert_eq!(next(), format!("READY=1\nMAINPID={}", child.id()));
    kill_process(pid, Signal::HUP).expect("it is our child");
    assert!(next().starts_with("RELOADING=1\nMONOTONIC_USEC="));
    assert!(next().starts_with("READY=1"));
    kill_process(pid, Signal::TERM).expect("it is our child");
    assert_eq!(next(), "STOPPING=1");
    assert!(child.wait().expect("it is our child").success());
    std::fs::remove_file(&path).expect("it was made");
}
