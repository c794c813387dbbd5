//! The query of a request's URL.

use percent_encoding::percent_decode_str;

use crate::error::Error;

/// Parameters, the first of each name.
#[derive(Debug, Default)]
pub struct Query(Vec<(String, String)>);

/// The most parameters that are read.
const PARAMETERS_MAX: usize = 32;
/// The most rooms that may be asked for.
const ROOMS_MAX: i32 = 1000;

impl Query {
    /// Reads `name=value&…`. What is not UTF-8 is replaced.
    pub fn parse(query: &str) -> Query {
        let decoded = |text: &str| {
            let text = text.replace('+', " ");
            percent_decode_str(&text).decode_utf8_lossy().into_owned()
        };
        let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        let pairs = pairs.map(|(name, value)| (decoded(name), decoded(value)));
        Query(pairs.take(PARAMETERS_MAX).collect())
    }

    /// A parameter that has to be there.
    ///
    /// # Errors
    /// It is missing or empty.
    pub fn text(&self, name: &str) -> Result<&str, Error> {
        let value = self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
        let missing = || Error::invalid(format!("the parameter `{name}` is missing"));
        value.filter(|value| !value.is_empty()).ok_or_else(missing)
    }

    /// A number that has to be there.
    ///
    /// # Errors
    /// It is missing or no number.
    pub fn number(&self, name: &str) -> Result<f64, Error> {
        let number = self.text(name)?.parse::<f64>().ok().filter(|number| number.is_finite());
        number.ok_or_else(|| Error::invalid(format!("`{name}` is not a number")))
    }

    /// A count of rooms.
    ///
    /// # Errors
    /// It is missing, or not from 1 to 1000.
    pub fn count(&self, name: &str) -> Result<i32, Error> {
        let count = self.text(name)?.parse::<i32>().ok();
        let count = count.filter(|count| (1..=ROOMS_MAX).contains(count));
        count.ok_or_else(|| Error::invalid(format!("`{name}` is not from 1 to {ROOMS_MAX}")))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn parameters_are_read() {
        let query = Query::parse("a=1.5&b=x%20y+z&c=&a=2&d&n=7&%C3%A9=e");
        assert_eq!(query.number("a"), Ok(1.5));
        assert_eq!(query.text("b"), Ok("x y z"));
        assert_eq!(query.count("n"), Ok(7));
        assert_eq!(query.text("é"), Ok("e"));
        assert!(query.text("c").is_err() && query.text("d").is_err());
        assert!(query.number("b").is_err() && query.count("a").is_err());
        for wrong in ["n=0", "n=-1", "n=1001", "n=99999999999", "n=x", ""] {
            assert!(Query::parse(wrong).count("n").is_err(), "{wrong}");
        }
        assert!(Query::parse("a=inf").number("a").is_err());
        assert!(Query::parse("a=NaN").number("a").is_err());
    }

    #[test]
    fn there_is_an_end_of_parameters() {
        let query = "a=1&".repeat(PARAMETERS_MAX) + "b=2";
        assert!(Query::parse(&query).text("b").is_err());
    }

    proptest! {
        #[test]
        fn any_query_is_read(query in ".{0,100}", tail in "[a%&=+0-9]{0,50}") {
            let _ = Query::parse(&query);
            let _ = Query::parse(&tail);
        }
    }
}
