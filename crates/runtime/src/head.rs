//! What is known of a call before it is sent.

use petasos_base::Time;
use petasos_buf::MsgBuf;
use petasos_rpc::recode::Recode;
use petasos_rpc::settings::RetryMode;

/// What is called, and how.
#[derive(Clone, Copy, Debug)]
pub struct CallHead {
    /// The channel's number in the loop.
    pub channel: u32,
    /// The service's place in the channel.
    pub service: u32,
    /// The method's index in the service.
    pub method: u16,
    /// The call waits while no server can be reached.
    pub wait_for_ready: bool,
    /// How often it may be sent.
    pub retry_mode: RetryMode,
    /// When it is over.
    pub deadline: Time,
    /// How the request changes if its server takes another form than the usual one.
    pub recode: Recode,
}

/// What is known of a call when it begins.
#[derive(Debug)]
pub struct NewCall {
    /// What the loop is told of it.
    pub head: CallHead,
    /// The request, behind its head.
    pub request: MsgBuf,
}
