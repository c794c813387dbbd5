//! From an amount of memory to a table.

use petasos_cli::failure::Failure;
use petasos_cli::size::in_words;
use petasos_store::{Config, ConfigError, Mode};

/// Partitions of a loop, if the logs are long enough: so many that loops get equal shares.
const PARTITIONS_PER_LOOP: u16 = 16;
/// Bytes of an item that nobody has said more about: its key, its value, and what they take beside.
const ITEM_BYTES: u64 = 160;
/// Bytes of buckets for each item.
const BUCKET_BYTES: u64 = 17;

/// What a server is to hold.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    pub mode: Mode,
    /// Bytes for buckets and logs together.
    pub memory_bytes: u64,
    /// Items, if that is known.
    pub items: Option<u64>,
    pub value_bytes_max: u32,
    pub loops: u16,
}

/// The table that fits.
///
/// # Errors
/// If there is none, with the options to change.
pub fn table(wanted: &Wanted) -> Result<Config, Failure> {
    let Wanted { mode, memory_bytes, value_bytes_max, loops, .. } = *wanted;
    let items = wanted.items.unwrap_or(memory_bytes / ITEM_BYTES).max(loops.into());
    let log_bytes = memory_bytes.saturating_sub(items.saturating_mul(BUCKET_BYTES));
    let with = |partitions: u16| {
        let (locks_max, secret) = (1024, None);
        Config { mode, partitions, items, log_bytes, value_bytes_max, locks_max, secret }
    };
    // Fewer partitions have longer logs each.
    let halved = |partitions: &u16| Some(partitions / 2).filter(|half| *half >= loops);
    let mut counts = std::iter::successors(Some(loops * PARTITIONS_PER_LOOP), halved);
    let fits = counts.find_map(|count| Some(with(count)).filter(|it| it.validate().is_ok()));
    fits.ok_or_else(|| failure(with(loops).validate().err(), wanted))
}

fn failure(error: Option<ConfigError>, wanted: &Wanted) -> Failure {
    let Wanted { memory_bytes, value_bytes_max, .. } = *wanted;
    let memory = in_words(memory_bytes);
    match error {
        Some(ConfigError::LogTooShort { .. }) => Failure::with_advice(
            format_args!(
                "{memory} are too little for values of up to {}",
                in_words(value_bytes_max.into())
            ),
            "give more --memory, a lower --value-max, or fewer --loops or --items",
        ),
        Some(ConfigError::LogTooLong { .. }) => Failure::with_advice(
            format_args!("{memory} are too much for so few loops"),
            "give less --memory or more --loops",
        ),
        Some(error) => Failure::with_advice(error, "change --items, --loops or --value-max"),
        None => Failure::new("there is no such table"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const USUAL: Wanted = Wanted {
        mode: Mode::Cache,
        memory_bytes: 256 << 20,
        items: None,
        value_bytes_max: 1 << 20,
        loops: 1,
    };

    #[test]
    fn a_table_takes_about_what_was_given() {
        for mode in [Mode::Cache, Mode::Store] {
            let config = table(&Wanted { mode, ..USUAL }).expect("there is one");
            assert!(config.partitions >= 4, "{config:?}");
            assert!((200 << 20..256 << 20).contains(&config.log_bytes), "{config:?}");
        }
        let short = Wanted { value_bytes_max: 1000, loops: 4, ..USUAL };
        assert_eq!(table(&short).expect("there is one").partitions, 64);
    }

    #[test]
    fn what_does_not_fit_is_refused_with_advice() {
        let said = |wanted: Wanted| table(&wanted).expect_err("there is none").to_string();
        let little = said(Wanted { memory_bytes: 8 << 20, ..USUAL });
        assert_eq!(
            little,
            "8 MiB are too little for values of up to 1 MiB; give more --memory, a lower \
             --value-max, or fewer --loops or --items"
        );
        let much = said(Wanted { memory_bytes: 1 << 50, items: Some(10), ..USUAL });
        assert!(much.contains("less --memory or more --loops"), "{much}");
        let many = said(Wanted { items: Some(u64::MAX), ..USUAL });
        assert!(many.contains("--items"), "{many}");
    }
}
