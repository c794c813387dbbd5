//! Both halves together: behaviour at the level of packets, a file per packet kind and event.

mod ack;
mod backlog;
mod bound;
mod cancel;
mod congestion;
mod credits;
mod done;
mod forge;
mod go_back_n;
mod hostile;
mod link;
mod pair;
mod peers;
mod plan;
mod property;
mod pull;
mod reject;
mod reordering;
mod request;
mod reset;
mod response;
mod slots;
mod timeout;
mod wrap;
