//! `petasos ctl rollout`: changes of several hosts, in an order, all or none.
//!
//! Each host makes a change whole or not at all, and keeps what undoes it for a while. If a change
//! fails, calls fail more often than they may, or the operator interrupts, this command undoes all
//! that was made, the last first. What is between two stages is an intermediate version: calls pass
//! between hosts that have changed and hosts that have not, and have to work.
//!
//! A change whose answer is lost may have been made. The command has chosen the number of the chain
//! that it is of, and so can undo it all the same.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use petasos::Code;
use petasos_admin::{StatsRequest, UndoRequest};
use petasos_base::sync::{AtomicBool, Ordering};
use petasos_base::{Clock, Time, random_seed};
use petasos_cli::admin::ServiceArgs;
use petasos_cli::admin::counts::outcomes;
use petasos_cli::failed::Failed;
use petasos_cli::output;
use serde::Deserialize;
use serde_json::{Value, json};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::plan::{Step, request_at};
use super::read;

/// The most stages.
const STAGES_MAX: usize = 64;
/// The longest that a host keeps what undoes a change, in s.
const UNDO_S_MAX: u64 = 3600;
/// Besides what stages watch: how long it may take to change and to undo all, in s.
const UNDO_S: u64 = 240;
/// Of that, how long it takes to undo all, in s: no change is made later.
const UNDOING_S: u64 = 120;
/// With fewer calls, a watch does not fail before its end.
const CALLS_MIN: u64 = 20;
/// Calls are looked at so often while a stage is watched.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// The arguments of `petasos ctl rollout`.
#[derive(Args)]
pub struct RolloutArgs {
    /// What to change: JSON such as {"hosts": {"a": "/run/a/admin.sock", "b": "/run/b/admin.sock"},
    /// "stages": [{"hosts": ["b"], "steps": [{"reload": {}}]}, {"hosts": ["a"], "steps":
    /// [{"reload": {}}], "watch": {"seconds": 10, "failures_percent_max": 1}}]}; `-` is standard
    /// input. Hosts are sockets of services for operators; those of other hosts can be forwarded
    /// (`ssh -L`). Steps are those of `petasos ctl apply`. `watch` has the calls of the stage's
    /// hosts counted for so long, and fails if more than so many percent of them fail: at its end,
    /// or as soon as there are 20. With `"application": NAME`, it counts only the calls of that
    /// one.
    #[arg(value_name = "FILE")]
    file: String,
}

/// What to change.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rollout {
    hosts: BTreeMap<String, PathBuf>,
    stages: Vec<Stage>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stage {
    hosts: Vec<String>,
    steps: Vec<Step>,
    watch: Option<Watch>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Watch {
    seconds: u64,
    failures_percent_max: f64,
    /// Whose calls; those of all without.
    #[serde(default)]
    application: String,
}

impl Rollout {
    fn parse(text: &str) -> Result<Rollout, String> {
        let rollout: Rollout = serde_json::from_str(text).map_err(|error| error.to_string())?;
        if rollout.stages.is_empty() || rollout.stages.len() > STAGES_MAX {
            return Err(format!(
                "it has {} stages, and not 1 to {STAGES_MAX}",
                rollout.stages.len()
            ));
        }
        for (stage, number) in rollout.stages.iter().zip(1..) {
            if stage.hosts.is_empty() || stage.steps.is_empty() {
                return Err(format!("stage {number} has no hosts or no steps"));
            }
            let unknown = stage.hosts.iter().find(|host| !rollout.hosts.contains_key(*host));
            if let Some(host) = unknown {
                return Err(format!("stage {number}: `{host}` is not among the hosts"));
            }
            let percent = stage.watch.as_ref().map_or(0.0, |watch| watch.failures_percent_max);
            if !(0.0..=100.0).contains(&percent) {
                return Err(format!("stage {number}: {percent} is no percentage"));
            }
        }
        let mut sockets = BTreeSet::new();
        if let Some((name, _)) = rollout.hosts.iter().find(|(_, socket)| !sockets.insert(*socket)) {
            return Err(format!("`{name}` is another host's socket"));
        }
        match rollout.undo_s() > UNDO_S_MAX {
            true => Err(format!("it watches for more than {} s", UNDO_S_MAX - UNDO_S)),
            false => Ok(rollout),
        }
    }

    /// How long hosts keep what undoes their changes, in s.
    fn undo_s(&self) -> u64 {
        let watched = self.stages.iter().filter_map(|stage| stage.watch.as_ref());
        watched.fold(UNDO_S, |sum, watch| sum.saturating_add(watch.seconds))
    }
}

/// A host, and what was changed there.
struct Host {
    service: ServiceArgs,
    /// What this command calls its changes there.
    chain: u64,
    /// Changes that were made.
    changes: u32,
    /// Another one may have been made.
    is_uncertain: bool,
    /// When the last one was made.
    changed_at: Time,
}

/// A rollout that goes on.
struct Progress<'a> {
    hosts: BTreeMap<&'a str, Host>,
    /// The hosts that were changed, or may have been, in order.
    changed: Vec<&'a str>,
    undo_s: u64,
    clock: Clock,
    is_interrupted: Arc<AtomicBool>,
    lines: Vec<Value>,
    is_json: bool,
}

/// Changes all hosts, or none.
pub fn run(service: &ServiceArgs, args: &RolloutArgs) -> Result<(), Failed> {
    let rollout = Rollout::parse(&read(&args.file)?).map_err(|error| {
        Failed::new(format!("{} is no rollout: {error}", args.file))
            .with_advice("`petasos ctl rollout --help` says what one is; nothing was done")
    })?;
    let hosts = rollout.hosts.iter();
    let hosts = hosts.map(|(name, socket)| (&**name, Host::new(service.at(socket.clone()))));
    let is_interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        let registered = signal_hook::flag::register(signal, is_interrupted.clone());
        registered.map_err(|error| Failed::new(format!("cannot await signals: {error}")))?;
    }
    let (hosts, changed, lines) = (hosts.collect(), Vec::new(), Vec::new());
    let (undo_s, is_json, clock) = (rollout.undo_s(), service.json, Clock::system());
    let mut progress = Progress { hosts, changed, undo_s, clock, is_interrupted, lines, is_json };
    // A host that cannot be reached is found before any is changed.
    for (name, host) in &progress.hosts {
        host.counts("").map_err(|failed| at(name, failed))?;
    }
    for (stage, number) in rollout.stages.iter().zip(1..) {
        if let Err(failed) = progress.stage(stage, number) {
            return Err(progress.undo_all(failed, number));
        }
    }
    match service.json {
        true => Ok(output::answer(json!({ "done": progress.lines }).to_string().as_bytes())?),
        false => Ok(()),
    }
}

impl<'a> Progress<'a> {
    fn stage(&mut self, stage: &'a Stage, number: usize) -> Result<(), Failed> {
        let hosts: Vec<&str> = stage.hosts.iter().map(String::as_str).collect();
        let watch = stage.watch.as_ref();
        let before = watch.map(|watch| self.counts(&hosts, &watch.application)).transpose()?;
        for &name in &hosts {
            self.check_interrupted()?;
            self.check_time()?;
            // Whatever comes of it.
            self.changed.push(name);
            let host = self.hosts.get_mut(name).expect("it was checked");
            let done = host.change(&stage.steps, self.undo_s);
            host.changed_at = self.clock.now();
            for line in done.map_err(|failed| at(name, failed))? {
                self.say(number, name, &line)?;
            }
        }
        if let (Some(watch), Some(before)) = (watch, before) {
            self.watch(watch, number, (&hosts, before))?;
        }
        self.check_interrupted()
    }

    /// Whether all that was changed can still be undone when more has been.
    fn check_time(&self) -> Result<(), Failed> {
        let least = Duration::from_secs(UNDOING_S);
        let left = self.changed.iter().map(|name| {
            let until = self.hosts[name].changed_at + Duration::from_secs(self.undo_s);
            until - self.clock.now()
        });
        match left.min().is_none_or(|left| left >= least) {
            true => Ok(()),
            false => {
                Err(Failed::new("it takes so long that the first changes could not be undone")
                    .with_status(Code::DeadlineExceeded))
            }
        }
    }

    /// Counts calls for a while.
    fn watch(
        &mut self,
        watch: &Watch,
        number: usize,
        (hosts, before): (&[&str], Vec<Counts>),
    ) -> Result<(), Failed> {
        let length = Duration::from_secs(watch.seconds);
        let (begin, refused) = (self.clock.now(), Code::FailedPrecondition);
        loop {
            let now = self.counts(hosts, &watch.application)?;
            let passed = self.clock.now() - begin;
            let mut all = Counts::default();
            for ((now, before), name) in now.iter().zip(&before).zip(hosts) {
                let since = match now.since(before) {
                    Some(since) => since,
                    // An application that attaches again is counted anew.
                    None if !watch.application.is_empty() => *now,
                    // What was changed is gone with what was counted.
                    None => {
                        let why = format!("{name} counts anew: its service has started again");
                        return Err(Failed::new(why).with_status(refused));
                    }
                };
                all = Counts { ended: all.ended + since.ended, failed: all.failed + since.failed };
            }
            let (Counts { ended, failed }, percent) = (all, all.percent());
            let said = format!("{failed} of {ended} calls failed ({percent:.2} %)");
            let is_telling = ended >= CALLS_MIN || passed >= length;
            if is_telling && percent > watch.failures_percent_max {
                let most = watch.failures_percent_max;
                return Err(Failed::new(format!("{said}, more than {most} %")).with_status(refused));
            }
            if passed >= length {
                return self.say(number, &hosts.join(", "), &said);
            }
            self.check_interrupted()?;
            std::thread::sleep(LOOK_EVERY.min(length - passed));
        }
    }

    /// What is counted at some hosts.
    fn counts(&self, hosts: &[&str], application: &str) -> Result<Vec<Counts>, Failed> {
        let counts =
            |name: &&str| self.hosts[*name].counts(application).map_err(|failed| at(name, failed));
        hosts.iter().map(counts).collect()
    }

    fn check_interrupted(&self) -> Result<(), Failed> {
        match self.is_interrupted.load(Ordering::Relaxed) {
            true => Err(Failed::new("interrupted").with_status(Code::Cancelled)),
            false => Ok(()),
        }
    }

    fn say(&mut self, stage: usize, host: &str, line: &str) -> Result<(), Failed> {
        self.lines.push(json!({ "stage": stage, "host": host, "done": line }));
        match self.is_json {
            true => Ok(()),
            false => Ok(output::answer(format!("stage {stage}, {host}: {line}").as_bytes())?),
        }
    }

    /// Undoes what was changed, the last first. Gives the failure, and what is left.
    fn undo_all(&mut self, failed: Failed, stage: usize) -> Failed {
        let (mut left, mut count) = (Vec::new(), 0);
        for name in std::mem::take(&mut self.changed).into_iter().rev() {
            let host = self.hosts.get_mut(name).expect("it was changed");
            match host.undo() {
                Ok((undone, not_undone)) => {
                    count += undone;
                    left.extend(not_undone.iter().map(|what| format!("{name}: {what}")));
                }
                Err(failed) => left.push(at(name, failed).to_string()),
            }
        }
        let undone = match (count, left.is_empty()) {
            (0, true) => "; nothing was changed".to_owned(),
            (count, true) => format!("; what was done before ({count} changes) was undone"),
            (_, false) => format!("; NOT UNDONE: {}", left.join("; ")),
        };
        failed.in_context(&format!("stage {stage}"), &undone)
    }
}

/// Calls that have ended, but for those that were cancelled, and those that have failed.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    ended: u64,
    failed: u64,
}

impl Counts {
    /// Those since then; `None` if there were more then.
    fn since(&self, before: &Counts) -> Option<Counts> {
        let ended = self.ended.checked_sub(before.ended)?;
        Some(Counts { ended, failed: self.failed.checked_sub(before.failed)? })
    }

    fn percent(&self) -> f64 {
        if self.ended == 0 { 0.0 } else { self.failed as f64 / self.ended as f64 * 100.0 }
    }
}

impl Host {
    fn new(service: ServiceArgs) -> Host {
        let (chain, changed_at) = (random_seed().max(1), Time::NEVER);
        Host { service, chain, changes: 0, is_uncertain: false, changed_at }
    }

    /// Makes a change that follows those that were made here before.
    fn change(&mut self, steps: &[Step], undo_s: u64) -> Result<Vec<String>, Failed> {
        let mut request = request_at(&self.service, &mut steps.to_vec())?;
        let mut edit = request.edit();
        edit.set_undo_within_s(undo_s as u32).set_chain(self.chain);
        edit.set_changes_before(self.changes);
        let done = self.service.ask(request, |client, request| client.change(request));
        let done = done.inspect_err(|failed| self.is_uncertain = failed.is_uncertain())?;
        if done.chain() != self.chain {
            let why = "the service has changed, and is too old to undo that: see its log";
            return Err(Failed::new(why).with_status(Code::Unimplemented));
        }
        self.changes += 1;
        Ok(done.done().iter().map(|line| line.to_string()).collect())
    }

    /// Undoes the last of them. Gives how many were undone, and what could not be.
    fn undo(&mut self) -> Result<(u32, Vec<String>), Failed> {
        let was_uncertain = std::mem::take(&mut self.is_uncertain);
        if self.changes == 0 && !was_uncertain {
            // It was refused, or undone with a later one.
            return Ok((0, Vec::new()));
        }
        let mut request = UndoRequest::new();
        request.edit().set_chain(self.chain);
        let undone = match self.service.ask(request, |client, request| client.undo(request)) {
            // The change of which there was no answer was not made, as far as the service knows.
            Err(failed) if self.changes == 0 && failed.is(Code::FailedPrecondition) => {
                return Ok((0, Vec::new()));
            }
            undone => undone?,
        };
        // Without the change of which there was no answer, it was the one before.
        self.changes = undone.left();
        Ok((1, undone.not_undone().iter().map(|what| what.to_string()).collect()))
    }

    /// What is counted, of an application or of all.
    fn counts(&self, application: &str) -> Result<Counts, Failed> {
        let request = StatsRequest::new();
        let answer = self.service.ask(request, |client, request| client.stats(request))?;
        let is_meant = |name: &str| application.is_empty() || name == application;
        let there = answer.applications().iter().filter(|one| is_meant(one.name()));
        let there = there.flat_map(|one| one.calls().iter());
        let gone = answer.gone().iter().filter(|_| application.is_empty());
        let all = there.chain(gone).map(outcomes);
        Ok(all.fold(Counts::default(), |Counts { ended, failed }, [ok, _, failures]| Counts {
            ended: ended + ok + failures,
            failed: failed + failures,
        }))
    }
}

fn at(host: &str, failed: Failed) -> Failed {
    failed.in_context(host, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rollouts_are_read_whole_or_refused() {
        let hosts = r#""hosts": {"a": "/a", "b": "/b"}"#;
        let stage = r#"{"hosts": ["b", "a"], "steps": [{"reload": {}}]}"#;
        let parse = |text: String| Rollout::parse(&text);
        let right = parse(format!("{{{hosts}, \"stages\": [{stage}]}}")).expect("it is right");
        assert_eq!((right.stages.len(), right.undo_s()), (1, UNDO_S));
        for (stages, said) in [
            (String::new(), "it has 0 stages"),
            (vec![stage; 65].join(","), "it has 65 stages"),
            (stage.replace("\"b\"", "\"c\""), "stage 1: `c` is not among the hosts"),
            (stage.replace("[\"b\", \"a\"]", "[]"), "stage 1 has no hosts or no steps"),
            (stage.replace("reload", "reloads"), "unknown variant `reloads`"),
            (watched(stage, 1, "101.0"), "stage 1: 101 is no percentage"),
            (watched(stage, 5000, "1"), "it watches for more than 3360 s"),
            (watched(stage, u64::MAX, "1"), "it watches for more than 3360 s"),
        ] {
            let wrong = parse(format!("{{{hosts}, \"stages\": [{stages}]}}"));
            let why = wrong.expect_err("it is wrong");
            assert!(why.contains(said), "{stages}: {why}");
        }
    }

    fn watched(stage: &str, seconds: u64, percent: &str) -> String {
        let watch = format!(r#"{{"seconds": {seconds}, "failures_percent_max": {percent}}}"#);
        stage.replacen('{', &format!("{{\"watch\": {watch}, "), 1)
    }
}
