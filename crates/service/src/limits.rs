//! How much of the service one application may use.

/// What an application may have at a time.
#[derive(Clone, Copy, Debug)]
pub struct ApplicationLimits {
    /// Items in its datapath, and calls.
    pub items_max: usize,
    /// Calls that it has begun, and as many that it was given, that have not ended.
    pub calls_max: usize,
    /// Bytes of one message as an image.
    pub message_bytes_max: usize,
    /// Bytes of metadata of one item.
    pub metadata_bytes_max: usize,
    /// Bytes of messages that the service holds for it, in both directions. Its requests that are
    /// with a transport have as many beside.
    pub held_bytes_max: usize,
    /// Bytes of its messages whose long leaves are read where they lie, until they have been sent.
    /// What exceeds that is copied, so that the rest of its send heap is free for others.
    pub lent_bytes_max: usize,
    /// Bytes of its messages that wait to leave this host, of which a stream's count 1024 at least.
    /// With more, the stream ends in which most waits (D8).
    pub beyond_bytes_max: usize,
    /// Descriptors that wait for room in its ring.
    pub descriptors_max: usize,
    /// Bytes of a stream's messages that each side may send before the first grant (D8).
    pub grant_bytes: u64,
}

impl Default for ApplicationLimits {
    /// 4096 items and calls, messages of 16 MiB, metadata of 16 KiB, 64 MiB held, 32 MiB lent and
    /// as many on their way out, 1024 descriptors, and 1 MiB of each stream.
    fn default() -> ApplicationLimits {
        ApplicationLimits {
            items_max: 4096,
            calls_max: 4096,
            message_bytes_max: 16 << 20,
            metadata_bytes_max: 16 << 10,
            held_bytes_max: 64 << 20,
            lent_bytes_max: 32 << 20,
            beyond_bytes_max: 32 << 20,
            descriptors_max: 1024,
            grant_bytes: 1 << 20,
        }
    }
}
