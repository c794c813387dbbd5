//! Limits for input from outside.

/// Limits for untrusted input. Each is generous for schemas that people write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The longest input, in bytes.
    pub bytes_max: usize,
    /// The most files, imports, messages, fields, oneofs, enums, values, services, methods and
    /// source locations, counted together.
    pub elements_max: usize,
    /// The deepest nesting of declarations; a message at the top of a file has depth 1. Reading
    /// uses stack in proportion, so hundreds are fine and millions are not.
    pub depth_max: usize,
    /// The most steps spent on messages that contain themselves: each cycle may take its number of
    /// messages, squared, times its average number of fields with messages of the cycle.
    pub cycle_steps_max: usize,
}

impl Default for Limits {
    /// 4 MiB, 2^18 elements, depth 32, 2^22 steps: at worst some 200 MiB of memory, for as many
    /// messages in a package with a long name, and about a second.
    fn default() -> Limits {
        Limits {
            bytes_max: 4 << 20,
            elements_max: 1 << 18,
            depth_max: 32,
            cycle_steps_max: 1 << 22,
        }
    }
}
