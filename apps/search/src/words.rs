//! What a word is, for the index, for queries and for whoever makes them.

use tantivy::tokenizer::{Token, TokenStream, Tokenizer};

/// Longer words are neither indexed nor found.
pub const WORD_BYTES_MAX: usize = 64;

/// The words of a text: runs of letters and digits, in small letters. Very long ones are none, but
/// keep their place.
pub fn words(text: &str) -> impl Iterator<Item = Option<String>> + '_ {
    let runs = text.split(|letter: char| !letter.is_alphanumeric());
    runs.filter(|run| !run.is_empty()).map(word)
}

/// A run of letters and digits as a word.
fn word(run: &str) -> Option<String> {
    let word = run.to_lowercase();
    (word.len() <= WORD_BYTES_MAX).then_some(word)
}

/// Gives [`words`] to the index.
#[derive(Clone, Default)]
pub struct Words {
    token: Token,
}

/// The words of one text.
pub struct WordStream<'a> {
    words: Box<dyn Iterator<Item = (usize, String)> + 'a>,
    token: &'a mut Token,
}

impl Tokenizer for Words {
    type TokenStream<'a> = WordStream<'a>;

    fn token_stream<'a>(&'a mut self, text: &'a str) -> WordStream<'a> {
        self.token.reset();
        let placed = words(text).enumerate();
        let words = Box::new(placed.filter_map(|(place, word)| Some((place, word?))));
        WordStream { words, token: &mut self.token }
    }
}

impl TokenStream for WordStream<'_> {
    fn advance(&mut self) -> bool {
        let Some((place, word)) = self.words.next() else { return false };
        self.token.position = place;
        self.token.text = word;
        true
    }

    fn token(&self) -> &Token {
        self.token
    }

    fn token_mut(&mut self) -> &mut Token {
        self.token
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_runs_of_letters_and_digits() {
        let long = "x".repeat(WORD_BYTES_MAX + 1);
        let text = format!("Éclair's 2nd  {long} -- End");
        let found: Vec<_> = words(&text).collect();
        let some = |word: &str| Some(word.to_owned());
        assert_eq!(found, [some("éclair"), some("s"), some("2nd"), None, some("end")]);
        let (mut tokenizer, mut placed) = (Words::default(), Vec::new());
        let mut stream = tokenizer.token_stream(&text);
        while stream.advance() {
            placed.push((stream.token().position, stream.token().text.clone()));
        }
        let placed: Vec<_> = placed.iter().map(|(place, word)| (*place, word.as_str())).collect();
        assert_eq!(placed, [(0, "éclair"), (1, "s"), (2, "2nd"), (4, "end")]);
    }
}
