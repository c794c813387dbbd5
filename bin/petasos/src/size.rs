//! Sizes on the command line: `4096`, `64KiB`, `1GiB`.

/// Parses a number of bytes with an optional unit.
///
/// # Errors
/// A message about the error in the text, for the user.
pub fn parse_bytes(text: &str) -> Result<usize, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let shift = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kib" => 10,
        "m" | "mib" => 20,
        "g" | "gib" => 30,
        _ => return Err(format!("`{unit}` is no unit; use KiB, MiB or GiB")),
    };
    let number: usize = number.parse().map_err(|_| "expected a number such as 64MiB".to_owned())?;
    number.checked_mul(1 << shift).ok_or_else(|| "that is more than there can be".to_owned())
}

/// `bytes` for people, in units of 1024: without decimals if possible, otherwise with three digits.
pub fn in_words(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["B", "KiB", "MiB", "GiB"];
    let (mut value, mut unit) = (bytes as f64, 0);
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let decimals = if value.fract() == 0.0 || value >= 100.0 { 0 } else { 1 };
    format!("{value:.decimals$} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_powers_of_1024() {
        let cases =
            [("0", 0), ("4096", 4096), ("64KiB", 65_536), ("2 mib", 2 << 20), ("1g", 1 << 30)];
        for (text, bytes) in cases {
            assert_eq!(parse_bytes(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn nonsense_is_refused_with_a_reason() {
        for text in
            ["", "GiB", "-1", "1.5MiB", "3 parsecs", "99999999999999999999", "99999999999GiB"]
        {
            assert!(parse_bytes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn words_are_short() {
        let cases = [(0, "0 B"), (4096, "4 KiB"), (1_418_350, "1.4 MiB"), (1 << 30, "1 GiB")];
        for (bytes, words) in cases {
            assert_eq!(in_words(bytes), words);
        }
    }
}
