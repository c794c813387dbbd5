//! JSON as a tree of borrowed pieces. Numbers stay text, so that none loses digits.

use std::borrow::Cow;

use super::FromJsonError;
use super::path::Step;

/// The most arrays and objects within each other: several per level of messages (M18).
const NESTING_MAX: u32 = 4 * crate::DEPTH_MAX;

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Json<'t> {
    Null,
    Bool(bool),
    /// As RFC 8259 has numbers.
    Number(Cow<'t, str>),
    String(Cow<'t, str>),
    Array(Vec<Json<'t>>),
    /// Names in order of arrival, perhaps more than once.
    Object(Vec<(Cow<'t, str>, Json<'t>)>),
}

/// Reads one value, and nothing else, from `text`.
pub(super) fn parse(text: &str) -> Result<Json<'_>, FromJsonError> {
    let mut reader = Reader { text, at: 0 };
    let value = reader.value(NESTING_MAX)?;
    reader.blanks();
    if reader.at == text.len() { Ok(value) } else { Err(reader.error()) }
}

/// Whether a text is a number as RFC 8259 has them.
pub(super) fn is_number(text: &str) -> bool {
    let mut reader = Reader { text, at: 0 };
    reader.number().is_ok() && reader.at == text.len()
}

/// Where `path` leads in a text that [`parse`] has read; to the last part of it that is there.
pub(super) fn find(text: &str, path: &[Step]) -> usize {
    let mut reader = Reader { text, at: 0 };
    let mut found = 0;
    for step in path {
        match reader.enter(step) {
            Ok(Some(at)) => found = at,
            _ => break,
        }
    }
    found
}

struct Reader<'t> {
    text: &'t str,
    /// At a character's begin.
    at: usize,
}

impl<'t> Reader<'t> {
    fn error(&self) -> FromJsonError {
        FromJsonError::Syntax { at: self.at }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn blanks(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    /// Whether `byte` came, which is passed then.
    fn take(&mut self, byte: u8) -> bool {
        let is_there = self.peek() == Some(byte);
        self.at += usize::from(is_there);
        is_there
    }

    fn expect(&mut self, byte: u8) -> Result<(), FromJsonError> {
        if self.take(byte) { Ok(()) } else { Err(self.error()) }
    }

    fn word(&mut self, word: &str, value: Json<'t>) -> Result<Json<'t>, FromJsonError> {
        match self.text[self.at..].starts_with(word) {
            true => {
                self.at += word.len();
                Ok(value)
            }
            false => Err(self.error()),
        }
    }

    fn value(&mut self, nesting: u32) -> Result<Json<'t>, FromJsonError> {
        self.blanks();
        match self.peek() {
            Some(b'n') => self.word("null", Json::Null),
            Some(b't') => self.word("true", Json::Bool(true)),
            Some(b'f') => self.word("false", Json::Bool(false)),
            Some(b'"') => Ok(Json::String(self.string()?)),
            Some(b'-' | b'0'..=b'9') => Ok(Json::Number(Cow::Borrowed(self.number()?))),
            Some(b'[') => self.array(nesting.checked_sub(1).ok_or(FromJsonError::TooDeep)?),
            Some(b'{') => self.object(nesting.checked_sub(1).ok_or(FromJsonError::TooDeep)?),
            _ => Err(self.error()),
        }
    }

    fn array(&mut self, nesting: u32) -> Result<Json<'t>, FromJsonError> {
        self.expect(b'[')?;
        let mut values = Vec::new();
        self.blanks();
        if self.take(b']') {
            return Ok(Json::Array(values));
        }
        loop {
            values.push(self.value(nesting)?);
            self.blanks();
            if !self.take(b',') {
                self.expect(b']')?;
                return Ok(Json::Array(values));
            }
        }
    }

    fn object(&mut self, nesting: u32) -> Result<Json<'t>, FromJsonError> {
        self.expect(b'{')?;
        let mut members = Vec::new();
        self.blanks();
        if self.take(b'}') {
            return Ok(Json::Object(members));
        }
        loop {
            self.blanks();
            let name = self.string()?;
            self.blanks();
            self.expect(b':')?;
            members.push((name, self.value(nesting)?));
            self.blanks();
            if !self.take(b',') {
                self.expect(b'}')?;
                return Ok(Json::Object(members));
            }
        }
    }

    /// Goes to a part of the value that comes next; answers where that begins, with its name.
    fn enter(&mut self, step: &Step) -> Result<Option<usize>, FromJsonError> {
        self.blanks();
        self.at += 1;
        for index in 0.. {
            self.blanks();
            let begin = self.at;
            let is_it = match step {
                Step::Element(wanted) => index == *wanted,
                Step::Member(wanted) => {
                    let name = self.string()?;
                    self.blanks();
                    self.expect(b':')?;
                    *name == **wanted
                }
            };
            if is_it {
                return Ok(Some(begin));
            }
            self.value(NESTING_MAX)?;
            self.blanks();
            if !self.take(b',') {
                break;
            }
        }
        Ok(None)
    }

    fn number(&mut self) -> Result<&'t str, FromJsonError> {
        let start = self.at;
        self.take(b'-');
        if !self.take(b'0') {
            self.digits()?;
        }
        if self.take(b'.') {
            self.digits()?;
        }
        if self.take(b'e') || self.take(b'E') {
            let _sign = self.take(b'+') || self.take(b'-');
            self.digits()?;
        }
        Ok(&self.text[start..self.at])
    }

    fn digits(&mut self) -> Result<(), FromJsonError> {
        let start = self.at;
        while let Some(b'0'..=b'9') = self.peek() {
            self.at += 1;
        }
        if self.at > start { Ok(()) } else { Err(self.error()) }
    }

    fn string(&mut self) -> Result<Cow<'t, str>, FromJsonError> {
        self.expect(b'"')?;
        let start = self.at;
        self.plain();
        if self.take(b'"') {
            return Ok(Cow::Borrowed(&self.text[start..self.at - 1]));
        }
        let mut string = self.text[start..self.at].to_owned();
        while !self.take(b'"') {
            self.expect(b'\\')?;
            string.push(self.escape()?);
            let from = self.at;
            self.plain();
            string.push_str(&self.text[from..self.at]);
        }
        Ok(Cow::Owned(string))
    }

    /// Passes characters that stand for themselves.
    fn plain(&mut self) {
        while self.peek().is_some_and(|byte| byte >= 0x20 && byte != b'"' && byte != b'\\') {
            self.at += 1;
        }
    }

    fn escape(&mut self) -> Result<char, FromJsonError> {
        let byte = self.peek().ok_or_else(|| self.error())?;
        let plain = match byte {
            b'"' | b'\\' | b'/' => byte as char,
            b'b' => '\x08',
            b'f' => '\x0c',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => return self.unicode(),
            _ => return Err(self.error()),
        };
        self.at += 1;
        Ok(plain)
    }

    /// `uXXXX`, or two of these that are one character together.
    fn unicode(&mut self) -> Result<char, FromJsonError> {
        let first = self.unit()?;
        let code = match first {
            0xd800..=0xdbff => {
                self.expect(b'\\')?;
                let second = self.unit()?;
                if !(0xdc00..=0xdfff).contains(&second) {
                    return Err(self.error());
                }
                0x1_0000 + ((first & 0x3ff) << 10 | second & 0x3ff)
            }
            code => code,
        };
        char::from_u32(code).ok_or_else(|| self.error())
    }

    fn unit(&mut self) -> Result<u32, FromJsonError> {
        self.expect(b'u')?;
        let digits = self.text.get(self.at..self.at + 4).ok_or_else(|| self.error())?;
        let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        let code = u32::from_str_radix(digits, 16).ok().filter(|_| is_hex);
        self.at += 4;
        code.ok_or_else(|| self.error())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_unescaped() {
        let string = |text: &str| match parse(text) {
            Ok(Json::String(string)) => Some(string.into_owned()),
            _ => None,
        };
        assert_eq!(string(r#""a\"\\\/\b\f\n\r\té""#).unwrap(), "a\"\\/\x08\x0c\n\r\té");
        assert_eq!(string(r#""\u00e9\ud83d\ude00""#).unwrap(), "é😀");
        for text in [
            r#""\ud83d""#,
            r#""\ud83dx""#,
            r#""\ude00""#,
            r#""\u+123""#,
            r#""\x""#,
            "\"\n\"",
            "\"",
            r#""\u12"#,
            r#""\u12é""#,
        ] {
            assert_eq!(string(text), None, "{text}");
        }
    }

    #[test]
    fn what_is_not_json_is_refused_where_it_is_not() {
        for (text, at) in [
            ("", 0),
            ("[1,]", 3),
            ("{\"a\" 1}", 5),
            ("01", 1),
            ("1.", 2),
            ("nul", 0),
            ("[1] 2", 4),
            ("{a:1}", 1),
            ("-", 1),
            ("1e", 2),
            ("+1", 0),
        ] {
            assert_eq!(parse(text), Err(FromJsonError::Syntax { at }), "{text}");
        }
        let deep = "[".repeat(100_000);
        assert_eq!(parse(&deep), Err(FromJsonError::TooDeep));
        assert!(is_number("-1.5e+3") && !is_number("1 ") && !is_number("Infinity"));
    }
}
