use proptest::prelude::*;

use super::*;

fn parsed(text: &str) -> Vec<(Need, What)> {
    let query: Query = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
    query.clauses.into_iter().map(|Clause { need, what }| (need, what)).collect()
}

fn word(text: &str) -> What {
    What::Word(text.into())
}

#[test]
fn each_kind_of_clause_is_read() {
    use Need::{Demanded, Forbidden, Wanted};
    assert_eq!(parsed(" Ant  bee "), [(Wanted, word("ant")), (Wanted, word("bee"))]);
    assert_eq!(parsed("+ant -bee"), [(Demanded, word("ant")), (Forbidden, word("bee"))]);
    let phrase = What::Phrase(vec!["queen".into(), "bee".into()]);
    assert_eq!(parsed("\"Queen bee\""), [(Wanted, phrase.clone())]);
    assert_eq!(parsed("+queen-bee"), [(Demanded, phrase)]);
    assert_eq!(parsed("\"Bee\""), [(Wanted, word("bee"))]);
    let near = What::Near("queen".into(), "bee".into(), 3);
    assert_eq!(parsed("-\"queen bee\"~3 ant"), [(Forbidden, near), (Wanted, word("ant"))]);
    let letters = ['b', 'e'].map(Piece::Letter);
    let wild = [&letters[..], &[Piece::AnyLetter, Piece::AnyLetters]].concat();
    assert_eq!(parsed("Be?*"), [(Wanted, What::Wild(wild))]);
}

#[test]
fn what_is_no_query_is_refused_with_a_reason() {
    let error = |text: &str| text.parse::<Query>().expect_err(text);
    assert_eq!(error(&"a".repeat(257)), QueryError::TooLong);
    assert_eq!(error(&"a ".repeat(17)), QueryError::TooManyClauses);
    for text in ["", "  ", "-ant"] {
        assert_eq!(error(text), QueryError::NothingWanted, "{text}");
    }
    for text in ["+", "- ant", "\"\"", "...", &"a".repeat(65)] {
        assert!(matches!(error(text), QueryError::NoWord(_)), "{text}");
    }
    assert_eq!(error("\"queen be*\""), QueryError::WildPhrase);
    assert_eq!(error("\"queen bee"), QueryError::OpenPhrase);
    assert_eq!(error(&format!("\"{}\"", "a ".repeat(17))), QueryError::LongPhrase);
    for text in ["\"a b\"~", "\"a b\"~-1", "\"a b\"~101", "\"a b c\"~1", "\"a\"~1", "\"a b\"c"] {
        assert_eq!(error(text), QueryError::Distance, "{text}");
    }
    for text in ["*", "a*", "?ab", "ab*-c", "ab*?*?*"] {
        assert!(matches!(error(text), QueryError::Wild(_)), "{text}");
    }
}

proptest! {
    #[test]
    fn whatever_comes_is_a_query_or_an_error(
        text in "[+\\-]?[\"a-cÉ*?~1 ]{0,40}",
        any in ".{0,99}",
    ) {
        for text in [text, any] {
            if let Ok(query) = text.parse::<Query>() {
                prop_assert!((1..=16).contains(&query.clauses().len()));
            }
        }
    }
}
