//! The program, one frame at a time (`BPF_PROG_TEST_RUN`): what it gives, what it parks, what it
//! hears, and what it leaves as it is for the process.

mod differs;
mod earlier;
mod feedback;
mod first;
mod object;
mod parking;
mod rig;
mod together;
