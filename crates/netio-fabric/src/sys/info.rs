//! What providers offer: libfabric's `fi_info`.

use core::ffi::{CStr, c_char};
use core::ptr::{NonNull, null};
use std::ffi::CString;
use std::io;
use std::net::SocketAddr;

use super::ffi;
use super::object::{check, error_of};
use crate::{FabricConfig, FabricError, ProviderProbe};

/// A list of offers, or hints for one. The accessors are about its first element.
pub(super) struct Info {
    list: NonNull<ffi::fi_info>,
}

impl Info {
    /// Like [`Info::hints`], and requires that the provider reports where packets come from.
    pub(super) fn hints_with_sources(config: &FabricConfig) -> Result<Info, FabricError> {
        let hints = Info::hints(config)?;
        // SAFETY: nobody else knows the hints.
        unsafe { (*hints.list.as_ptr()).caps |= ffi::FI_SOURCE };
        Ok(hints)
    }

    /// What we require of a provider, and what it may require of us.
    pub(super) fn hints(config: &FabricConfig) -> Result<Info, FabricError> {
        // SAFETY: it allocates an `fi_info` with all its parts, owned by the caller.
        let list = NonNull::new(unsafe { ffi::pf_allocinfo() });
        let hints = Info { list: list.ok_or_else(|| no_memory("ask for providers"))? };
        // SAFETY: the parts were just allocated along with it, and nobody else knows them.
        unsafe {
            let info = &mut *hints.list.as_ptr();
            info.caps = ffi::FI_MSG.into();
            info.mode = ffi::FI_CONTEXT | ffi::FI_CONTEXT2 | ffi::FI_MSG_PREFIX;
            (*info.ep_attr).type_ = ffi::FI_EP_DGRAM;
            (*info.domain_attr).mr_mode = (ffi::FI_MR_LOCAL
                | ffi::FI_MR_VIRT_ADDR
                | ffi::FI_MR_ALLOCATED
                | ffi::FI_MR_PROV_KEY) as i32;
            (*info.domain_attr).threading = ffi::FI_THREAD_DOMAIN;
            // libfabric frees this along with the hints; hence the copy on C's heap.
            (*info.fabric_attr).prov_name = copy(config.provider.as_deref())?;
            (*info.domain_attr).name = copy(config.domain.as_deref())?;
        }
        Ok(hints)
    }

    /// The offers at `node`, which is our own address or a peer's.
    pub(super) fn ask(node: Option<SocketAddr>, own: bool, hints: &Info) -> io::Result<Info> {
        let text = |text: String| CString::new(text).expect("addresses have no zero bytes");
        let node = node.map(|node| (text(node.ip().to_string()), text(node.port().to_string())));
        let (node, service) =
            node.as_ref().map_or((null(), null()), |node| (node.0.as_ptr(), node.1.as_ptr()));
        let mut flags = if node.is_null() { 0 } else { ffi::FI_NUMERICHOST };
        if own && !node.is_null() {
            flags |= ffi::FI_SOURCE;
        }
        let mut list = core::ptr::null_mut();
        // SAFETY: the texts and hints live during the call, which allocates a list for us.
        let code = unsafe {
            let version = ffi::pf_api_version();
            ffi::fi_getinfo(version, node, service, flags, hints.list.as_ptr(), &mut list)
        };
        check(code.into())?;
        let list = NonNull::new(list).ok_or_else(|| error_of(-i64::from(ffi::FI_ENODATA)))?;
        Ok(Info { list })
    }

    /// The first offer for the domain, or for any.
    pub(super) fn of_domain(self, domain: Option<&str>) -> Option<Info> {
        let Some(domain) = domain else { return Some(self) };
        let offer = self.offers().find(|offer| offer.domain() == domain)?;
        // SAFETY: it copies one element of a live list, for us to free.
        let copy = unsafe { ffi::fi_dupinfo(offer.0) };
        NonNull::new(copy).map(|list| Info { list })
    }

    /// Hints that ask for addresses suitable for this offer.
    pub(super) fn same_provider(&self) -> Result<FabricConfig, FabricError> {
        let offer = self.first();
        Ok(FabricConfig {
            provider: Some(offer.provider().to_owned()),
            domain: Some(offer.domain().to_owned()),
            ..FabricConfig::default()
        })
    }

    pub(super) fn first(&self) -> Offer<'_> {
        // SAFETY: the list lives as long as this, and changes only through `pointer`.
        Offer(unsafe { self.list.as_ref() })
    }

    /// The list, for calls of libfabric.
    pub(super) fn pointer(&self) -> *mut ffi::fi_info {
        self.list.as_ptr()
    }

    fn offers(&self) -> impl Iterator<Item = Offer<'_>> {
        // SAFETY: `next` is null or the next of the list, which lives as long as this.
        std::iter::successors(Some(self.first()), |offer| unsafe {
            offer.0.next.as_ref().map(Offer)
        })
    }
}

impl Drop for Info {
    fn drop(&mut self) {
        // SAFETY: the list was allocated by libfabric for us alone.
        unsafe { ffi::fi_freeinfo(self.list.as_ptr()) };
    }
}

/// One element of a list from `fi_getinfo`, which fills in every part.
#[derive(Clone, Copy)]
pub(super) struct Offer<'a>(&'a ffi::fi_info);

impl<'a> Offer<'a> {
    pub(super) fn provider(self) -> &'a str {
        text(self.fabric().prov_name)
    }

    pub(super) fn domain(self) -> &'a str {
        text(self.domain_attr().name)
    }

    /// The longest payload, without a prefix (`fi_getinfo(3)`).
    pub(super) fn message_bytes_max(self) -> usize {
        self.endpoint().max_msg_size
    }

    pub(super) fn prefix_bytes(self) -> usize {
        let wanted = self.0.mode & ffi::FI_MSG_PREFIX != 0;
        if wanted { self.endpoint().msg_prefix_size } else { 0 }
    }

    pub(super) fn registered(self) -> bool {
        self.domain_attr().mr_mode as u32 & ffi::FI_MR_LOCAL != 0
    }

    pub(super) fn inject_bytes_max(self) -> usize {
        self.tx().inject_size
    }

    pub(super) fn tx_size(self) -> usize {
        self.tx().size
    }

    pub(super) fn rx_size(self) -> usize {
        // SAFETY: `fi_getinfo` fills in every part, which lives as long as the list.
        unsafe { (*self.0.rx_attr).size }
    }

    /// Whether packets complete in the order in which they were handed over.
    pub(super) fn ordered(self) -> bool {
        let strict = u64::from(ffi::FI_ORDER_STRICT);
        self.tx().comp_order & strict == strict
    }

    /// Whether addresses are those of the Internet protocol.
    pub(super) fn ip_addresses(self) -> bool {
        matches!(self.0.addr_format, ffi::FI_SOCKADDR | ffi::FI_SOCKADDR_IN | ffi::FI_SOCKADDR_IN6)
    }

    /// Whether it reports where packets come from.
    pub(super) fn has_sources(self) -> bool {
        self.0.caps & ffi::FI_SOURCE == ffi::FI_SOURCE
    }

    /// Whether this is software over kernel sockets.
    pub(super) fn software(self) -> bool {
        let layers = ["udp", "tcp", "sockets", "net"];
        self.provider().split(';').any(|layer| layers.contains(&layer))
    }

    /// The peer's address in the provider's own format.
    pub(super) fn peer_address(self) -> Option<&'a [u8]> {
        let start = NonNull::new(self.0.dest_addr.cast::<u8>())?;
        // SAFETY: `fi_getinfo` says how long the address is; it lives as long as the list.
        Some(unsafe { core::slice::from_raw_parts(start.as_ptr(), self.0.dest_addrlen) })
    }

    /// The attributes of the fabric, for calls of libfabric.
    pub(super) fn fabric_attr(self) -> *mut ffi::fi_fabric_attr {
        self.0.fabric_attr
    }

    fn probe(self) -> ProviderProbe {
        ProviderProbe {
            provider: self.provider().to_owned(),
            domain: self.domain().to_owned(),
            fabric: text(self.fabric().name).to_owned(),
            datagram_bytes_max: self.message_bytes_max(),
            prefix_bytes: self.prefix_bytes(),
            inject_bytes_max: self.inject_bytes_max(),
            registered: self.registered(),
            software: self.software(),
        }
    }

    fn fabric(self) -> &'a ffi::fi_fabric_attr {
        // SAFETY: `fi_getinfo` fills in every part, which lives as long as the list.
        unsafe { &*self.0.fabric_attr }
    }

    fn domain_attr(self) -> &'a ffi::fi_domain_attr {
        // SAFETY: `fi_getinfo` fills in every part, which lives as long as the list.
        unsafe { &*self.0.domain_attr }
    }

    fn endpoint(self) -> &'a ffi::fi_ep_attr {
        // SAFETY: `fi_getinfo` fills in every part, which lives as long as the list.
        unsafe { &*self.0.ep_attr }
    }

    fn tx(self) -> &'a ffi::fi_tx_attr {
        // SAFETY: `fi_getinfo` fills in every part, which lives as long as the list.
        unsafe { &*self.0.tx_attr }
    }
}

/// The version of the library that the program runs with.
pub(crate) fn library_version() -> String {
    // SAFETY: it returns a number.
    let version = unsafe { ffi::fi_version() };
    format!("{}.{}", version >> 16, version & 0xffff)
}

/// All datagram endpoints that can be opened.
pub(crate) fn list() -> Result<Vec<ProviderProbe>, FabricError> {
    let hints = Info::hints(&FabricConfig::default())?;
    match Info::ask(None, true, &hints) {
        Ok(info) => Ok(info.offers().map(Offer::probe).collect()),
        Err(error) if is_no_data(&error) => Ok(Vec::new()),
        Err(error) => Err(FabricError::System { attempt: "list the providers", error }),
    }
}

/// Whether nothing fits the hints.
pub(super) fn is_no_data(error: &io::Error) -> bool {
    error.raw_os_error() == Some(ffi::FI_ENODATA as i32)
}

fn text<'a>(text: *const c_char) -> &'a str {
    if text.is_null() {
        return "";
    }
    // SAFETY: names in an `fi_info` end with a zero byte and live as long as it does; callers
    // return the name with the lifetime of their list.
    unsafe { CStr::from_ptr(text) }.to_str().unwrap_or("?")
}

/// A copy on C's heap; null for nothing.
fn copy(text: Option<&str>) -> Result<*mut c_char, FabricError> {
    let Some(text) = text else { return Ok(core::ptr::null_mut()) };
    let text = CString::new(text).map_err(|_| FabricError::Config("a name with a zero byte"))?;
    // SAFETY: the text ends with a zero byte.
    let copy = unsafe { ffi::pf_strdup(text.as_ptr()) };
    if copy.is_null() { Err(no_memory("copy a name")) } else { Ok(copy) }
}

fn no_memory(attempt: &'static str) -> FabricError {
    FabricError::System { attempt, error: io::ErrorKind::OutOfMemory.into() }
}
