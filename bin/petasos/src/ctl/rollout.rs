//! `petasos ctl rollout`: changes of several hosts, in an order, all or none.
//!
//! Each host makes a change whole or not at all, and keeps what undoes it for a while. If a change
//! fails, calls fail more often than they may, or the operator interrupts, this command undoes all
//! that was made, the last first. What is between two stages is an intermediate version: calls pass
//! between hosts that have changed and hosts that have not, and have to work.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use petasos::Code;
use petasos_admin::{StatsRequest, UndoRequest};
use petasos_base::Clock;
use petasos_base::sync::{AtomicBool, Ordering};
use petasos_cli::admin::ServiceArgs;
use petasos_cli::admin::counts::outcomes;
use petasos_cli::failed::Failed;
use petasos_cli::output;
use serde::Deserialize;
use serde_json::{Value, json};
use signal_hook::consts::{SIGINT, SIGTERM};

use super::plan::{Step, request_at};
use super::read;

/// The most stages.
const STAGES_MAX: usize = 64;
/// The longest that a host keeps what undoes a change, in s.
const UNDO_S_MAX: u64 = 3600;
/// Besides what stages watch: how long it may take to change and to undo all, in s.
const UNDO_S: u64 = 120;
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
    /// hosts counted for so long, and fails if more than so many percent of them fail.
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

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Watch {
    seconds: u64,
    failures_percent_max: f64,
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
            let percent = stage.watch.map_or(0.0, |watch| watch.failures_percent_max);
            if !(0.0..=100.0).contains(&percent) {
                return Err(format!("stage {number}: {percent} is no percentage"));
            }
        }
        match rollout.undo_s() > UNDO_S_MAX {
            true => Err(format!("it watches for more than {} s", UNDO_S_MAX - UNDO_S)),
            false => Ok(rollout),
        }
    }

    /// How long hosts keep what undoes their changes, in s.
    fn undo_s(&self) -> u64 {
        let watched = self.stages.iter().filter_map(|stage| stage.watch);
        watched.fold(UNDO_S, |sum, watch| sum.saturating_add(watch.seconds))
    }
}

/// A host, and what was changed there.
struct Host {
    service: ServiceArgs,
    chain: u64,
}

/// A rollout that goes on.
struct Progress<'a> {
    hosts: BTreeMap<&'a str, Host>,
    /// The hosts that were changed, in order.
    changed: Vec<&'a str>,
    undo_s: u64,
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
    let hosts = hosts
        .map(|(name, socket)| (&**name, Host { service: service.at(socket.clone()), chain: 0 }));
    let is_interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        let registered = signal_hook::flag::register(signal, is_interrupted.clone());
        registered.map_err(|error| Failed::new(format!("cannot await signals: {error}")))?;
    }
    let (hosts, changed, lines) = (hosts.collect(), Vec::new(), Vec::new());
    let (undo_s, is_json) = (rollout.undo_s(), service.json);
    let mut progress = Progress { hosts, changed, undo_s, is_interrupted, lines, is_json };
    // A host that cannot be reached is found before any is changed.
    for (name, host) in &progress.hosts {
        host.counts().map_err(|failed| at(name, failed))?;
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
        let before = stage.watch.map(|_| self.counts(&hosts)).transpose()?;
        for &name in &hosts {
            self.check_interrupted()?;
            let host = self.hosts.get_mut(name).expect("it was checked");
            let done = host.change(&stage.steps, self.undo_s).map_err(|failed| {
                let is_open = failed.is_uncertain();
                let open = "; whether it has changed is not known: see `petasos ctl audit` there";
                failed.in_context(name, if is_open { open } else { "" })
            })?;
            self.changed.push(name);
            for line in done {
                self.say(number, name, &line)?;
            }
        }
        match (stage.watch, before) {
            (Some(watch), Some(before)) => self.watch(watch, number, (&hosts, before)),
            _ => Ok(()),
        }
    }

    /// Counts calls for a while.
    fn watch(
        &mut self,
        watch: Watch,
        number: usize,
        (hosts, before): (&[&str], [u64; 2]),
    ) -> Result<(), Failed> {
        let (clock, length) = (Clock::system(), Duration::from_secs(watch.seconds));
        let begin = clock.now();
        loop {
            let [ended, failed] = self.counts(hosts)?;
            let (ended, failed) =
                (ended.saturating_sub(before[0]), failed.saturating_sub(before[1]));
            let percent = if ended == 0 { 0.0 } else { failed as f64 / ended as f64 * 100.0 };
            let said = format!("{failed} of {ended} calls failed ({percent:.2} %)");
            if percent > watch.failures_percent_max {
                let most = watch.failures_percent_max;
                return Err(Failed::new(format!("{said}, more than {most} %"))
                    .with_status(Code::FailedPrecondition));
            }
            let passed = clock.now() - begin;
            if passed >= length {
                return self.say(number, &hosts.join(", "), &said);
            }
            self.check_interrupted()?;
            std::thread::sleep(LOOK_EVERY.min(length - passed));
        }
    }

    /// Calls that have ended at some hosts, and those that have failed.
    fn counts(&self, hosts: &[&str]) -> Result<[u64; 2], Failed> {
        let mut sums = [0; 2];
        for &name in hosts {
            let counts = self.hosts[name].counts().map_err(|failed| at(name, failed))?;
            sums = [sums[0] + counts[0], sums[1] + counts[1]];
        }
        Ok(sums)
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
        let mut left = Vec::new();
        let changed = std::mem::take(&mut self.changed);
        let count = changed.len();
        for name in changed.into_iter().rev() {
            match self.hosts[name].undo() {
                Ok(not_undone) => {
                    left.extend(not_undone.iter().map(|what| format!("{name}: {what}")));
                }
                Err(failed) => left.push(at(name, failed).to_string()),
            }
        }
        let undone = match (count, left.is_empty()) {
            (0, _) => "; nothing was changed".to_owned(),
            (count, true) => format!("; what was done before ({count} changes) was undone"),
            (_, false) => format!("; NOT UNDONE: {}", left.join("; ")),
        };
        failed.in_context(&format!("stage {stage}"), &undone)
    }
}

impl Host {
    /// Makes a change that follows those that were made here before.
    fn change(&mut self, steps: &[Step], undo_s: u64) -> Result<Vec<String>, Failed> {
        let mut request = request_at(&self.service, &mut steps.to_vec())?;
        request.edit().set_undo_within_s(undo_s as u32).set_follows(self.chain);
        let done = self.service.ask(request, |client, request| client.change(request))?;
        self.chain = done.chain();
        Ok(done.done().iter().map(|line| line.to_string()).collect())
    }

    /// Undoes the last of them. Gives what could not be undone.
    fn undo(&self) -> Result<Vec<String>, Failed> {
        let mut request = UndoRequest::new();
        request.edit().set_chain(self.chain);
        let undone = self.service.ask(request, |client, request| client.undo(request))?;
        Ok(undone.not_undone().iter().map(|what| what.to_string()).collect())
    }

    /// Calls that have ended, but for those that were cancelled, and those that have failed.
    fn counts(&self) -> Result<[u64; 2], Failed> {
        let request = StatsRequest::new();
        let answer = self.service.ask(request, |client, request| client.stats(request))?;
        let there = answer.applications().iter().flat_map(|one| one.calls().iter());
        let all = there.chain(answer.gone().iter()).map(outcomes);
        Ok(all.fold([0; 2], |[ended, failures], [ok, _, failed]| {
            [ended + ok + failed, failures + failed]
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
            (watched(stage, 5000, "1"), "it watches for more than 3480 s"),
            (watched(stage, u64::MAX, "1"), "it watches for more than 3480 s"),
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
