//! Short text from the other process: bounded, valid UTF-8, and harmless to print.

use core::fmt;

/// The most bytes of the text in an error message.
pub const DETAIL_BYTES_MAX: usize = 255;

/// UTF-8 of at most `BYTES_MAX` bytes.
///
/// `Display` escapes control characters, so that a peer's name cannot control a terminal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Text<const BYTES_MAX: usize>(String);

impl<const BYTES_MAX: usize> Text<BYTES_MAX> {
    /// `text`, cut after the last whole character that fits.
    pub fn new(text: &str) -> Self {
        Text(text[..text.floor_char_boundary(BYTES_MAX)].to_owned())
    }

    /// The text as it was received, unescaped.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<const BYTES_MAX: usize> fmt::Display for Text<BYTES_MAX> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in self.0.chars() {
            match character.is_control() {
                true => write!(f, "{}", character.escape_default())?,
                false => write!(f, "{character}")?,
            }
        }
        Ok(())
    }
}
