//! What `cargo xtask soak` is asked for.

/// Cases of a property that says nothing: proptest's default.
const USUAL_CASES: u32 = 256;
/// Cases, and values of them, that proptest may throw away beside those, by default.
const USUAL_REJECTS: [u32; 2] = [1024, 65_536];

/// What to run, and for how long.
#[derive(Debug, PartialEq, Eq)]
pub struct Options {
    pub minutes: u64,
    /// How many times the usual cases each property has.
    pub times: u32,
    /// The packages whose tests run, without simulators; all if there are none.
    pub packages: Vec<String>,
}

impl Options {
    /// Reads the command's arguments: `[--minutes N] [--times N] [PACKAGE…]`.
    pub fn parse(arguments: &[&str]) -> Result<Options, String> {
        let mut options = Options { minutes: 60, times: 1, packages: Vec::new() };
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().copied().unwrap_or_default();
            match *argument {
                "--minutes" => options.minutes = number(value(), "minutes")?,
                "--times" => options.times = number(value(), "times the usual cases")?,
                option if option.starts_with('-') => {
                    return Err(format!("soak: no option `{option}`; see cargo xtask help"));
                }
                package => options.packages.push(package.to_owned()),
            }
        }
        match options.times {
            0 => Err("soak: `0` times the usual cases are none".to_owned()),
            _ => Ok(options),
        }
    }

    /// What tells proptest so, as variables of the environment.
    pub fn environment(&self) -> [(&'static str, String); 3] {
        let of = |usual: u32| usual.saturating_mul(self.times).to_string();
        let [cases, values] = USUAL_REJECTS;
        [
            ("PROPTEST_CASES", of(USUAL_CASES)),
            ("PROPTEST_MAX_GLOBAL_REJECTS", of(cases)),
            ("PROPTEST_MAX_LOCAL_REJECTS", of(values)),
        ]
    }
}

fn number<T: std::str::FromStr>(text: &str, what: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("soak: `{text}` is no number of {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_come_in_any_order() {
        let options = Options::parse(&["a", "--times", "100", "b", "--minutes", "5"]);
        let packages = ["a", "b"].map(str::to_owned).to_vec();
        assert_eq!(options, Ok(Options { minutes: 5, times: 100, packages }));
        let usual = Options::parse(&[]).expect("nothing is needed");
        assert_eq!((usual.minutes, usual.times), (60, 1));
        assert!(usual.packages.is_empty());
    }

    #[test]
    fn wrong_options_are_told() {
        for (arguments, word) in [
            (&["--minutes", "x"][..], "minutes"),
            (&["--times"], "times"),
            (&["--times", "0"], "none"),
            (&["--hours", "1"], "--hours"),
        ] {
            let message = Options::parse(arguments).expect_err("it is wrong");
            assert!(message.contains(word), "{message}");
        }
    }

    #[test]
    fn proptest_is_told_how_many_cases_and_rejects_there_are() {
        let options = Options::parse(&["--times", "3"]).expect("right");
        let expected = [
            ("PROPTEST_CASES", "768"),
            ("PROPTEST_MAX_GLOBAL_REJECTS", "3072"),
            ("PROPTEST_MAX_LOCAL_REJECTS", "196608"),
        ];
        assert_eq!(options.environment(), expected.map(|(name, value)| (name, value.to_owned())));
    }
}
