//! The contents of requests and responses, and checks of responses.
//!
//! A payload begins with the number of its call, as far as it fits, so that no response can be
//! taken for another. The other bytes follow a pattern that differs between requests and responses.

use crate::error::Error;
use crate::options::Options;

/// The payloads of a measurement.
#[derive(Clone, Debug)]
pub struct Payloads {
    request: Vec<u8>,
    response: Vec<u8>,
    number_bytes: usize,
}

impl Payloads {
    pub fn new(options: &Options) -> Payloads {
        let fill = |bytes, step: u8| (0..bytes).map(|at| (at as u8).wrapping_mul(step)).collect();
        Payloads {
            request: fill(options.size, 7),
            response: fill(options.response, 11),
            number_bytes: options.size.min(options.response).min(8),
        }
    }

    /// A request's bytes.
    pub fn request(&self, number: u64) -> Vec<u8> {
        let mut request = self.request.clone();
        self.write_request(number, &mut request);
        request
    }

    /// The bytes that all requests share. The number goes into the first [`Self::number_bytes`].
    pub fn request_template(&self) -> &[u8] {
        &self.request
    }

    /// Bytes of a payload that hold the number.
    pub fn number_bytes(&self) -> usize {
        self.number_bytes
    }

    /// Writes the number into a copy of the template.
    pub fn write_request(&self, number: u64, request: &mut [u8]) {
        let bytes = self.number_bytes;
        request[..bytes].copy_from_slice(&number.to_le_bytes()[..bytes]);
    }

    /// The server's answer.
    ///
    /// # Errors
    /// If the request does not have the length of the measurement.
    pub fn answer(&self, request: &[u8]) -> Result<Vec<u8>, Error> {
        let mut response = self.response.clone();
        self.write_answer(request, &mut response)?;
        Ok(response)
    }

    /// The bytes that every response shares.
    pub fn response_template(&self) -> &[u8] {
        &self.response
    }

    /// Writes the request's number into a copy of the template.
    ///
    /// # Errors
    /// If the request does not have the length of the measurement.
    pub fn write_answer(&self, request: &[u8], response: &mut [u8]) -> Result<(), Error> {
        if request.len() != self.request.len() {
            let (is, expected) = (request.len(), self.request.len());
            return Err(format!("a request of {is} bytes, not {expected}").into());
        }
        let bytes = self.number_bytes;
        response[..bytes].copy_from_slice(&request[..bytes]);
        Ok(())
    }

    /// Checks a response: its length and number, and all of its bytes if `thorough`.
    ///
    /// # Errors
    /// If it is not the expected response.
    pub fn check(&self, number: u64, response: &[u8], thorough: bool) -> Result<(), Error> {
        let (length, bytes) = (self.response.len(), self.number_bytes);
        if response.len() != length {
            return Err(format!("a response of {} bytes, not {length}", response.len()).into());
        }
        let rest = if thorough { bytes } else { bytes.max(length.saturating_sub(1)) };
        let is_right = response[..bytes] == number.to_le_bytes()[..bytes]
            && response[rest..] == self.response[rest..];
        if is_right { Ok(()) } else { Err("a response with other bytes than sent".into()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Role;

    fn payloads(size: usize, response: usize) -> Payloads {
        let server = String::new();
        Payloads::new(&Options { role: Role::Serve, server, size, response, window: 1 })
    }

    #[test]
    fn an_answer_passes_and_anothers_does_not() {
        for (size, response) in [(64, 64), (3, 100), (100, 3), (0, 0), (64, 0), (8, 9)] {
            let payloads = payloads(size, response);
            let answer = payloads.answer(&payloads.request(5)).expect("a request of ours");
            payloads.check(5, &answer, true).expect("its answer");
            payloads.check(5, &answer, false).expect("its answer");
            if size.min(response) > 0 {
                assert!(payloads.check(6, &answer, false).is_err(), "{size} {response}");
            }
        }
    }

    #[test]
    fn wrong_lengths_and_bytes_are_found() {
        let payloads = payloads(64, 64);
        let answer = payloads.answer(&payloads.request(1)).expect("a request of ours");
        assert!(payloads.answer(&[0; 63]).is_err());
        assert!(payloads.check(1, &answer[..63], false).is_err());
        let mut wrong = answer.clone();
        wrong[30] ^= 1;
        assert!(payloads.check(1, &wrong, true).is_err());
        let mut wrong = answer;
        wrong[63] ^= 1;
        assert!(payloads.check(1, &wrong, false).is_err());
    }
}
