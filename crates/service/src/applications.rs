//! Applications by their numbers.

use crate::Application;

/// The applications that are attached.
///
/// Numbers ascend, so that applications are in order. Until one goes, each is at its number.
pub(crate) struct Applications<M> {
    known: Vec<(u32, Box<Application<M>>)>,
}

impl<M> Applications<M> {
    pub(crate) const fn new() -> Applications<M> {
        Applications { known: Vec::new() }
    }

    /// Adds an application.
    ///
    /// # Panics
    /// If one with this number or a later one was added before.
    pub(crate) fn insert(&mut self, number: u32, application: Application<M>) {
        assert!(self.known.last().is_none_or(|(last, _)| *last < number), "numbers ascend");
        self.known.push((number, Box::new(application)));
    }

    pub(crate) fn remove(&mut self, number: &u32) -> Option<Application<M>> {
        let place = self.place(*number)?;
        Some(*self.known.remove(place).1)
    }

    #[inline]
    pub(crate) fn get(&self, number: &u32) -> Option<&Application<M>> {
        self.place(*number).map(|place| &*self.known[place].1)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, number: &u32) -> Option<&mut Application<M>> {
        let place = self.place(*number)?;
        Some(&mut *self.known[place].1)
    }

    /// In ascending order.
    pub(crate) fn keys(&self) -> impl Iterator<Item = u32> {
        self.known.iter().map(|(number, _)| *number)
    }

    /// In ascending order.
    pub(crate) fn values(&self) -> impl Iterator<Item = &Application<M>> {
        self.known.iter().map(|(_, application)| &**application)
    }

    #[inline]
    fn place(&self, number: u32) -> Option<usize> {
        match self.known.get(number as usize) {
            Some((known, _)) if *known == number => Some(number as usize),
            _ => self.known.binary_search_by_key(&number, |(known, _)| *known).ok(),
        }
    }
}
