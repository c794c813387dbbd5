//! How large a table is.

use petasos_base::secret_u64;

use crate::hash::Secret;
use crate::item::{ITEM_WORDS_LEAST, KEY_BYTES_MAX, VALUE_BYTES_MAX, words_of};
use crate::partition::Partition;
use crate::segments::capacity_words;
use crate::sizes::{Mode, Sizes};
use crate::slot::PLACE_BITS;

/// The size of a table. It takes all its memory when it is made (K8).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// What it does when it has no room.
    pub mode: Mode,
    /// Partitions, each with an owner: 1 to 4096.
    pub partitions: u16,
    /// Items that the buckets are made for, in all partitions. A cache with more forgets some; a
    /// store with many more refuses some.
    pub items: u64,
    /// Bytes of all partitions' logs. An item takes 24 bytes and its key and its value, each
    /// rounded up to 8.
    pub log_bytes: u64,
    /// The longest value, in bytes: at most 1,048,576 (K1). Partitions with short logs can have
    /// short values only, see [`ConfigError::LogTooShort`].
    pub value_bytes_max: u32,
    /// Buckets of a partition that can be locked at the same time (K15).
    pub locks_max: u32,
    /// What chooses buckets (K12), for tests and simulations that are repeated: whoever knows it
    /// can choose keys that share a bucket. `None` draws one.
    pub secret: Option<[u64; 2]>,
}

/// Why there cannot be such a table: the caller's fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// Wrong number of partitions.
    #[error("a table has 1 to 4096 partitions, not {0}")]
    Partitions(u16),
    /// Values that are too long.
    #[error("a value has at most 1048576 bytes, so the longest cannot have {0}")]
    ValueTooLong(u32),
    /// No items, or more than there can be buckets for.
    #[error("a partition is for 1 to {most} items, not for {items}")]
    Items {
        /// What was asked for, by partition.
        items: u64,
        /// What there can be, by partition.
        most: u64,
    },
    /// A log in which the longest value does not fit well.
    #[error(
        "the log has {log_bytes} bytes; with values of up to {value_bytes_max} bytes it needs at \
         least {least}: make it longer, have fewer partitions, or allow shorter values only"
    )]
    LogTooShort {
        /// What was asked for.
        log_bytes: u64,
        /// What was asked for.
        value_bytes_max: u32,
        /// What would do, for all partitions.
        least: u64,
    },
    /// A log that slots cannot name places of.
    #[error("the log has {log_bytes} bytes, and can have at most {most}: have more partitions")]
    LogTooLong {
        /// What was asked for.
        log_bytes: u64,
        /// What would do, for all partitions.
        most: u64,
    },
}

/// Words of a partition's log at most: slots name all of them, and a ring's end is behind the last
/// (K10).
const LOG_WORDS_MAX: u64 = (1 << PLACE_BITS) - 1;
/// Buckets of a partition at most, so that all numbers of buckets have 32 bits.
const BUCKETS_MAX: u64 = 1 << 31;
/// Overflow buckets of a small store, in which chance may fill many buckets.
const OVERFLOW_LEAST: u32 = 16;
/// A log has room for so many of the longest items: fewer would leave a store no room to clean.
const LONGEST_ITEMS: u64 = 32;

impl Config {
    /// A table for so many items with keys and values of these lengths on average, in one
    /// partition. A store has room for all of them.
    pub fn for_items(mode: Mode, items: u64, key_bytes: u64, value_bytes: u64) -> Config {
        let value_bytes_max = value_bytes.max(1024);
        let item_words_max = words_of(KEY_BYTES_MAX as u64, value_bytes_max);
        let needed = items.saturating_mul(words_of(key_bytes, value_bytes));
        let mut log_words = needed.max(LONGEST_ITEMS * item_words_max);
        let is_short = |log_words| {
            // What is too long is refused later.
            log_words <= LOG_WORDS_MAX && capacity_words(log_words, item_words_max) < needed
        };
        while mode == Mode::Store && is_short(log_words) {
            log_words += log_words / 32;
        }
        Config {
            mode,
            partitions: 1,
            items,
            log_bytes: log_words.saturating_mul(8),
            value_bytes_max: u32::try_from(value_bytes_max).unwrap_or(u32::MAX),
            locks_max: 1024,
            secret: None,
        }
    }

    /// Makes the table: one handle for each partition's owner, in order. All of them hash with
    /// the same secret.
    ///
    /// # Errors
    /// If there cannot be such a table. Nothing has been allocated then.
    pub fn partitions(&self) -> Result<Vec<Partition>, ConfigError> {
        let sizes = self.sizes()?;
        let secret = self.secret.unwrap_or_else(|| [secret_u64(), secret_u64()]);
        let secret = Secret::new(secret);
        let count = self.partitions;
        Ok((0..count).map(|number| Partition::new(&sizes, secret, number, count)).collect())
    }

    /// Says whether there can be such a table. Allocates nothing.
    ///
    /// # Errors
    /// If there cannot.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.sizes().map(drop)
    }

    pub(crate) fn sizes(&self) -> Result<Sizes, ConfigError> {
        let Config { mode, partitions, value_bytes_max, locks_max, .. } = *self;
        if !(1..=4096).contains(&partitions) {
            return Err(ConfigError::Partitions(partitions));
        }
        if value_bytes_max as usize > VALUE_BYTES_MAX {
            return Err(ConfigError::ValueTooLong(value_bytes_max));
        }
        let buckets = self.buckets()?;
        let log_words = self.log_bytes / 8 / u64::from(partitions);
        let item_words_max = words_of(KEY_BYTES_MAX as u64, value_bytes_max.into());
        self.check_log(log_words, item_words_max)?;
        let overflow = if mode == Mode::Store { buckets / 8 + OVERFLOW_LEAST } else { 0 };
        Ok(Sizes { mode, buckets, overflow, log_words, item_words_max, value_bytes_max, locks_max })
    }

    /// Buckets of a partition: a cache's have five of seven slots used on average, and a store's
    /// four and a half, so that one in twelve overflows.
    fn buckets(&self) -> Result<u32, ConfigError> {
        let items = self.items.div_ceil(self.partitions.into());
        let most = BUCKETS_MAX * 9 / 2;
        if !(1..=most).contains(&items) {
            return Err(ConfigError::Items { items, most });
        }
        let buckets = match self.mode {
            Mode::Cache => items.div_ceil(5),
            Mode::Store => (items * 2).div_ceil(9),
        };
        Ok(u32::try_from(buckets).expect("it is below the bound"))
    }

    fn check_log(&self, log_words: u64, item_words_max: u64) -> Result<(), ConfigError> {
        let Config { log_bytes, value_bytes_max, .. } = *self;
        let partitions = u64::from(self.partitions);
        let least = LONGEST_ITEMS * item_words_max;
        if log_words < least {
            let least = least * 8 * partitions;
            return Err(ConfigError::LogTooShort { log_bytes, value_bytes_max, least });
        }
        if log_words > LOG_WORDS_MAX {
            let most = LOG_WORDS_MAX * 8 * partitions;
            return Err(ConfigError::LogTooLong { log_bytes, most });
        }
        Ok(())
    }
}

const _: () = assert!(ITEM_WORDS_LEAST == 4, "a header and one word of key");
