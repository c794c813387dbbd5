//! Words that nobody can guess, compared without telling how much of one was right.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use petasos_base::secret_u64;
use petasos_cli::failed::Failed;

/// The shortest token that is taken from a file: 32 hexadecimal digits are 128 bits.
const TOKEN_CHARS_MIN: usize = 32;
/// The longest.
const TOKEN_CHARS_MAX: usize = 1024;
/// Everybody may read it.
const READABLE_BY_ALL: u32 = 0o004;

/// A token, or a part of a session. It is not printed by accident.
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    /// 128 bits of the system's randomness.
    pub fn new() -> Secret {
        Secret(format!("{:016x}{:016x}", secret_u64(), secret_u64()))
    }

    /// The token in a file.
    pub fn read(path: &Path) -> Result<Secret, Failed> {
        let failed = |what: String, advice: &str| {
            Failed::new(format!("{}: {what}", path.display())).with_advice(advice)
        };
        let unread = |error: std::io::Error| {
            failed(error.to_string(), "name a file with a token, such as of `openssl rand -hex 32`")
        };
        let file = File::open(path).map_err(unread)?;
        if file.metadata().map_err(unread)?.mode() & READABLE_BY_ALL != 0 {
            return Err(failed(
                "every user of this host can read this token".to_owned(),
                "take that right away: chmod o-r",
            ));
        }
        let mut text = String::new();
        file.take(TOKEN_CHARS_MAX as u64 + 2).read_to_string(&mut text).map_err(unread)?;
        let token = text.trim_end();
        let is_fit = (TOKEN_CHARS_MIN..=TOKEN_CHARS_MAX).contains(&token.len())
            && token.bytes().all(|byte| byte.is_ascii_graphic());
        match is_fit {
            true => Ok(Secret(token.to_owned())),
            false => Err(failed(
                format!("a token has {TOKEN_CHARS_MIN} to {TOKEN_CHARS_MAX} visible characters"),
                "make one: openssl rand -hex 32",
            )),
        }
    }

    /// What it is.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// Whether somebody knows it.
    pub fn is(&self, said: &str) -> bool {
        verify_slices_are_equal(self.0.as_bytes(), said.as_bytes()).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn read(name: &str, text: &str, mode: u32) -> Result<Secret, String> {
        let name = format!("petasos-token-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, text).expect("the temporary folder is writable");
        let permissions = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(&path, permissions).expect("it is ours");
        let secret = Secret::read(&path).map_err(|failed| failed.to_string());
        std::fs::remove_file(&path).expect("it is ours");
        secret
    }

    #[test]
    fn secrets_differ_and_only_the_whole_one_is_right() {
        let (one, other) = (Secret::new(), Secret::new());
        assert_eq!(one.text().len(), TOKEN_CHARS_MIN);
        assert!(one.is(one.text()) && !one.is(other.text()));
        assert!(!one.is("") && !one.is(&one.text()[1..]) && !one.is(&format!("{} ", one.text())));
    }

    #[test]
    fn a_token_of_a_file_is_long_and_not_everybodys() {
        let token = "0123456789abcdef".repeat(2);
        let secret = read("fine", &format!("{token}\n"), 0o640).expect("it is one");
        assert!(secret.is(&token));
        let why = |text: &str, mode| read("wrong", text, mode).err().expect("it is none");
        assert!(why(&token, 0o644).contains("every user"));
        for text in ["", "short", &token[1..], &"x".repeat(2000), &format!("{token} {token}")] {
            assert!(why(text, 0o600).contains("32 to 1024 visible characters"), "{text}");
        }
        let unread = Secret::read(Path::new("/nowhere/token")).err().expect("it is not there");
        assert!(unread.to_string().contains("openssl"), "{unread}");
    }
}
