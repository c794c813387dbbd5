//! What the audit log has of those who take over, and of those who try.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use petasos_base::Clock;
use serde_json::{Value, json};

use super::chain::Chain;
use super::hostile::{HELLO, connect, hear, say};

const PATIENCE: Duration = Duration::from_secs(60);
const PROGRAM: &str = env!("CARGO_BIN_EXE_petasosd");
const STRANGER: u32 = 65534;

/// A file that outlives the daemons which write it.
struct Log(PathBuf);

impl Log {
    fn new(name: &str) -> Log {
        let name = format!("petasosd-takeovers-{}-{name}", std::process::id());
        Log(std::env::temp_dir().join(name))
    }

    fn text(&self) -> &str {
        self.0.to_str().unwrap()
    }

    /// Waits for so many takeovers in it, and gives all.
    fn takeovers(&self, count: usize) -> Vec<Value> {
        let clock = Clock::system();
        let begun = clock.now();
        loop {
            let file = std::fs::read_to_string(&self.0).unwrap_or_default();
            // The last line may be half of one.
            let lines = file.split_inclusive('\n').filter(|line| line.ends_with('\n'));
            let all = lines.map(|line| serde_json::from_str::<Value>(line).unwrap());
            let found: Vec<Value> = all.filter(|entry| entry["method"] == "Takeover").collect();
            if found.len() >= count {
                return found;
            }
            assert!(clock.now() - begun < PATIENCE, "{found:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Who has tried what, and how it ended.
fn is_entry(entry: &Value, (pid, program): (u32, &Path), status: &str, message: Option<&str>) {
    let expected = [
        ("uid", json!(rustix::process::geteuid().as_raw())),
        ("pid", json!(pid)),
        ("role", json!("operator")),
        ("status", json!(status)),
        ("message", json!(message)),
        ("steps", json!([format!("takeover by {}", program.display())])),
    ];
    for (key, value) in expected {
        assert_eq!(entry[key], value, "{key} of {entry}");
    }
    assert!(entry["time_us"].as_i64() > Some(0), "{entry}");
}

#[test]
fn each_takeover_and_each_attempt_is_in_the_audit_log() {
    let log = Log::new("all");
    let mut chain = Chain::start("audited", &["--audit", log.text()]);
    let own = (std::process::id(), &*std::env::current_exe().unwrap());
    let petasosd = std::fs::canonicalize(PROGRAM).unwrap();
    let garbage = connect(&chain);
    say(&garbage, b"x");
    is_entry(&log.takeovers(1)[0], own, "failed", Some("it said what it may not say"));
    chain.replace(&["--audit", log.text()]);
    let successor = (chain.daemon.id(), &*petasosd);
    chain.await_former();
    is_entry(&log.takeovers(2)[1], successor, "done", None);
    // The successor goes on with the file: one that has got all and goes before it serves.
    let gone = connect(&chain);
    say(&gone, &HELLO);
    assert!(hear(&gone) > 0, "it gets the offer");
    drop(gone);
    is_entry(&log.takeovers(3)[2], own, "failed", Some("it is gone"));
    chain.replace(&["--audit", log.text()]);
    chain.await_former();
    is_entry(&log.takeovers(4)[3], (chain.daemon.id(), &*petasosd), "done", None);
    assert_eq!(log.takeovers(4).len(), 4, "nothing is there twice");
}

#[test]
fn who_may_not_take_over_is_in_the_audit_log_as_the_user_that_he_is() {
    if !rustix::process::geteuid().is_root() {
        petasos_skips::skip("root", "only root has processes of other users");
        return;
    }
    let log = Log::new("stranger");
    let chain = Chain::start("audited-stranger", &["--audit", log.text()]);
    let socket = chain.folder().join("takeover.sock");
    std::fs::set_permissions(&socket, std::fs::Permissions::from_mode(0o666)).unwrap();
    let program = chain.folder().join("petasosd");
    std::fs::copy(PROGRAM, &program).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = Command::new(&program);
    command.arg("--takeover").arg("--socket").arg(chain.folder().join("socket"));
    command.uid(STRANGER).gid(STRANGER).stderr(Stdio::null());
    assert!(!command.status().unwrap().success());
    let entry = &log.takeovers(1)[0];
    let why = "only the service's user and root may take over";
    assert_eq!((&entry["uid"], &entry["gid"]), (&json!(STRANGER), &json!(STRANGER)), "{entry}");
    assert_eq!((&entry["role"], &entry["status"]), (&json!("nobody"), &json!("failed")), "{entry}");
    assert_eq!(entry["message"], why, "{entry}");
}
