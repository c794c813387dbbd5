//! Where the steering program may run, and where it runs.

/// Where the steering program may run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AttachMode {
    /// In the driver if it supports that, otherwise in the kernel's generic path.
    #[default]
    Auto,
    /// In the driver.
    Native,
    /// In the generic path. On veth, which copies anyway, this is the faster one.
    Generic,
}

impl AttachMode {
    /// Whether a program in `mode` is what was asked for.
    pub(crate) fn allows(self, mode: XdpMode) -> bool {
        match self {
            AttachMode::Auto => true,
            AttachMode::Native => mode == XdpMode::Native,
            AttachMode::Generic => mode == XdpMode::Generic,
        }
    }
}

/// Where the program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XdpMode {
    /// In the driver, before the kernel has built a packet.
    Native,
    /// In the kernel's generic path, after the kernel has built a packet. Works with every driver.
    Generic,
}
