//! Changes that are undone later.

use petasos::Code;
use petasos_admin::{ListQuotasRequest, StepMut, UndoRequest};

use super::{Operator, attach, plan};
use crate::servers::until;
use crate::support::Daemon;

/// A chain that the service names.
const NEW: (u64, u32) = (0, 0);

pub type Steps<'a> = &'a [&'a dyn Fn(StepMut<'_>)];

impl Operator {
    /// Makes a change that can be undone for a while, behind so many of its chain. Gives the chain.
    pub fn keep(&self, of: (u64, u32), steps: Steps<'_>) -> u64 {
        self.try_keep(of, 600, steps).unwrap()
    }

    fn try_keep(
        &self,
        (chain, before): (u64, u32),
        within_s: u32,
        steps: Steps<'_>,
    ) -> Result<u64, (Code, String)> {
        let mut request = plan(steps);
        let mut edit = request.edit();
        edit.set_undo_within_s(within_s).set_chain(chain).set_changes_before(before);
        let done = self.try_change(request).map(|done| done.chain());
        done.map_err(|status| (status.code(), status.message().to_owned()))
    }

    /// Undoes the last change of a chain. Gives how many are left.
    pub fn undo(&self, chain: u64) -> Result<u32, (Code, String)> {
        let mut request = UndoRequest::new();
        request.edit().set_chain(chain);
        let undone = self.ask(request, |client, request| client.undo(request));
        let undone = undone.map_err(|status| (status.code(), status.message().to_owned()))?;
        assert!(undone.not_undone().is_empty(), "{undone:?}");
        Ok(undone.left())
    }
}

impl Operator {
    fn has_quota(&self, application: &str) -> bool {
        let quotas =
            self.ask(ListQuotasRequest::new(), |client, request| client.list_quotas(request));
        quotas.unwrap().quotas().iter().any(|quota| quota.application() == application)
    }
}

fn add(kind: &'static str) -> impl Fn(StepMut<'_>) {
    move |mut step| {
        step.add_policy_mut().set_application("*").set_kind(kind).set_index(0);
    }
}

fn set_items(items: u64) -> impl Fn(StepMut<'_>) {
    move |mut step| {
        step.set_quota_mut().quota_mut().set_application("late").set_items_max(items);
    }
}

/// Engines of applications that were there before the changes, and the rules.
#[derive(Debug, PartialEq)]
struct Seen {
    client: Vec<(String, String)>,
    server: Vec<(String, String)>,
    rules: Vec<u64>,
}

fn seen(operator: &Operator) -> Seen {
    let rules = operator.policies().policies().iter().map(|policy| policy.id()).collect();
    Seen { client: operator.engines("client"), server: operator.engines("server"), rules }
}

#[test]
fn a_chain_of_changes_is_undone_while_calls_run_and_applications_come_and_go() {
    let limit = r#"{"rate_per_s": 50000, "burst": 8}"#;
    let rules =
        format!(r#"[{{"application": "*", "kind": "rate_limit", "configuration": {limit}}}]"#);
    let daemon = Daemon::start("undo", Some(&rules));
    let operator = Operator::of(&daemon);
    let server = daemon.serve_until("server", "stop");
    let mut client = daemon.attach("client");
    let target = client.target("greeter");
    assert!(client.greet(target, "ann").is_ok());
    operator.change(&[&|step| attach(step, "client", "telemetry", "{}")]);
    let before = seen(&operator);

    let chain = operator.keep(NEW, &[&add("null"), &set_items(7)]);
    let short_lived = daemon.attach("short");
    operator.keep(
        (chain, 1),
        &[
            &|mut step| {
                let mut change = step.configure_policy_mut();
                change.set_id(1).set_configuration(r#"{"rate_per_s": 4, "burst": 1000}"#);
            },
            &|mut step| {
                let mut change = step.move_engine_mut();
                change.set_to(0);
                change.engine_mut().set_application("client").set_kind("telemetry");
            },
        ],
    );
    let middle = seen(&operator);
    assert!(client.greet(target, "bob").is_ok());
    operator.keep(
        (chain, 2),
        &[
            &|mut step| {
                step.remove_policy_mut().set_id(1);
            },
            &|mut step| {
                step.detach_engine_mut()
                    .engine_mut()
                    .set_application("client")
                    .set_kind("telemetry");
            },
            &add("telemetry"),
        ],
    );
    // Applications come, with engines of rules that will be gone, and go.
    let late = daemon.attach("late");
    drop(short_lived);
    assert!(client.greet(target, "carl").is_ok());
    let kinds = |application: &str| -> Vec<String> {
        operator.engines(application).into_iter().map(|(kind, _)| kind).collect()
    };
    assert_eq!(kinds("late"), ["telemetry", "null"]);

    assert_eq!(operator.undo(chain), Ok(2));
    assert_eq!(seen(&operator), middle);
    assert_eq!(kinds("late"), ["null", "rate_limit"]);
    assert!(client.greet(target, "dan").is_ok());
    assert_eq!(operator.undo(chain), Ok(1));
    assert_eq!(operator.undo(chain), Ok(0));
    assert_eq!(seen(&operator), before);
    assert_eq!(kinds("late"), ["rate_limit"]);
    assert!(!operator.has_quota("late"));
    assert_eq!(operator.undo(chain).map_err(|(code, _)| code), Err(Code::FailedPrecondition));
    drop(late);
    assert_eq!(client.greet(target, "stop"), Ok("hello, stop".to_owned()));
    assert_eq!(server.join().unwrap(), ["ann", "bob", "carl", "dan", "stop"]);
}

#[test]
fn what_others_have_followed_or_what_takes_too_long_is_not_undone() {
    let daemon = Daemon::start("undo-not", None);
    let operator = Operator::of(&daemon);
    let _application = daemon.attach("client");
    let gone = |chain| {
        let (code, why) = operator.undo(chain).expect_err("it cannot be undone");
        assert_eq!(code, Code::FailedPrecondition);
        assert!(why.contains("cannot be undone any more"), "{why}");
    };
    let chain = operator.keep(NEW, &[&add("null")]);
    // Another operator's, and one that can be undone by itself.
    operator.change(&[&add("telemetry")]);
    gone(chain);
    let first = operator.keep(NEW, &[&add("null")]);
    let second = operator.keep(NEW, &[&add("null")]);
    assert_ne!(first, second);
    gone(first);
    // One that fails changes nothing, and what was there can still be undone.
    let fails: Steps<'_> = &[&add("null"), &|mut step| {
        step.remove_policy_mut().set_id(99);
    }];
    assert_eq!(operator.try_keep((second, 1), 60, fails).map_err(|it| it.0), Err(Code::NotFound));
    assert_eq!(
        operator.try_keep((first, 1), 60, &[&add("null")]).map_err(|it| it.0),
        Err(Code::FailedPrecondition)
    );
    let before = operator.policies().policies().len();
    assert_eq!(operator.undo(second), Ok(0));
    assert_eq!(operator.policies().policies().len(), before - 1);
    gone(second);
    gone(0);
    // Its time is up.
    let brief = operator.try_keep(NEW, 1, &[&add("null")]).unwrap();
    crate::until::until(|| {
        std::thread::sleep(std::time::Duration::from_millis(300));
        let chain = operator.try_keep((brief, 1), 1, &[&add("null")]);
        chain.is_err_and(|(_, why)| why.contains("its time is up")) || {
            std::thread::sleep(std::time::Duration::from_millis(1000));
            false
        }
    });
    for (within_s, of, steps) in [
        (3601, NEW, &[&add("null") as &dyn Fn(StepMut<'_>)][..]),
        (0, (3, 1), &[&add("null")]),
        (60, (0, 1), &[&add("null")]),
        (
            60,
            NEW,
            &[&|mut step: StepMut<'_>| {
                step.remove_runtime_mut().set_id(1);
            }],
        ),
        (
            60,
            NEW,
            &[&|mut step: StepMut<'_>| {
                step.move_application_mut().set_application("client").set_runtime(1);
            }],
        ),
    ] {
        let refused = operator.try_keep(of, within_s, steps);
        assert_eq!(refused.map_err(|it| it.0), Err(Code::InvalidArgument), "{within_s} {of:?}");
    }
}

#[test]
fn undoing_leaves_what_operators_have_made_of_single_applications() {
    let limit = r#"{"rate_per_s": 50000, "burst": 8}"#;
    let rules = format!(
        r#"[{{"application": "*", "kind": "rate_limit", "configuration": {limit}}},
            {{"application": "*", "kind": "telemetry"}}]"#
    );
    let daemon = Daemon::start("undo-others", Some(&rules));
    let operator = Operator::of(&daemon);
    let _applications = [daemon.attach("client"), daemon.attach("server")];
    operator.change(&[&|mut step| {
        let mut change = step.configure_engine_mut();
        change.set_configuration(r#"{"rate_per_s": 9, "burst": 9}"#);
        change.engine_mut().set_application("client").set_kind("rate_limit");
    }]);
    let detach = |application: &'static str, kind: &'static str| {
        move |mut step: StepMut<'_>| {
            step.detach_engine_mut().engine_mut().set_application(application).set_kind(kind);
        }
    };
    operator.change(&[&detach("server", "telemetry")]);
    let before = seen(&operator);
    let chain = operator.keep(NEW, &[&set_items(7)]);
    assert_eq!(operator.undo(chain), Ok(0));
    assert_eq!(seen(&operator), before, "a quota has nothing to do with engines");
    // A change that detaches an engine of a rule is undone once, not twice.
    let replaced: Steps<'_> =
        &[&detach("client", "telemetry"), &|step| attach(step, "client", "null", "{}")];
    let chain = operator.keep(NEW, replaced);
    operator.keep((chain, 1), &[&set_items(7)]);
    assert_eq!((operator.undo(chain), operator.undo(chain)), (Ok(1), Ok(0)));
    assert_eq!(seen(&operator), before);
}

#[test]
fn a_client_that_got_no_answer_undoes_its_change_by_the_number_that_it_chose() {
    let daemon = Daemon::start("undo-chosen", None);
    let operator = Operator::of(&daemon);
    let before = seen_rules(&operator);
    assert_eq!(operator.keep((77, 0), &[&add("null")]), 77);
    assert_eq!(operator.keep((77, 1), &[&add("null")]), 77);
    // One that the service has made already is not made as if it were the first again.
    let again = operator.try_keep((77, 1), 60, &[&add("null")]);
    assert_eq!(again.map_err(|it| it.0), Err(Code::FailedPrecondition));
    assert_eq!((operator.undo(77), operator.undo(77)), (Ok(1), Ok(0)));
    assert_eq!(seen_rules(&operator), before);
    // Chains that services name are not those of other services.
    let chains = [(); 3].map(|()| operator.keep(NEW, &[&add("null")]));
    assert!(chains.iter().all(|chain| *chain > 1 << 20), "{chains:?}");
}

fn seen_rules(operator: &Operator) -> Vec<u64> {
    operator.policies().policies().iter().map(|policy| policy.id()).collect()
}

#[test]
fn the_audit_log_says_which_changes_can_be_undone_and_which_were() {
    let daemon = Daemon::start("undo-audit", None);
    let operator = Operator::of(&daemon);
    operator.change(&[&set_items(7)]);
    let chain = operator.keep(NEW, &[&add("null")]);
    operator.undo(chain).unwrap();
    let audit = operator.audit();
    let is_change = |method: &str| ["Change", "Undo"].contains(&method);
    let changes = audit.entries().iter().filter(|entry| is_change(entry.method()));
    let steps: Vec<Vec<&str>> =
        changes.map(|entry| entry.steps().iter().map(|step| &**step).collect()).collect();
    let [other, kept, undone] = &steps[..] else { panic!("{steps:?}") };
    assert_eq!(kept[1..], [format!("can be undone as the last of chain {chain}")]);
    assert_eq!(other.len(), 1, "{other:?}");
    assert_eq!(undone[..], [format!("undo the last of chain {chain}")]);
}

#[test]
fn a_schema_whose_eviction_is_undone_is_kept_on_disk_again() {
    let cache = std::env::temp_dir().join(format!("petasosd-undo-cache-{}", std::process::id()));
    let option = ["--schema-cache".as_ref(), cache.as_os_str()];
    let daemon = Daemon::start_more("undo-evict", None, &option);
    let operator = Operator::of(&daemon);
    // An application binds it, and goes.
    drop(daemon.attach("app"));
    // Besides what is being written.
    let kept = || -> Vec<String> {
        let files = std::fs::read_dir(&cache).into_iter().flatten();
        let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
        names.filter(|name| !name.starts_with('.')).collect()
    };
    until(|| kept().len() == 1);
    let digest = kept().remove(0);
    let evict = |mut step: StepMut<'_>| {
        step.evict_schema_mut().set_digest(&digest);
    };
    let mut chain = None;
    until(|| {
        chain = operator.try_keep(NEW, 600, &[&evict]).ok();
        chain.is_some()
    });
    until(|| kept().is_empty());
    operator.undo(chain.unwrap()).unwrap();
    until(|| kept() == [&*digest]);
    let _ = std::fs::remove_dir_all(&cache);
}
