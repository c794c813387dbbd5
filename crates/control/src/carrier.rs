//! What carries packets (C7).

/// What carries the packets of a session. Both ends must have the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Carrier {
    /// Datagrams, one for each packet.
    #[default]
    Datagrams,
    /// Connections of TCP (W33).
    Tcp,
    /// Messages of a fabric, which may contain several packets (W34).
    Fabric,
}

impl Carrier {
    /// What people call it.
    pub const fn name(self) -> &'static str {
        match self {
            Carrier::Datagrams => "UDP",
            Carrier::Tcp => "TCP",
            Carrier::Fabric => "a fabric",
        }
    }
}
