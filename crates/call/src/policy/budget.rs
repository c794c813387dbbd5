//! Retry throttling (A6): a channel whose calls fail stops trying them again.

/// When a channel stops to retry and hedge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Throttling {
    /// Tokens at the start and at most. Above half of them, calls are tried again.
    pub tokens_max: u32,
    /// What a success adds, in thousandths of a token; a failure takes one token.
    pub token_ratio_milli: u32,
}

/// The tokens of one channel. Without [`Throttling`], retries are always allowed.
#[derive(Clone, Debug)]
pub struct RetryBudget {
    /// In thousandths; at most the throttling's maximum.
    tokens: u64,
    throttling: Option<Throttling>,
}

impl RetryBudget {
    /// A full budget.
    pub fn new(throttling: Option<Throttling>) -> RetryBudget {
        RetryBudget { tokens: throttling.map_or(0, Throttling::max), throttling }
    }

    /// Whether a call may be tried again now.
    pub fn allows(&self) -> bool {
        self.throttling.is_none_or(|throttling| self.tokens > throttling.max() / 2)
    }

    /// Thousandths of a token that are left; 0 without throttling.
    pub fn tokens_milli(&self) -> u64 {
        self.tokens
    }

    /// An attempt succeeded.
    pub fn on_success(&mut self) {
        if let Some(throttling) = self.throttling {
            let more = self.tokens + u64::from(throttling.token_ratio_milli);
            self.tokens = more.min(throttling.max());
        }
    }

    /// An attempt failed with a status that its policy would try again, or the server said not to.
    pub fn on_failure(&mut self) {
        self.tokens = self.tokens.saturating_sub(TOKEN);
    }
}

impl Throttling {
    fn max(self) -> u64 {
        u64::from(self.tokens_max) * TOKEN
    }
}

/// Tokens are counted in thousandths: A6 allows a ratio of three decimal places.
const TOKEN: u64 = 1000;
