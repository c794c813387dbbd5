//! etcd's services and messages, as Petasos' generator makes them of `proto/rpc.proto`: also for
//! clients.
#![allow(missing_docs, reason = "the .proto file has comments")]

petasos::include_proto!("etcdserverpb");
