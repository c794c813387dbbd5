//! The guidelines of the thesis: A. Kalia, "Efficient Remote Procedure Calls for Datacenters",
//! Carnegie Mellon University, CMU-CS-19-126, 2019, chapter 3.

/// A guideline, and its effect on the thesis's NICs.
#[derive(Debug, PartialEq, Eq)]
pub struct Guideline {
    /// Its name.
    pub name: &'static str,
    /// Its section.
    pub section: &'static str,
    /// A summary of its figure.
    pub figure: &'static str,
    /// A quotation about its figure.
    pub quote: &'static str,
}

/// One notification for several descriptors.
pub static DOORBELLS: Guideline = Guideline {
    name: "batched doorbells",
    section: "3.6.2.1",
    figure: "+27 %, 80 to 101.6 Mops",
    quote: "Batching improves peak SEND throughput by 27% from 80 million operations/s (Mops) to \
            101.6 Mops.",
};

/// No completion for each descriptor.
pub static UNSIGNALLED: Guideline = Guideline {
    name: "unsignalled",
    section: "3.6.3.2",
    figure: "+10 to 43 %",
    quote: "using unsignaled completions improves RPC performance by 10–43%, measured with \
            different combinations of RDMA primitives used to implement RPCs.",
};

/// The payload in the descriptor.
pub static INLINING: Guideline = Guideline {
    name: "inlining",
    section: "3.6.3.1",
    figure: "+35 %, -400 ns",
    quote: "the round-trip latency of an inlined WRITE is up to 400 ns lower than a non-inlined \
            WRITE (Figure 4.1). For HERD's choice of RDMA primitives to implement RPCs, inlining \
            improves RPC throughput by 35% for 32 B requests and responses (Figure 4.4).",
};

/// Several queues for a core.
pub static QUEUES: Guideline = Guideline {
    name: "several queues",
    section: "3.7.1",
    figure: "2 to 3.2x with 4",
    quote: "Batched throughput increases by ~2x on all clusters with two queues, and between \
            2–3.2x with four queues.",
};

/// Pages of 2 MiB.
pub static PAGES: Guideline = Guideline {
    name: "huge pages",
    section: "3.7.3",
    figure: "no figure given",
    quote: "Address translation cache misses can be reduced by using large (e.g., 2 MB) pages",
};

/// No state that outgrows a cache.
pub static CONNECTIONS: Guideline = Guideline {
    name: "connection state",
    section: "3.5.2",
    figure: "READs -40 %, RPCs 0 %",
    quote: "RDMA's performance drops by at least 40% with fewer than 4500 connections on each \
            cluster, whereas RPC performance remains constant. ... each connection requires ≈ 375 \
            B of in-NIC connection state, and the NICs have ≈ 2 MB of SRAM",
};

/// All guidelines.
pub static ALL: [&Guideline; 6] =
    [&DOORBELLS, &UNSIGNALLED, &INLINING, &QUEUES, &PAGES, &CONNECTIONS];
