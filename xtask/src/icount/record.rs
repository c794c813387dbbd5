//! The committed figures.

use super::PerRpc;

/// The ceilings that a new record starts with, in instructions.
const CEILINGS: Ceilings = Ceilings { rpc: 500.0, typed: 500.0 };
/// How much the instructions may exceed the committed ones: compilers and layouts cause small
/// changes.
const GROWTH_MAX: f64 = 1.03;
/// Packets and system calls are counted exactly; this much is rounding.
const ROUNDING: f64 = 0.0005;

const HEADER: &str = "\
# What one RPC of 32 bytes may cost, client and server together, on the in-memory backend.
# Measured by `cargo xtask icount`, written by `cargo xtask icount --update`; the ceilings are set
# by hand: of an RPC, and of what a typed call adds to one at each end, its messages apart.
";

/// The contents of `xtask/icount.toml`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Record {
    /// What was measured when the file was written.
    pub per_rpc: PerRpc,
    pub ceilings: Ceilings,
}

/// Instructions that must never be exceeded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ceilings {
    /// Of an RPC.
    rpc: f64,
    /// Of the typed part of a call, per end.
    pub typed: f64,
}

impl Record {
    /// A record of `per_rpc`, rounded as in the file.
    pub fn of(per_rpc: PerRpc, ceilings: Option<Ceilings>) -> Record {
        let round = |value: f64| (value * 1000.0).round() / 1000.0;
        let per_rpc = PerRpc {
            instructions: round(per_rpc.instructions),
            packets: round(per_rpc.packets),
            syscalls: round(per_rpc.syscalls),
        };
        Record { per_rpc, ceilings: ceilings.unwrap_or(CEILINGS) }
    }

    /// Reads the file: lines `name = number`, and comments.
    pub fn parse(text: &str) -> Result<Record, String> {
        let value = |name: &str| {
            let lines = text.lines().filter_map(|line| line.split('#').next()?.split_once('='));
            let mut values = lines.filter(|(key, _)| key.trim() == name);
            let (_, value) = values.next().ok_or_else(|| format!("no `{name}`"))?;
            value.trim().parse().map_err(|_| format!("`{name}` is not a number"))
        };
        let per_rpc = PerRpc {
            instructions: value("instructions_per_rpc")?,
            packets: value("packets_per_rpc")?,
            syscalls: value("syscalls_per_rpc")?,
        };
        let ceilings = Ceilings { rpc: value("ceiling")?, typed: value("typed_ceiling")? };
        Ok(Record { per_rpc, ceilings })
    }

    /// The file's text.
    pub fn to_text(self) -> String {
        let PerRpc { instructions, packets, syscalls } = self.per_rpc;
        format!(
            "{HEADER}instructions_per_rpc = {instructions:?}\npackets_per_rpc = {packets:?}\n\
             syscalls_per_rpc = {syscalls:?}\nceiling = {:?}\ntyped_ceiling = {:?}\n",
            self.ceilings.rpc, self.ceilings.typed
        )
    }

    /// Fails for figures that exceed the ceiling or have grown.
    pub fn check(&self, measured: PerRpc) -> Result<(), String> {
        self.check_ceiling(measured)?;
        let committed = self.per_rpc;
        if measured.instructions > committed.instructions * GROWTH_MAX {
            return Err(format!(
                "{:.1} instructions per RPC, over 3 % more than the committed {}",
                measured.instructions, committed.instructions
            ));
        }
        for (what, measured, committed) in [
            ("packets", measured.packets, committed.packets),
            ("system calls", measured.syscalls, committed.syscalls),
        ] {
            if measured > committed + ROUNDING {
                return Err(format!("{measured:.3} {what} per RPC, more than {committed}"));
            }
        }
        Ok(())
    }

    /// Fails for figures that exceed the ceiling.
    pub fn check_ceiling(&self, measured: PerRpc) -> Result<(), String> {
        if measured.instructions <= self.ceilings.rpc {
            return Ok(());
        }
        Err(format!(
            "{:.1} instructions per RPC, over the ceiling of {}",
            measured.instructions, self.ceilings.rpc
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMMITTED: PerRpc = PerRpc { instructions: 400.0, packets: 2.0, syscalls: 0.0 };

    fn check(measured: PerRpc) -> Result<(), String> {
        Record::of(COMMITTED, None).check(measured)
    }

    #[test]
    fn a_record_survives_its_file() {
        let record = Record::of(PerRpc { instructions: 347.12345, ..COMMITTED }, Some(CEILINGS));
        assert_eq!(record.per_rpc.instructions, 347.123);
        assert_eq!(Record::parse(&record.to_text()), Ok(record));
    }

    #[test]
    fn what_the_file_lacks_is_named() {
        let text = Record::of(COMMITTED, None).to_text();
        let message = Record::parse(&text.replace("ceiling", "cieling")).unwrap_err();
        assert!(message.contains("`ceiling`"), "{message}");
        assert!(Record::parse(&text.replace("= 2.0", "= two")).is_err());
    }

    #[test]
    fn instructions_may_wobble_by_three_percent() {
        assert!(check(PerRpc { instructions: 411.9, ..COMMITTED }).is_ok());
        let message = check(PerRpc { instructions: 412.1, ..COMMITTED }).unwrap_err();
        assert!(message.contains("3 %"), "{message}");
    }

    #[test]
    fn the_ceiling_holds_whatever_was_committed() {
        let record = Record::of(PerRpc { instructions: 499.0, ..COMMITTED }, None);
        let message = record.check(PerRpc { instructions: 500.1, ..COMMITTED }).unwrap_err();
        assert!(message.contains("ceiling"), "{message}");
    }

    #[test]
    fn packets_and_system_calls_may_not_grow() {
        assert!(check(PerRpc { packets: 2.0004, ..COMMITTED }).is_ok());
        assert!(check(PerRpc { packets: 2.001, ..COMMITTED }).unwrap_err().contains("packets"));
        assert!(check(PerRpc { syscalls: 0.001, ..COMMITTED }).unwrap_err().contains("system"));
        assert!(check(PerRpc { packets: 1.5, ..COMMITTED }).is_ok());
    }
}
