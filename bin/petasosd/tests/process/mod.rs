//! A petasosd as a child process, for the tests of other packages.
//!
//! Cargo tells a program's path only to its own package's tests. Those of others find the program
//! where cargo puts it, above their own, and are skipped if it was not built: the tests of the
//! whole workspace build it.

use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A running petasosd, which ends with this.
pub struct Process {
    folder: PathBuf,
    child: Child,
}

impl Process {
    /// Starts one, if it was built; notes the skipped test otherwise.
    pub fn start(test: &str) -> Option<Process> {
        let executable = std::env::current_exe().expect("the test has a path");
        let built = executable.ancestors().nth(2).expect("tests lie in `deps`").join("petasosd");
        if !built.exists() {
            petasos_skips::skip("petasosd", "petasosd was not built: cargo build -p petasosd");
            return None;
        }
        let folder = std::env::temp_dir().join(format!("petasosd-{}-{test}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder can be made");
        let mut command = Command::new(built);
        command.arg("--socket").arg(folder.join("socket")).stderr(Stdio::null());
        // So that calls go to servers that are no applications, too.
        command.args(["--listen", "127.0.0.1:0"]);
        let child = command.spawn().expect("it starts");
        let mut process = Process { folder, child };
        process.await_socket();
        Some(process)
    }

    fn await_socket(&mut self) {
        for _ in 0..3000 {
            if UnixStream::connect(self.folder.join("socket")).is_ok() {
                return;
            }
            assert_eq!(self.child.try_wait().expect("it is ours"), None, "petasosd has ended");
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("petasosd does not listen");
    }

    /// What `PETASOS_SERVICE` has to be.
    pub fn service(&self) -> String {
        format!("unix:{}/socket", self.folder.display())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
