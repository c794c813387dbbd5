//! The code of Petasos' generator.
#![allow(missing_docs, reason = "the .proto file has comments")]

petasos::include_proto!("etcdserverpb");
