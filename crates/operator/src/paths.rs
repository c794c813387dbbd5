//! Paths of sockets and logs, which are checked before anything is there.

use std::path::Path;

/// The longest path of a socket, in bytes: those of Unix sockets have 107, and it is bound with
/// `.new` behind it first.
const SOCKET_BYTES_MAX: usize = 103;

/// Whether a socket can be at a path, as far as the path says.
///
/// # Errors
/// What is wrong with it.
pub fn check_socket(path: &Path) -> Result<(), String> {
    match path.as_os_str().len() {
        0 => Err("a socket needs a path".to_owned()),
        bytes if bytes > SOCKET_BYTES_MAX => Err(format!(
            "{}: the path of a socket has at most {SOCKET_BYTES_MAX} bytes, and this one {bytes}",
            path.display()
        )),
        _ => Ok(()),
    }
}

/// Whether an audit log can be written to a path. Nothing is made there.
///
/// # Errors
/// What is wrong with it.
pub fn check_log(path: &Path) -> Result<(), String> {
    let folder = match path.parent() {
        Some(folder) if folder.as_os_str().is_empty() => Path::new("."),
        Some(folder) => folder,
        None => return Err(format!("{} is not a file", path.display())),
    };
    if !folder.is_dir() {
        return Err(format!("cannot write {}: there is no such folder", path.display()));
    }
    match path.is_dir() {
        true => Err(format!("cannot write {}: it is a folder", path.display())),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_there_is_said() {
        let socket = |path: &str| check_socket(Path::new(path));
        assert_eq!(socket(&"s".repeat(SOCKET_BYTES_MAX)), Ok(()));
        assert!(socket("").is_err_and(|why| why.contains("needs a path")));
        assert!(socket(&"s".repeat(SOCKET_BYTES_MAX + 1)).is_err_and(|why| why.contains("103")));
        let log = |path: &str| check_log(Path::new(path));
        assert_eq!(log("a.log"), Ok(()));
        assert!(log("/nowhere/a.log").is_err_and(|why| why.contains("no such folder")));
        assert!(log("/").is_err() && log("/tmp").is_err_and(|why| why.contains("is a folder")));
    }
}
