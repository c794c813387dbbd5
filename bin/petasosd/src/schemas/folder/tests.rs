#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};

use super::*;

const LIMITS: FolderLimits = FolderLimits { files_max: 3, bytes_max: 100, file_bytes_max: 50 };

/// A path that goes when this does.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Place {
        let name = format!("petasosd-schemas-{}-{name}", std::process::id());
        Place(std::env::temp_dir().join(name))
    }

    fn open(&self) -> Folder {
        Folder::open(&self.0, LIMITS).unwrap()
    }

    fn file(&self, digest: Digest) -> PathBuf {
        self.0.join(digest.to_string())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn keep(folder: &Folder, bytes: &[u8]) -> Digest {
    let digest = Digest::of(bytes);
    folder.write(digest, bytes).unwrap();
    digest
}

/// The same, used so many seconds after some time that has passed.
fn keep_at(folder: &Folder, bytes: &[u8], seconds: i64) -> Digest {
    let digest = keep(folder, bytes);
    let path = folder.path().join(digest.to_string());
    let used = Timespec { tv_sec: 1_000_000 + seconds, tv_nsec: 0 };
    let times = Timestamps { last_access: used, last_modification: used };
    rustix::fs::utimensat(CWD, &path, &times, AtFlags::empty()).unwrap();
    digest
}

#[test]
fn what_is_kept_is_read_back_and_what_is_too_much_goes() {
    let place = Place::new("kept");
    let folder = place.open();
    let first = keep_at(&folder, b"first", 1);
    assert_eq!(folder.read(first).unwrap(), b"first");
    assert_eq!(fs::metadata(&place.0).unwrap().permissions().mode() & 0o777, 0o700);
    assert_eq!(fs::metadata(place.file(first)).unwrap().permissions().mode() & 0o777, 0o600);
    let second = keep_at(&folder, b"second", 2);
    let third = keep_at(&folder, b"third", 3);
    assert_eq!(folder.scan(), [first, second, third]);
    assert!(folder.touch(first) && !folder.touch(Digest::of(b"none")));
    let fourth = keep_at(&folder, b"fourth", 4);
    assert_eq!(folder.scan(), [third, fourth, first], "one too many");
    // In bytes, too; and what would never fit changes nothing.
    let long = keep_at(&folder, &[7; 50], 5);
    assert_eq!(folder.scan(), [fourth, long, first]);
    let longer = keep_at(&folder, &[8; 50], 6);
    assert_eq!(folder.scan(), [longer, first]);
    assert!(folder.write(Digest::of(&[9; 51]), &[9; 51]).is_err());
    assert_eq!(folder.scan(), [longer, first]);
    folder.forget(longer);
    assert_eq!(folder.scan(), [first]);
    // Nothing else is left behind.
    assert_eq!(fs::read_dir(&place.0).unwrap().count(), 1);
}

#[test]
fn what_is_wrong_with_a_file_is_found() {
    let place = Place::new("wrong");
    let folder = place.open();
    let digest = keep(&folder, b"what it should be");
    let file = place.file(digest);
    for contents in [&b"what it should b"[..], b"what it should be!", b"What it should be"] {
        fs::write(&file, contents).unwrap();
        assert!(folder.read(digest).unwrap_err().contains("not what its name says"));
    }
    for contents in [&[][..], &[0; 51]] {
        fs::write(&file, contents).unwrap();
        assert!(folder.read(digest).unwrap_err().contains("and not 1 to 50"));
        assert_eq!(folder.scan(), []);
        assert!(!file.exists(), "it is removed");
    }
    let elsewhere = place.0.join("elsewhere");
    fs::write(&elsewhere, b"what it should be").unwrap();
    symlink(&elsewhere, &file).unwrap();
    assert!(folder.read(digest).is_err());
    assert_eq!(folder.scan(), []);
    assert!(elsewhere.exists() && fs::symlink_metadata(&file).is_err(), "the link is removed");
    // A pipe keeps nobody waiting.
    let mode = Mode::RUSR | Mode::WUSR;
    rustix::fs::mknodat(CWD, &file, FileType::Fifo, mode, 0).unwrap();
    assert!(folder.read(digest).unwrap_err().contains("no file"));
    assert_eq!(folder.scan(), []);
    keep(&folder, b"what it should be");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o620)).unwrap();
    assert!(folder.read(digest).unwrap_err().contains("others may write it"));
    if rustix::process::geteuid().is_root() {
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        chown(&file, Some(7), None).unwrap();
        assert!(folder.read(digest).unwrap_err().contains("another user"));
    }
    assert_eq!(folder.scan(), []);
    assert!(elsewhere.exists(), "what has another name is left alone");
}

#[test]
fn a_folder_that_others_can_write_is_not_used() {
    let place = Place::new("others");
    drop(place.open());
    for mode in [0o720, 0o702, 0o777] {
        fs::set_permissions(&place.0, fs::Permissions::from_mode(mode)).unwrap();
        let error = Folder::open(&place.0, LIMITS).unwrap_err();
        assert!(error.contains("others may write it"), "{error}");
    }
    fs::set_permissions(&place.0, fs::Permissions::from_mode(0o755)).unwrap();
    drop(place.open());
    let link = Place::new("link");
    symlink(&place.0, &link.0).unwrap();
    assert!(Folder::open(&link.0, LIMITS).unwrap_err().contains("no folder"));
    fs::remove_file(&link.0).unwrap();
    fs::write(&link.0, b"a file").unwrap();
    assert!(Folder::open(&link.0, LIMITS).unwrap_err().contains("no folder"));
    fs::remove_file(&link.0).unwrap();
    assert!(Folder::open(&link.0.join("within"), LIMITS).is_err(), "its folder is not there");
    if rustix::process::geteuid().is_root() {
        chown(&place.0, Some(7), None).unwrap();
        let error = Folder::open(&place.0, LIMITS).unwrap_err();
        assert!(error.contains("another user"), "{error}");
    }
}

#[test]
fn what_a_process_left_half_written_goes_in_time() {
    let place = Place::new("partial");
    let folder = place.open();
    let (old, new) = (place.0.join(".partial-1-1"), place.0.join(".partial-1-2"));
    fs::write(&old, b"half").unwrap();
    fs::write(&new, b"half").unwrap();
    let long_ago = Timespec { tv_sec: 1_000_000, tv_nsec: 0 };
    let times = Timestamps { last_access: long_ago, last_modification: long_ago };
    rustix::fs::utimensat(CWD, &old, &times, AtFlags::empty()).unwrap();
    assert_eq!(folder.scan(), []);
    assert!(!old.exists() && new.exists(), "somebody may be writing the other one");
}

#[test]
fn two_that_share_a_folder_keep_whole_files_within_the_limits() {
    let place = Place::new("shared");
    let schemas: Vec<Vec<u8>> = (1..8).map(|length| vec![length; length.into()]).collect();
    let work = |schemas: &[Vec<u8>]| {
        let folder = place.open();
        for _ in 0..50 {
            for bytes in schemas {
                // The other may take away what this one is about to rename.
                let _ = folder.write(Digest::of(bytes), bytes);
                for digest in folder.scan() {
                    if let Err(why) = folder.read(digest) {
                        assert!(why.contains("No such file"), "{why}");
                    }
                }
            }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| work(&schemas));
        scope.spawn(|| work(&schemas));
    });
    let folder = place.open();
    keep(&folder, b"last");
    let left = folder.scan();
    assert!(left.len() <= LIMITS.files_max, "{left:?}");
    assert!(left.iter().all(|digest| folder.read(*digest).is_ok()));
}
