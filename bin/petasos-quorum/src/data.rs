//! A member's directory: who it is, and its journal.
//!
//! `member.json` says what does not change: the group, the member, its address, and what all
//! members of a group have to agree on. `journal/` has the log and the snapshots. The first is
//! written last, so a directory without it was never a member's.

use std::fs;
use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use petasos_base::secret_u64;
use petasos_cli::failure::Failure;
use petasos_cli::output;
use petasos_cli::size::{in_words, parse_bytes};
use petasos_journal::{Config, Identity, SystemFiles};
use petasos_quorum::contact::Contact;
use petasos_quorum::log::DiskLog;
use petasos_quorum::service::{Charter, MachineKind};
use petasos_raft::Membership;
use serde::{Deserialize, Serialize};

/// What all members of a group agree on: what is full for one is full for all.
#[derive(Clone, Copy, Debug, Args)]
pub struct CharterArgs {
    /// What the group keeps: a table of keys and values, or a store with etcd's model, which
    /// etcd's clients may use (`serve --etcd`).
    #[arg(long, value_enum, default_value_t = Keeps::Table)]
    keeps: Keeps,
    /// What it may hold: the bytes of all keys and values, and 64 more for each item. Of etcd's
    /// model, all versions count that were not compacted.
    #[arg(long, visible_alias = "table", value_name = "BYTES", default_value = "256MiB",
          value_parser = parse_bytes)]
    room: usize,
    /// Answer reads by lease: without asking the others. Clocks must not run further apart than by
    /// so many thousandths, or reads may see what is no longer so. Another leader is found later.
    #[arg(long, value_name = "THOUSANDTHS",
          value_parser = clap::value_parser!(u64).range(0..=500))]
    lease_drift: Option<u64>,
}

/// What a group keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Keeps {
    /// A table of keys and values.
    Table,
    /// A store with etcd's model.
    Etcd,
}

impl CharterArgs {
    pub fn charter(&self) -> Charter {
        let machine = match self.keeps {
            Keeps::Table => MachineKind::Table,
            Keeps::Etcd => MachineKind::Etcd,
        };
        Charter { machine, bytes_max: self.room as u64, lease_drift: self.lease_drift }
    }
}

/// `member.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemberFile {
    format: u32,
    /// 32 hexadecimal digits.
    group: String,
    pub member: u64,
    /// 32 hexadecimal digits. Whoever knows it can speak as this member.
    incarnation: String,
    pub address: SocketAddr,
    pub charter: Charter,
}

const FORMAT: u32 = 1;
const MEMBER: &str = "member.json";
const JOURNAL: &str = "journal";

/// 128 random bits.
pub fn secret() -> u128 {
    u128::from(secret_u64()) << 64 | u128::from(secret_u64())
}

impl MemberFile {
    pub fn new(group: u128, member: u64, contact: Contact, charter: Charter) -> MemberFile {
        MemberFile {
            format: FORMAT,
            group: format!("{group:032x}"),
            member,
            incarnation: format!("{:032x}", contact.incarnation),
            address: contact.address,
            charter,
        }
    }

    /// Reads a member's file.
    ///
    /// # Errors
    /// If there is none, or it is another program's, or a newer one's.
    pub fn read(folder: &Path) -> Result<MemberFile, Failure> {
        let path = folder.join(MEMBER);
        let shown = path.display();
        let text = fs::read_to_string(&path).map_err(|error| {
            Failure::with_advice(
                format_args!("cannot read {shown}: {error}"),
                "`petasos quorum init` makes a new group, `serve --join` joins one",
            )
        })?;
        let wrong = |error: &dyn std::fmt::Display| {
            Failure::with_advice(
                format_args!("{shown} is no member's file: {error}"),
                "restore it, or remove the member from its group and join anew elsewhere",
            )
        };
        let file: MemberFile = serde_json::from_str(&text).map_err(|error| wrong(&error))?;
        match (file.format, file.group(), file.incarnation()) {
            (FORMAT, Some(_), Some(_)) => Ok(file),
            (FORMAT, ..) => Err(wrong(&"its numbers are not 32 hexadecimal digits")),
            (format, ..) => Err(wrong(&format_args!("format {format} is of a newer version"))),
        }
    }

    fn group(&self) -> Option<u128> {
        u128::from_str_radix(&self.group, 16).ok()
    }

    fn incarnation(&self) -> Option<u128> {
        u128::from_str_radix(&self.incarnation, 16).ok()
    }

    pub fn identity(&self) -> Identity {
        Identity { group: self.group().expect("it was checked"), member: self.member }
    }

    pub fn contact(&self) -> Contact {
        let incarnation = self.incarnation().expect("it was checked");
        Contact { incarnation, address: self.address }
    }

    /// Makes a member's directory: `first` is the first entry of a new group.
    ///
    /// # Errors
    /// If the directory is another member's, or cannot be written.
    pub fn create(&self, folder: &Path, first: Option<&Membership>) -> Result<(), Failure> {
        let failed = |error: &dyn std::fmt::Display| {
            Failure::with_advice(
                format_args!("cannot make {}: {error}", folder.display()),
                "give an empty --dir on a disk that has space",
            )
        };
        if folder.join(MEMBER).exists() {
            return Err(Failure::with_advice(
                format_args!("{} is a member's already", folder.display()),
                "`petasos quorum serve --dir` runs it",
            ));
        }
        fs::create_dir_all(folder).map_err(|error| failed(&error))?;
        let journal = folder.join(JOURNAL);
        // What an attempt that was broken off has left.
        if journal.exists() {
            fs::remove_dir_all(&journal).map_err(|error| failed(&error))?;
        }
        let files = SystemFiles::create(&journal).map_err(|error| failed(&error))?;
        DiskLog::create(files, self.identity(), Config::default(), first)
            .map_err(|error| failed(&error))?;
        self.write(folder).map_err(|error| failed(&error))
    }

    fn write(&self, folder: &Path) -> std::io::Result<()> {
        let (new, path) = (folder.join("member.json.new"), folder.join(MEMBER));
        let mut file = fs::File::create(&new)?;
        serde_json::to_writer_pretty(&mut file, self)?;
        file.write_all(b"\n")?;
        file.sync_all()?;
        fs::rename(&new, &path)?;
        fs::File::open(folder)?.sync_all()
    }
}

/// The files of a member's journal.
///
/// # Errors
/// If they cannot be opened.
pub fn journal(folder: &Path) -> Result<SystemFiles, Failure> {
    let folder = folder.join(JOURNAL);
    SystemFiles::open(&folder).map_err(|error| {
        Failure::with_advice(
            format_args!("cannot open {}: {error}", folder.display()),
            "remove the member from its group, and join anew with an empty --dir",
        )
    })
}

/// The arguments of `petasos quorum init`.
#[derive(Args)]
pub struct InitArgs {
    /// The directory, which is made.
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    /// Where the member will listen, as ADDRESS:PORT: what others call it by. It does not change.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:7431")]
    listen: SocketAddr,
    #[command(flatten)]
    charter: CharterArgs,
}

/// Checks that others can call an address.
///
/// # Errors
/// If they cannot.
pub fn callable(address: SocketAddr) -> Result<SocketAddr, Failure> {
    match address.ip().is_unspecified() || address.port() == 0 {
        false => Ok(address),
        true => Err(Failure::with_advice(
            format_args!("other members cannot call {address}"),
            "give --listen an address of this host and a port",
        )),
    }
}

/// Makes the directory of a group's first member.
///
/// # Errors
/// If it cannot be made.
pub fn init(args: &InitArgs) -> Result<(), Failure> {
    let contact = Contact { incarnation: secret(), address: callable(args.listen)? };
    let membership = Membership::of_voters(vec![contact.encode()]);
    let group = secret();
    let file = MemberFile::new(group, 1, contact, args.charter.charter());
    file.create(&args.dir, Some(&membership))?;
    output::answer(format!("group {group:032x}, member 1, at {}", contact.address).as_bytes())
}

/// The arguments of `petasos quorum verify`.
#[derive(Args)]
pub struct VerifyArgs {
    /// The directory.
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

/// Reads all of a member's files, and says what is there. Nothing is changed.
///
/// # Errors
/// If something is damaged, or the member runs.
pub fn verify(args: &VerifyArgs) -> Result<(), Failure> {
    let file = MemberFile::read(&args.dir)?;
    let report = petasos_journal::verify(&journal(&args.dir)?);
    let report = report.map_err(|error| Failure::new(error.to_string()))?;
    if let Some(damage) = report.damage.first() {
        return Err(Failure::new(damage.to_string()));
    }
    let table = in_words(file.charter.bytes_max);
    let (member, group) = (file.member, &file.group);
    let last = report.last_place().unwrap_or(0);
    let snapshots = report.snapshots.len();
    let in_use = if report.is_in_use { "; the member runs" } else { "" };
    output::answer(
        format!(
            "member {member} of group {group}: the log ends with {last}, {snapshots} snapshots, a \
             table of {table}{in_use}"
        )
        .as_bytes(),
    )
}
