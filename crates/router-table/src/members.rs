//! The workers that are there, with the schemas that they have.
//!
//! Threat model: workers may have any schemas. All that are kept are bounded together, and so are
//! the versions of each service, of which each may be compared with each other. Workers that wait
//! for a version have no place in the group yet, so they are counted here.

use std::collections::BTreeMap;
use std::sync::Arc;

use petasos_call::Hash;

use crate::answers::Answer;
use crate::form::Form;

/// The most bytes of the schemas of all workers. What several share counts once.
const KEPT_BYTES_MAX: usize = 64 << 20;

/// The most workers: as many as a group has, and as many that join.
const MEMBERS_MAX: usize = 2048;

/// The most versions of a service at the same time.
const VERSIONS_MAX: usize = 8;

/// See the module's documentation.
#[derive(Debug, Default)]
pub(crate) struct Members {
    /// What they have answered for each service. Who came last has the highest number.
    there: BTreeMap<u64, Vec<Answer>>,
}

impl Members {
    pub(crate) fn len(&self) -> usize {
        self.there.len()
    }

    /// Adds a worker.
    ///
    /// # Errors
    /// There are too many versions. Nothing was added.
    pub(crate) fn add(&mut self, member: u64, mut answers: Vec<Answer>) -> Result<(), String> {
        if self.there.len() >= MEMBERS_MAX {
            return Err(format!("there are {MEMBERS_MAX} workers, with those that join"));
        }
        answers.iter_mut().for_each(|answer| self.share(answer));
        for (at, answer) in answers.iter().enumerate() {
            let versions = self.versions(at);
            let is_known = versions.iter().any(|it| it.hash == answer.hash);
            if versions.len() >= VERSIONS_MAX && !is_known {
                let why = "versions of a service among the group's workers: end older ones first";
                return Err(format!("there are {VERSIONS_MAX} {why}"));
            }
        }
        self.there.insert(member, answers);
        if self.bytes() > KEPT_BYTES_MAX {
            self.there.remove(&member);
            return Err("the group's workers have too many different schemas".to_owned());
        }
        Ok(())
    }

    pub(crate) fn remove(&mut self, member: u64) {
        self.there.remove(&member);
    }

    /// The versions of the service at this place: each once, that of who came last first.
    pub(crate) fn versions(&self, at: usize) -> Vec<&Answer> {
        let mut versions: Vec<&Answer> = Vec::new();
        for answer in self.there.values().rev().map(|answers| &answers[at]) {
            if !versions.iter().any(|it| it.hash == answer.hash) {
                versions.push(answer);
            }
        }
        versions
    }

    /// In which form all take messages of the service at this place, if its schema has this hash.
    /// `None`: nobody is there.
    pub(crate) fn form(&self, at: usize, hash: Hash) -> Option<Form> {
        let mut all = self.there.values().map(|answers| &answers[at]);
        let first = Form::of(all.clone().next()?);
        Some(all.by_ref().fold(first, |form, answer| form.with(hash, answer)))
    }

    /// Lets a schema have the bytes of one that is there, if they are the same.
    fn share(&self, answer: &mut Answer) {
        let mut all = self.there.values().flatten();
        if let Some(same) = all.find(|it| it.schema == answer.schema) {
            answer.schema = same.schema.clone();
        }
    }

    fn bytes(&self) -> usize {
        let mut seen: Vec<&Arc<[u8]>> =
            self.there.values().flatten().map(|it| &it.schema).collect();
        seen.sort_unstable_by_key(|it| it.as_ptr());
        seen.dedup_by_key(|it| it.as_ptr());
        seen.iter().map(|it| it.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use petasos_call::CodecSet;

    use super::*;

    fn answer(version: u8, bytes: usize) -> Answer {
        let (hash, schema) = ([version; 16], vec![version; bytes].into());
        Answer { hash, methods: 1, layout: 0, codecs: CodecSet::IDENTITY, schema }
    }

    #[test]
    fn rt31_versions_of_a_service_are_bounded_and_those_that_are_there_may_come() {
        let mut members = Members::default();
        for version in 0..VERSIONS_MAX as u8 {
            members.add(version.into(), vec![answer(version, 9)]).expect("there is room");
        }
        let why = members.add(100, vec![answer(100, 9)]).expect_err("it is one too many");
        assert!(why.contains("8 versions"), "{why}");
        members.add(101, vec![answer(3, 9)]).expect("it is known");
        members.remove(5);
        members.add(100, vec![answer(100, 9)]).expect("one is gone");
        let versions = members.versions(0);
        let first = versions.iter().map(|it| it.hash[0]).take(3).collect::<Vec<_>>();
        assert_eq!(first, [3, 100, 7], "who came last first");
    }

    #[test]
    fn rt39_workers_are_bounded_with_those_that_wait() {
        let mut members = Members::default();
        for member in 0..MEMBERS_MAX as u64 {
            members.add(member, Vec::new()).expect("there is room");
        }
        let why = members.add(9999, Vec::new()).expect_err("it is one too many");
        assert!(why.contains("2048 workers"), "{why}");
        members.remove(7);
        members.add(9999, Vec::new()).expect("one is gone");
    }

    #[test]
    fn rt31_the_bytes_of_all_are_bounded_and_equal_ones_count_once() {
        let mut members = Members::default();
        let third = KEPT_BYTES_MAX / 3;
        for member in 0..6 {
            let version = (member % 3) as u8;
            members.add(member, vec![answer(version, third)]).expect("it has the same bytes");
        }
        assert!(members.bytes() <= KEPT_BYTES_MAX);
        let why = members.add(6, vec![answer(7, 9)]).expect_err("there is no room");
        assert!(why.contains("different schemas"), "{why}");
        members.remove(0);
        members.add(6, vec![answer(7, 9)]).expect_err("the other has the bytes still");
        members.remove(3);
        members.add(6, vec![answer(7, 9)]).expect("they are gone");
    }
}
