//! All groups of the process, and how they change when the configuration is read again.
//!
//! Invariants:
//! - a configuration is checked whole, and what is new of it is started, before anything changes;
//! - what fails leaves the old one in force. Programs at interfaces, of which each has one, leave
//!   them to new groups before, and come back then: their planes have all packets without them.

use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use petasos_router_control::Operator;

use crate::admin_options::AdminOptions;
use crate::configuration::{Configuration, GroupOptions, Options};
use crate::plane_options::PlaneKind;
use crate::running::Group;
use crate::said::say;

/// See the module's documentation.
pub struct Groups {
    options: Options,
    /// What was read at the start, for what cannot change.
    first: Configuration,
    running: Mutex<Vec<Group>>,
    /// Of those that run. Never held while anybody waits.
    views: Mutex<Vec<GroupView>>,
    /// Ends of groups that were removed.
    leaving: Mutex<Vec<JoinHandle<()>>>,
}

/// A group, for who sees and changes it.
#[derive(Clone, Debug)]
pub struct GroupView {
    /// Where clients attach and workers join: its name.
    pub listen: SocketAddr,
    /// Where packets come.
    pub data: SocketAddr,
    /// Where binds come.
    pub binds: Option<SocketAddr>,
    /// What sees and changes it.
    pub operator: Operator,
}

impl Groups {
    /// Starts all groups, or none.
    ///
    /// # Errors
    /// A text that says what is wrong, and with which group.
    pub fn start(options: Options, first: Configuration) -> Result<Groups, String> {
        let running = first.groups.iter().map(Group::start).collect::<Result<Vec<_>, _>>()?;
        let views = Mutex::new(views(&running));
        let (running, leaving) = (Mutex::new(running), Mutex::default());
        Ok(Groups { options, first, running, views, leaving })
    }

    /// How operators reach the router.
    pub fn admin(&self) -> &AdminOptions {
        &self.first.admin
    }

    /// The groups, as they are seen.
    pub fn views(&self) -> Vec<GroupView> {
        self.views.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The groups that run. What wants them waits while the configuration is read again.
    pub fn running(&self) -> MutexGuard<'_, Vec<Group>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the configuration again, and does what it says. Gives what has changed.
    ///
    /// # Errors
    /// Why all stays as it is.
    pub fn reload(&self) -> Result<Vec<String>, String> {
        if self.options.file().is_none() {
            return Err("there is no file to read: the router has none (--config)".to_owned());
        }
        let read = self.options.read().map_err(|error| error.to_string())?;
        if read.admin != self.first.admin {
            return Err("[admin] cannot change while the router runs: restart it".to_owned());
        }
        let mut running = self.running();
        // Of each group that was read, the place of the one that runs.
        let places = matched(&running, &read.groups);
        for (options, place) in read.groups.iter().zip(&places) {
            let refusal = place.and_then(|place| running[place].refusal(options));
            if let Some(why) = refusal {
                return Err(format!("group at {}: {why}", options.listen));
            }
        }
        let (added, mut done) = start_and_change(&mut running, &read.groups, &places)?;
        let mut added = added.into_iter();
        let mut before: Vec<_> = running.drain(..).map(Some).collect();
        for place in &places {
            let group = match place {
                Some(place) => before[*place].take().expect("each is matched once"),
                None => added.next().expect("it was started"),
            };
            if place.is_none() {
                done.push(format!("group at {}: added", group.listen()));
            }
            running.push(group);
        }
        for group in before.into_iter().flatten() {
            done.push(format!("group at {}: removed", group.listen()));
            self.let_go(group);
        }
        *self.views.lock().unwrap_or_else(PoisonError::into_inner) = views(&running);
        Ok(if done.is_empty() { vec!["nothing has changed".to_owned()] } else { done })
    }

    /// Lets a group end that is not wanted any more, when its members have had time to go.
    fn let_go(&self, group: Group) {
        group.drain();
        let drain = self.options.drain();
        let thread = std::thread::Builder::new().name("petasos-leaving".to_owned());
        let thread = thread.spawn(move || {
            std::thread::sleep(drain);
            drop(group);
        });
        let mut leaving = self.leaving.lock().unwrap_or_else(PoisonError::into_inner);
        leaving.retain(|it| !it.is_finished());
        // If no thread is to be had, it has ended at once.
        leaving.extend(thread);
    }

    /// What has failed, if something has.
    pub fn failed(&self) -> Option<String> {
        let running = self.running();
        let failed = running.iter().find(|group| !group.is_running())?;
        Some(format!("group at {}: one of its threads failed", failed.listen()))
    }

    /// How long to go on when asked to end.
    pub fn drain(&self) -> Duration {
        self.running().iter().for_each(Group::drain);
        self.options.drain()
    }

    /// Ends all groups, side by side: each node says goodbye, and waits for that to arrive.
    pub fn end(&self) {
        let running = std::mem::take(&mut *self.running());
        std::thread::scope(|scope| {
            for group in running {
                scope.spawn(move || drop(group));
            }
        });
        let leaving = self.leaving.lock().unwrap_or_else(PoisonError::into_inner).split_off(0);
        // If one panicked, that was reported.
        leaving.into_iter().for_each(|it| drop(it.join()));
    }
}

fn views(running: &[Group]) -> Vec<GroupView> {
    let view = |group: &Group| {
        let (data, binds) = group.addresses();
        GroupView { listen: group.listen(), data, binds, operator: group.operator() }
    };
    running.iter().map(view).collect()
}

/// Of each group that was read, the one that runs at its address. Of several at any port, in order.
fn matched(running: &[Group], read: &[GroupOptions]) -> Vec<Option<usize>> {
    let mut is_taken = vec![false; running.len()];
    let place = |options: &GroupOptions| {
        let is_it = |(place, group): &(usize, &Group)| {
            !is_taken[*place] && group.options().listen == options.listen
        };
        let place = running.iter().enumerate().find(is_it).map(|(place, _)| place)?;
        is_taken[place] = true;
        Some(place)
    };
    read.iter().map(place).collect()
}

/// Starts the groups that are new, and changes those that go on; or does neither.
fn start_and_change(
    running: &mut [Group],
    read: &[GroupOptions],
    places: &[Option<usize>],
) -> Result<(Vec<Group>, Vec<String>), String> {
    let added = read.iter().zip(places).filter(|(_, place)| place.is_none());
    let added: Vec<_> = added.map(|(options, _)| options).collect();
    if added.iter().any(|options| options.plane().plane != PlaneKind::Udp) {
        leaving(running, places).for_each(Group::leave_interface);
    }
    let started = added.into_iter().map(Group::start).collect::<Result<Vec<_>, _>>();
    let done = started.and_then(|added| Ok((added, change_all(running, read, places)?)));
    if done.is_err() {
        for group in leaving(running, places) {
            if let Err(why) = group.return_to_interface() {
                say(&format!("group at {}: goes on without its program: {why}", group.listen()));
            }
        }
    }
    done
}

/// The groups that run, and are not wanted any more.
fn leaving<'a>(
    running: &'a mut [Group],
    places: &[Option<usize>],
) -> impl Iterator<Item = &'a mut Group> {
    let all = running.iter_mut().enumerate();
    all.filter(|(at, _)| !places.contains(&Some(*at))).map(|(_, group)| group)
}

/// Changes all groups that go on, or none.
fn change_all(
    running: &mut [Group],
    read: &[GroupOptions],
    places: &[Option<usize>],
) -> Result<Vec<String>, String> {
    let (mut done, mut changed) = (Vec::new(), Vec::new());
    for (options, place) in read.iter().zip(places) {
        let Some(place) = *place else { continue };
        let before = running[place].options().clone();
        match running[place].change(options) {
            Ok(what) => done.extend(what),
            Err(why) => {
                // A thread has failed, which ends the process soon.
                for (place, before) in changed {
                    let _: Result<_, String> = Group::change(&mut running[place], &before);
                }
                return Err(why);
            }
        }
        changed.push((place, before));
    }
    Ok(done)
}
