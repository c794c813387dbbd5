//! The token that applications show when they attach.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use petasos_attach::hello::Token;

/// More than a token may have, so that one that is too long is refused.
const FILE_BYTES_MAX: u64 = 1024;
/// Permission bits of those who are neither the file's user nor of its group.
const OTHERS: u32 = 0o007;

/// Reads the token of a file: its text, without white space around it.
///
/// # Errors
/// A text that says what is wrong with the file.
pub fn read(path: &Path) -> Result<Token, String> {
    let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let file = File::open(path).map_err(|error| failed(&error))?;
    let metadata = file.metadata().map_err(|error| failed(&error))?;
    if metadata.mode() & OTHERS != 0 {
        return Err(failed(
            &"other users have access to this token: take that away with chmod o-rwx",
        ));
    }
    let mut text = Vec::new();
    file.take(FILE_BYTES_MAX).read_to_end(&mut text).map_err(|error| failed(&error))?;
    let token = text.trim_ascii();
    if token.is_empty() {
        return Err(failed(&"there is no token in this file"));
    }
    Token::new(token).map_err(|error| failed(&error))
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_token_is_the_text_of_a_file_that_others_cannot_read() {
        let path = std::env::temp_dir().join(format!("petasosd-token-{}", std::process::id()));
        let read_as = |text: &[u8], mode| {
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            read(&path)
        };
        let token = read_as(b"secret\n", 0o640).unwrap();
        assert!(token.matches(&Token::new(b"secret").unwrap()));
        assert!(read_as(&[b'x'; 64], 0o600).is_ok());
        for (text, mode, why) in [
            (&b"secret"[..], 0o644, "other users have access"),
            (b" \n", 0o600, "no token in this file"),
            (&[b'x'; 65], 0o600, "at most 64 bytes"),
            (&[b'x'; 100_000], 0o600, "at most 64 bytes"),
        ] {
            let error = read_as(text, mode).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
        std::fs::remove_file(&path).unwrap();
        assert!(read(&path).unwrap_err().contains("No such file"));
    }
}
