//! `petasos ctl audit`: the audit log.

use clap::Args;
use petasos::Msg;
use petasos_admin::{AuditEntry, ListAuditRequest, ListAuditResponse};
use petasos_cli::admin::forms::{audit_json, texts};
use petasos_cli::admin::{ServiceArgs, table};
use petasos_cli::failed::Failed;

use super::show::print;

/// The arguments of `petasos ctl audit`.
#[derive(Args)]
pub struct AuditArgs {
    /// The newest so many; 0 for all that the service keeps.
    #[arg(long, value_name = "N", default_value_t = 20)]
    last: u32,
}

impl AuditArgs {
    fn request(&self) -> Msg<ListAuditRequest> {
        let mut request = ListAuditRequest::new();
        request.edit().set_entries_max(self.last);
        request
    }
}

/// Shows the audit log, the newest entry last.
pub fn run(service: &ServiceArgs, args: &AuditArgs) -> Result<(), Failed> {
    let answer = service.ask(args.request(), |client, request| client.list_audit(request))?;
    show(service, &answer)
}

/// The same, of a router.
pub fn run_router(service: &ServiceArgs, args: &AuditArgs) -> Result<(), Failed> {
    let answer =
        service.ask_router(args.request(), |client, request| client.list_audit(request))?;
    show(service, &answer)
}

fn show(service: &ServiceArgs, answer: &ListAuditResponse) -> Result<(), Failed> {
    let list = answer.entries();
    print(
        service,
        || list.iter().map(audit_json).collect(),
        || {
            let head = ["NO", "TIME", "USER", "PID", "ROLE", "METHOD", "STATUS", "WHAT"];
            table(&head, &list.iter().map(row).collect::<Vec<_>>())
        },
    )
}

fn row(entry: &AuditEntry) -> Vec<String> {
    let mut what = texts(entry.steps()).join("; ");
    for text in [entry.message(), &unrecorded(entry)] {
        if !text.is_empty() {
            what = if what.is_empty() { text.to_owned() } else { format!("{what} — {text}") };
        }
    }
    vec![
        entry.sequence().to_string(),
        time(entry.time_us()),
        entry.uid().to_string(),
        entry.pid().map_or_else(|| "?".to_owned(), |pid| pid.to_string()),
        entry.role().to_owned(),
        entry.method().to_owned(),
        entry.status().to_owned(),
        what,
    ]
}

fn unrecorded(entry: &AuditEntry) -> String {
    match entry.unrecorded() {
        0 => String::new(),
        count => format!("{count} calls before it are not recorded"),
    }
}

/// A time of the day as RFC 3339 has it, in UTC, in whole seconds.
fn time(since_epoch_us: i64) -> String {
    let seconds = since_epoch_us.div_euclid(1_000_000);
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = date(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// The date so many days after 1970-01-01 (Howard Hinnant's "chrono-compatible low-level date
/// algorithms": years begin in March, eras have 400 of them).
fn date(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        assert_eq!(time(0), "1970-01-01T00:00:00Z");
        assert_eq!(time(951_782_400_000_000), "2000-02-29T00:00:00Z");
        assert_eq!(time(1_796_083_199_999_999), "2026-11-30T23:59:59Z");
        assert_eq!(time(-1), "1969-12-31T23:59:59Z");
    }
}
