//! The parameters of a call before it is sent.

use petasos_base::Time;
use petasos_buf::MsgBuf;
use petasos_endpoint::Routing;
use petasos_rpc::recode::Recode;
use petasos_rpc::settings::RetryMode;

/// The method and settings of a call.
#[derive(Clone, Copy, Debug)]
pub struct CallHead {
    /// The channel's number in the loop.
    pub channel: u32,
    /// The service's number in the channel.
    pub service: u32,
    /// The method's index in the service.
    pub method: u16,
    /// Whether the call waits while no server can be reached.
    pub wait_for_ready: bool,
    /// What decides whether it is sent again.
    pub retry_mode: RetryMode,
    /// Its deadline.
    pub deadline: Time,
    /// How the request is converted if its server accepts only another form.
    pub recode: Recode,
    /// How it is routed, if it goes to a group.
    pub routing: Routing,
}

/// A call that begins.
#[derive(Debug)]
pub struct NewCall {
    /// The parameters that the loop needs.
    pub head: CallHead,
    /// The request, after its head.
    pub request: MsgBuf,
}
