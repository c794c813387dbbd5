//! Files of the system: the contract, a process that is killed, and a file system that is full.

mod support;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use petasos_journal::{
    Config, Error, File, FileError, Files, HardState, IdentityError, Journal, SystemFiles, verify,
};
use petasos_sim::disk::SimDisk;
use support::{OURS, append, check_all, read_snapshot, snapshot, state};

/// In a program that is killed: its folder.
const FOLDER: &str = "PETASOS_TEST_JOURNAL";
/// In a program with a small file system.
const SMALL: &str = "PETASOS_TEST_SMALL_FILE_SYSTEM";

const CONFIG: Config = Config { segment_bytes: 64 << 10, snapshots_kept: 2 };

/// A folder of its own that is removed.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let name = format!("petasos-journal-{name}-{}", std::process::id());
        let folder = Folder(std::env::temp_dir().join(name));
        let _ = std::fs::remove_dir_all(&folder.0);
        folder
    }

    fn files(&self) -> SystemFiles {
        SystemFiles::create(&self.0).expect("a folder can be made")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What the journal asks of files, of any kind.
fn contract<F: Files>(files: &F) {
    assert_eq!(files.open("a").err(), Some(FileError::NotFound));
    assert_eq!(files.remove("a").err(), Some(FileError::NotFound));
    let file = files.create("a").expect("it is new");
    assert_eq!(files.create("a").err(), Some(FileError::Exists));
    file.write_at(b"abc", 5).expect("there is space");
    let mut bytes = [7; 10];
    assert_eq!((file.bytes(), file.read_at(&mut bytes, 1)), (Ok(8), Ok(7)));
    assert_eq!(&bytes, b"\0\0\0\0abc\x07\x07\x07");
    assert_eq!(file.read_at(&mut bytes, 8), Ok(0));
    assert_eq!(file.read_at(&mut bytes, 100), Ok(0));
    file.sync().expect("it is durable");
    let long = files.create("b").expect("it is new");
    long.preallocate(3_000_000).expect("there is space");
    let mut all = vec![1; 3_000_001];
    assert_eq!(long.read_at(&mut all, 0), Ok(3_000_000));
    assert!(all[..3_000_000].iter().all(|byte| *byte == 0));
    files.rename("a", "b").expect("it is there");
    files.sync_directory().expect("it is durable");
    assert_eq!(long.read_at(&mut all[..10], 0), Ok(10), "it is open");
    let renamed = files.open_read_only("b").expect("it is there");
    assert_eq!(renamed.bytes(), Ok(8));
    assert_eq!(files.list(), Ok(vec!["b".to_owned()]));
    assert_eq!(files.is_locked("lock"), Ok(false));
    let lock = files.lock("lock").expect("nobody has it");
    assert_eq!(files.lock("lock").err(), Some(FileError::Locked));
    assert_eq!(files.is_locked("lock"), Ok(true));
    drop(lock);
    assert_eq!(files.is_locked("lock"), Ok(false));
    assert!(files.lock("lock").is_ok());
}

#[test]
fn files_of_both_kinds_keep_the_contract() {
    contract(&SimDisk::new(1).files());
    contract(&Folder::new("contract").files());
}

#[test]
fn a_folder_that_is_none_is_refused() {
    let folder = Folder::new("none");
    assert_eq!(SystemFiles::open(&folder.0).err(), Some(FileError::NotFound));
    std::fs::write(&folder.0, b"").expect("it can be written");
    assert!(matches!(SystemFiles::open(&folder.0), Err(FileError::Other { .. })));
    std::fs::remove_file(&folder.0).expect("it is there");
}

#[test]
fn a_journal_on_real_files_is_opened_again() {
    let folder = Folder::new("again");
    let hard = HardState { fields: [1, 2, 3, 4], since: 5 };
    let mut journal = Journal::create(folder.files(), OURS, CONFIG).expect("it is empty");
    let in_use = Journal::open(folder.files(), OURS, CONFIG).err();
    assert_eq!(in_use, Some(IdentityError::InUse.into()));
    append(&mut journal, 1..=2000).expect("there is space");
    journal.set_hard_state(hard).expect("it is durable");
    snapshot(&folder.files(), 1000, 5_000_000).expect("there is space");
    journal.compact(1000).expect("a snapshot has it");
    journal.sync().expect("it is durable");
    drop(journal);
    let report = verify(&folder.files()).expect("it has an identity");
    assert_eq!((report.damage.len(), report.last_place()), (0, Some(2000)));
    let journal = Journal::open(folder.files(), OURS, CONFIG).expect("it is whole");
    assert_eq!((journal.next_place(), journal.hard_state()), (2001, hard));
    assert!(journal.first_place() > 1);
    check_all(&journal).expect("nothing is damaged");
    assert_eq!(read_snapshot(&folder.files(), 1000), Ok(state(1000, 5_000_000)));
}

/// A program that is ended with the test.
struct Program(Child);

impl Program {
    /// Runs one of this file's tests as a program of its own.
    fn start(command: &mut Command, test: &str) -> Program {
        let arguments = ["--exact", test, "--nocapture"];
        let child = command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        Program(child.expect("it can be started"))
    }

    fn lines(&mut self) -> impl Iterator<Item = String> + use<> {
        let out = self.0.stdout.take().expect("it is piped");
        BufReader::new(out).lines().map_while(Result::ok)
    }
}

/// With SIGKILL, at whatever instruction it is.
impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What the program does that is killed; without a folder, nothing.
#[test]
fn a_program_appends_until_it_is_killed() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let files = SystemFiles::open(Path::new(&folder)).expect("it is there");
    let mut journal = Journal::open(files, OURS, CONFIG).expect("it is whole");
    check_all(&journal).expect("nothing is damaged");
    println!("\nopened {}", journal.durable_place());
    loop {
        let next = journal.next_place();
        append(&mut journal, next..=next + next % 7).expect("there is space");
        let durable = journal.sync().expect("it is durable");
        let hard = HardState { fields: [durable; 4], since: durable };
        journal.set_hard_state(hard).expect("it is durable");
        println!("durable {durable}");
    }
}

#[test]
fn qr19_what_a_killed_process_has_acknowledged_is_there() {
    let folder = Folder::new("killed");
    drop(Journal::create(folder.files(), OURS, CONFIG).expect("it is empty"));
    let mut acknowledged = 0;
    for round in 0..12 {
        let mut command = Command::new(std::env::current_exe().expect("a test has a file"));
        command.env(FOLDER, &folder.0);
        let mut program = Program::start(&mut command, "a_program_appends_until_it_is_killed");
        let mut lines = program.lines();
        let opened = lines.find_map(|line| line.strip_prefix("opened ")?.parse().ok());
        let opened: u64 = opened.expect("the journal is whole");
        assert!(opened >= acknowledged, "round {round}: {opened}, and {acknowledged} was");
        // It is killed while it goes on.
        let said = lines.by_ref().take(3 + round * 2).collect::<Vec<_>>();
        drop(program);
        let rest = said.into_iter().chain(lines);
        let durable = rest.filter_map(|line| line.strip_prefix("durable ")?.parse().ok());
        acknowledged = durable.max().expect("it has appended");
    }
    let journal = Journal::open(folder.files(), OURS, CONFIG).expect("it is whole");
    assert!(journal.durable_place() >= acknowledged);
    assert!(journal.hard_state().since >= acknowledged);
    check_all(&journal).expect("nothing is damaged");
}

/// What the program does that has a small file system at the folder; without one, nothing.
#[test]
fn a_program_fills_its_file_system() {
    let Ok(folder) = std::env::var(SMALL) else { return };
    let files = SystemFiles::open(Path::new(&folder)).expect("it is there");
    let mut journal = Journal::create(files.clone(), OURS, CONFIG).expect("there is space");
    let mut next = 1;
    let error = loop {
        if let Err(error) = append(&mut journal, next..=next) {
            break error;
        }
        next += 1;
        assert!(next < 1_000_000, "it is small");
    };
    assert_eq!((error, journal.next_place()), (Error::Full, next));
    assert_eq!(snapshot(&files, 5, 1 << 20), Err(Error::Full));
    // Votes and reads go on, and so do writes when there is space.
    let hard = HardState { fields: [next; 4], since: 1 };
    journal.set_hard_state(hard).expect("it needs no space");
    assert_eq!(journal.sync(), Ok(next - 1));
    check_all(&journal).expect("nothing is damaged");
    std::fs::remove_file(Path::new(&folder).join("ballast")).expect("it is there");
    append(&mut journal, next..=next + 10).expect("there is space");
    journal.close().expect("it is durable");
    let journal = Journal::open(files, OURS, CONFIG).expect("it is whole");
    assert_eq!((journal.next_place(), journal.hard_state()), (next + 11, hard));
    println!("\nfilled");
}

#[test]
fn qr20_a_full_file_system_is_survived() {
    let folder = Folder::new("full");
    std::fs::create_dir(&folder.0).expect("a folder can be made");
    let script = "mount -t tmpfs -o size=2m tmpfs \"$1\" || exit 9; \
        head -c 200000 /dev/zero > \"$1/ballast\"; \
        exec \"$2\" --exact a_program_fills_its_file_system --nocapture";
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c", script, "sh"]);
    command.arg(&folder.0).arg(std::env::current_exe().expect("a test has a file"));
    command.env(SMALL, &folder.0);
    let output = command.output().expect("util-linux is installed");
    let said = String::from_utf8_lossy(&output.stdout);
    if !said.contains("running 1 test") {
        petasos_skips::skip("user-namespaces", "this system gives no user namespace");
        return;
    }
    assert!(output.status.success() && said.contains("\nfilled"), "{output:?}");
}
