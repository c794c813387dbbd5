use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use proptest::prelude::*;

use super::*;

/// A dictionary of these entries, one after another, as its text and its index.
fn made(entries: &[(String, String)]) -> (Vec<u8>, String) {
    let (mut text, mut index) = (String::new(), String::new());
    for (headword, entry) in entries {
        index += &format!("{headword}\t{}\t{}\n", digits(text.len()), digits(entry.len()));
        text += entry;
    }
    (text.into_bytes(), index)
}

fn digits(mut number: usize) -> String {
    let all = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut digits = Vec::new();
    loop {
        digits.insert(0, all[number % 64]);
        number /= 64;
        if number == 0 {
            return String::from_utf8(digits).expect("they are ASCII");
        }
    }
}

fn packed(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text).expect("memory takes it");
    encoder.finish().expect("memory takes it")
}

fn of_index(text: &str, index: &str) -> Result<Corpus, Fault> {
    let mut corpus = Corpus::default();
    corpus.add("test", text.into(), index.as_bytes()).map(|()| corpus)
}

#[test]
fn entries_are_found_whatever_else_an_index_has() {
    let index = "00-database-info\tA\tC\nbee\tG\tD\nant\tC\tE\nemmet\tC\tE\tEmmet\n";
    let corpus = of_index("..ant\nbee\n", index).expect("it is an index");
    assert_eq!(corpus.len(), 2, "of two headwords of one entry, it is the first");
    assert_eq!((corpus.headword(0), &*corpus.text(0)), ("ant", "ant\n"));
    assert_eq!((corpus.headword(1), &*corpus.text(1)), ("bee", "bee"));
    assert_eq!((corpus.dictionary(1), &*corpus.excerpt(0, 2)), ("test", "an"));
}

#[test]
fn what_is_no_index_of_its_text_is_refused() {
    let fault = |index: &str| of_index("abcdef", index).expect_err("it is no index").to_string();
    for line in ["a", "a\tA", "a\tA\t", "a\t\tB", "\tA\tB", "a\tA\tB\tc\td", "a\tA\tA", "a\t-\tB"] {
        assert_eq!(fault(&format!("b\tA\tB\n{line}\n")), "line 2 is none of an index", "{line}");
    }
    assert_eq!(fault("a\tA\tAAAAAAAAB"), "line 1 is none of an index", "too many digits");
    assert_eq!(fault("a\tA\tH"), "line 1 is of an entry beyond the end of the text");
    assert_eq!(fault("a\t////////\t////////"), "line 1 is of an entry beyond the end of the text");
    assert_eq!(fault("a\tA\tD\nb\tC\tB"), "the entries `a` and `b` overlap");
    assert_eq!(fault("a\tA\tD\nb\tA\tB"), "the entries `a` and `b` overlap");
    assert_eq!(fault("00-database-info\tA\tB\n"), "no entry");
    assert_eq!(of_index("", "").expect_err("it is empty").to_string(), "no entry");
}

#[test]
fn what_is_missing_can_be_installed() {
    let nowhere = Path::new("/nonexistent");
    let error = Corpus::load(nowhere, &["wn".into()]).expect_err("it is not there");
    assert!(error.to_string().ends_with("(on Debian: apt-get install dict-wn)"), "{error}");
}

#[test]
fn a_text_that_is_too_long_or_cut_is_refused() {
    let long = packed(&vec![0; 1 << 20]);
    assert!(long.len() < 1 << 14, "it is small until it is unpacked");
    let outcome = gzip::unpack(&*long, (1 << 20) - 1);
    assert!(matches!(outcome, Err(Fault::TooLong(_))), "{outcome:?}");
    assert_eq!(gzip::unpack(&*long, 1 << 20).expect("it fits").len(), 1 << 20);
    for cut in [1, 9, 10, long.len() / 2, long.len() - 1] {
        let outcome = gzip::unpack(&long[..cut], 1 << 20);
        assert!(matches!(outcome, Err(Fault::Read(_))), "{cut}: {outcome:?}");
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        entries in prop::collection::vec(("[a-z]{1,9}", "[ -~é]{1,80}"), 1..40),
    ) {
        let (text, index) = made(&entries);
        let unpacked = gzip::unpack(&*packed(&text), text.len()).expect("it is gzip");
        let mut corpus = Corpus::default();
        corpus.add("test", unpacked, index.as_bytes()).expect("it is an index");
        prop_assert_eq!(corpus.len(), entries.len());
        for (number, (headword, text)) in entries.iter().enumerate() {
            prop_assert_eq!(corpus.headword(number), headword);
            prop_assert_eq!(&*corpus.text(number), text);
        }
    }

    #[test]
    fn whatever_an_index_is_entries_are_within_the_text(
        index in "([a-c0-]{0,3}\t[A-Ea/]{0,2}\t[A-C]{0,2}(\t)?\n?){0,6}",
        text in ".{0,200}",
    ) {
        if let Ok(corpus) = of_index(&text, &index) {
            for entry in 0..corpus.len() {
                prop_assert!(!corpus.text(entry).is_empty());
            }
            let lengths = corpus.entries.iter().map(|entry| entry.text.len());
            prop_assert!(lengths.sum::<usize>() <= text.len(), "none overlap");
        }
    }

    #[test]
    fn whatever_a_file_is_it_is_unpacked_or_refused(
        text in prop::collection::vec(any::<u8>(), 0..400),
        at in any::<prop::sample::Index>(),
        bit in 0..8_u8,
    ) {
        let mut file = packed(&text);
        let at = at.index(file.len());
        file[at] ^= 1 << bit;
        if let Ok(unpacked) = gzip::unpack(&*file, 1000) {
            // The checksum is of the text: some bits say nothing of that.
            prop_assert_eq!(unpacked, text);
        }
    }
}
