//! Retry throttling (A6): a channel whose calls fail stops retrying.

/// When a channel stops retrying and hedging.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Throttling {
    /// The initial and maximum number of tokens. Retries are allowed above half of it.
    pub tokens_max: u32,
    /// Thousandths of a token that a success adds; a failure takes one token.
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

    /// Whether a retry is allowed now.
    pub fn allows(&self) -> bool {
        self.throttling.is_none_or(|throttling| self.tokens > throttling.max() / 2)
    }

    /// The remaining thousandths of a token; 0 without throttling.
    pub fn tokens_milli(&self) -> u64 {
        self.tokens
    }

    /// Records that an attempt succeeded.
    pub fn on_success(&mut self) {
        if let Some(throttling) = self.throttling {
            let more = self.tokens + u64::from(throttling.token_ratio_milli);
            self.tokens = more.min(throttling.max());
        }
    }

    /// Records that an attempt failed with a retryable status, or that the server forbade retries.
    pub fn on_failure(&mut self) {
        self.tokens = self.tokens.saturating_sub(TOKEN);
    }
}

impl Throttling {
    fn max(self) -> u64 {
        u64::from(self.tokens_max) * TOKEN
    }
}

/// One token, in thousandths: A6 allows a ratio with three decimal places.
const TOKEN: u64 = 1000;
