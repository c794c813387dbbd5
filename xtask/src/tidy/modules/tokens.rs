//! The tokens of production code, as far as modules and paths need them.

use std::iter::Peekable;
use std::slice::Iter;

use crate::tidy::scan::Source;

/// A word, `::`, or one character that is neither.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    pub kind: Kind,
    /// Line, counted from 1.
    pub line: usize,
    /// Position in the text, in characters.
    pub at: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    Word(String),
    PathSeparator,
    Mark(char),
}

impl Token {
    /// The word that this token is.
    pub fn word(&self) -> Option<&str> {
        match &self.kind {
            Kind::Word(word) => Some(word),
            _ => None,
        }
    }

    /// Whether this token is the character `mark`.
    pub fn is(&self, mark: char) -> bool {
        self.kind == Kind::Mark(mark)
    }

    /// Whether this token is `::`.
    pub fn separates(&self) -> bool {
        self.kind == Kind::PathSeparator
    }
}

/// The tokens of `source`, without code that is only compiled for tests.
pub fn of(source: &Source) -> Vec<Token> {
    let mut reader = Reader { chars: &source.code, at: 0, line: 1, tokens: Vec::new() };
    while reader.at < reader.chars.len() {
        reader.step();
    }
    reader.tokens.retain(|token| !source.in_test_item(token.line));
    reader.tokens
}

/// A list of tokens that is read from the front.
pub type Tokens<'a> = Peekable<Iter<'a, Token>>;

struct Reader<'a> {
    chars: &'a [char],
    at: usize,
    line: usize,
    tokens: Vec<Token>,
}

impl Reader<'_> {
    fn step(&mut self) {
        let c = self.chars[self.at];
        match c {
            '\n' => (self.line, self.at) = (self.line + 1, self.at + 1),
            c if c.is_whitespace() => self.at += 1,
            ':' if self.peek(1) == ':' => self.push(Kind::PathSeparator, 2),
            'r' if self.peek(1) == '#' && is_word(self.peek(2)) => {
                self.at += 2;
                self.word();
            }
            c if is_word(c) => self.word(),
            mark => self.push(Kind::Mark(mark), 1),
        }
    }

    fn word(&mut self) {
        let rest = self.chars[self.at..].iter();
        let word: String = rest.take_while(|c| is_word(**c)).collect();
        let len = word.chars().count();
        self.push(Kind::Word(word), len);
    }

    fn push(&mut self, kind: Kind, len: usize) {
        self.tokens.push(Token { kind, line: self.line, at: self.at });
        self.at += len;
    }

    fn peek(&self, offset: usize) -> char {
        self.chars.get(self.at + offset).copied().unwrap_or('\0')
    }
}

fn is_word(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}
