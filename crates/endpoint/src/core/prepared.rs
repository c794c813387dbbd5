//! Which methods have steps that are taken before a turn's requests are handled.

/// A step for a request, given its bytes: the application's state is there to be read, as when it
/// prefetches what the handler will need.
pub type PrepareStep<S> = fn(&S, &[u8]);

/// The steps of all methods.
pub(crate) struct Prepared<S> {
    /// Indexed by the method.
    steps: Vec<Vec<PrepareStep<S>>>,
    steps_max: usize,
}

impl<S> Default for Prepared<S> {
    fn default() -> Prepared<S> {
        Prepared { steps: Vec::new(), steps_max: 0 }
    }
}

impl<S> Prepared<S> {
    pub(crate) fn set(&mut self, method: u16, steps: &[PrepareStep<S>]) {
        let index = usize::from(method);
        if self.steps.len() <= index {
            self.steps.resize_with(index + 1, Vec::new);
        }
        self.steps[index] = steps.to_vec();
        self.steps_max = self.steps.iter().map(Vec::len).max().unwrap_or(0);
    }

    /// Steps of the method that has most.
    pub(crate) fn steps_max(&self) -> usize {
        self.steps_max
    }

    pub(crate) fn steps(&self, method: u16) -> Option<&[PrepareStep<S>]> {
        self.steps.get(usize::from(method)).map(Vec::as_slice).filter(|steps| !steps.is_empty())
    }
}
