//! The processes that hold a BPF program, as far as this process may see them.

use std::fmt;
use std::fs;

/// A process that holds a program, or the link that attaches it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Its process id.
    pub pid: u32,
    /// Its name, cut to 15 bytes by the kernel.
    pub name: String,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (process {})", self.name, self.pid)
    }
}

impl Holder {
    /// Advice for a user who wants the interface.
    pub(crate) fn list(holders: &[Holder]) -> String {
        if holders.is_empty() {
            return "whose owner cannot be seen: `ip link set dev … xdp off` removes it if it was \
                    attached without one"
                .to_owned();
        }
        let names: Vec<String> = holders.iter().map(Holder::to_string).collect();
        format!("held by {}: one process at a time uses an interface", names.join(", "))
    }
}

/// The processes whose descriptors name the program, according to `/proc/PID/fdinfo`, which covers
/// programs and links. Processes of other users are skipped unless this process is root. Slow; only
/// for error messages.
pub(crate) fn holders(program_id: u32) -> Vec<Holder> {
    if program_id == 0 {
        return Vec::new();
    }
    let Ok(processes) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = processes.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let mut holders: Vec<Holder> = pids
        .filter(|pid| holds(*pid, program_id))
        .map(|pid| Holder { pid, name: process_name(pid) })
        .collect();
    holders.sort_by_key(|holder| holder.pid);
    holders
}

fn holds(pid: u32, program_id: u32) -> bool {
    let Ok(descriptors) = fs::read_dir(format!("/proc/{pid}/fdinfo")) else { return false };
    descriptors.flatten().any(|entry| {
        fs::read_to_string(entry.path()).is_ok_and(|info| names_program(&info, program_id))
    })
}

fn names_program(info: &str, program_id: u32) -> bool {
    let ids = info.lines().filter_map(|line| line.strip_prefix("prog_id:"));
    ids.map(str::trim).any(|id| id.parse() == Ok(program_id))
}

fn process_name(pid: u32) -> String {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    name.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_descriptor_names_its_program() {
        let info = "pos:\t0\nlink_type:\txdp\nlink_id:\t3\nprog_tag:\tab\nprog_id:\t17\n";
        assert!(names_program(info, 17));
        assert!(!names_program(info, 1));
        assert!(!names_program("link_id:\t17\n", 17));
    }

    #[test]
    fn the_message_names_the_holders_or_says_what_to_do() {
        let holder = Holder { pid: 42, name: "petasos".to_owned() };
        assert!(Holder::list(&[holder]).contains("petasos (process 42)"));
        assert!(Holder::list(&[]).contains("xdp off"));
    }
}
