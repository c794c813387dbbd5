//! Applications and a service, honest and hostile, in one process and in several.

mod application;
mod dishonest;
mod exhausted;
mod floods;
mod hostile;
mod killed;
mod listener;
mod memory;
mod processes;
mod raw;
mod service;
mod users;

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// As long as a test waits for what has to happen.
const PATIENCE: Duration = Duration::from_secs(60);

/// Which child a process is to be, and the service's path for it.
const CHILD: &str = "PETASOS_ATTACH_TEST_CHILD";
const PATH: &str = "PETASOS_ATTACH_TEST_PATH";

/// Tests run one after the other: they count descriptors, and a process that another test begins
/// has copies of all of them for a moment.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A folder for a service's socket, until it is dropped.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        use std::os::unix::fs::PermissionsExt;
        let name =
            format!("petasos-attach-{}-{:x}", std::process::id(), petasos_base::random_seed());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).expect("the name is new");
        let all = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(&path, all).expect("it was just made");
        Folder(path)
    }

    fn socket(&self) -> PathBuf {
        self.0.join("petasosd.sock")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
