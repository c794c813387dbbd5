/*
 * Petasos: remote procedure calls whose messages are bytes in protobuf's encoding.
 *
 * Handles belong to whoever got them, and are freed with the function of their type; no handle is
 * used by one thread while another frees it. Functions may be called from any number of threads at
 * once unless a type says otherwise. What is passed in is copied if it is kept.
 *
 * Functions that can fail return a petasos_code. Above 0 it is one of gRPC's codes, and
 * petasos_last_error has more to say, for the thread that made the call. Results are written only
 * with PETASOS_OK. The same codes tell how calls ended.
 *
 * The library's threads block SIGPIPE: a connection that its peer has closed does not end the
 * program.
 *
 * Nothing here may be used in a child process after fork(2), until it executes another program.
 *
 * Link with -lpetasos.
 *
 * Generated from the crate petasos-capi: changes will be lost.
 */

#ifndef PETASOS_H
#define PETASOS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// The version of this interface. It grows with each change that programs can notice. A program
// that was built for a smaller version still works, with one exception: since version 2,
// unencrypted gRPC beyond this host must be allowed explicitly.
#define PETASOS_ABI_VERSION 4

// To any worker, by the policy of the group. Since version 3.
#define PETASOS_ROUTE_ANY 0

// To the worker that has joined as primary. Since version 3.
#define PETASOS_ROUTE_PRIMARY 1

// To the same worker as other calls with the same key, while its load allows. Since version 3.
#define PETASOS_ROUTE_KEY 2

// One request, one response.
#define PETASOS_UNARY 0

// Many requests, one response.
#define PETASOS_CLIENT_STREAMING 1

// One request, many responses.
#define PETASOS_SERVER_STREAMING 2

// Many requests and many responses.
#define PETASOS_BIDIRECTIONAL 3

// The place for a handler's answer. Valid until the handler returns. Since version 4.
typedef struct petasos_answer petasos_answer;

// A call: a caller's, from petasos_call_start, or a handler's, from petasos_server_accept.
//
// Any number of threads may use it, but only one at a time may send, and one at a time may
// receive. Functions that can wait have two forms. One blocks the thread for at most `timeout_us`
// microseconds (0 returns at once, a negative value waits without limit), and then returns
// PETASOS_TIMED_OUT. The other, with `poll` in its name, never blocks. It returns PETASOS_PENDING
// if there is nothing yet, and its waker is called once the program should call the function
// again, which may be in vain. A waker replaces the previous one.
typedef struct petasos_call petasos_call;

// A channel to one or several servers. Any number of threads may use it.
typedef struct petasos_channel petasos_channel;

// A service that can be called over a channel. Any number of threads may use it.
typedef struct petasos_client petasos_client;

// A server without threads for its handlers, for programs that have an event loop already. The
// program watches petasos_loop_descriptor and calls petasos_loop_turn when it is readable; calls
// are handled within that. Only the thread that made a loop may use it, and a thread can have one.
// Since version 4.
typedef struct petasos_loop petasos_loop;

// Keys with values, in order; a key may occur more than once. Only one thread at a time may use a
// handle.
typedef struct petasos_metadata petasos_metadata;

// The tags of called wakers, in order. This is for programs with their own event loop: wakers call
// petasos_queue_push with the queue as their context, and the loop watches the queue's descriptor
// and takes the tags. Any number of threads may use it.
typedef struct petasos_queue petasos_queue;

// A running server. Any number of threads may use it and accept its calls.
typedef struct petasos_server petasos_server;

// A service and its methods. Any number of threads may use it.
typedef struct petasos_service petasos_service;

// The details of a failure.
typedef struct petasos_status petasos_status;

// The result of a function: 0 for success, gRPC's status codes for failures, and negative numbers
// for other results.
typedef int32_t petasos_code;

// Bytes that the program owns and frees with petasos_bytes_free.
typedef struct {
    // The first byte; null if there are none.
    uint8_t *data;
    // The number of bytes.
    size_t length;
} petasos_bytes;

// Called once when the waiter should poll again. It may be called on any thread, including the one
// that polls. It must return soon, and must not call any function of this library except
// petasos_queue_push.
typedef void (*petasos_wake)(void *context, uint64_t tag);

// The callback for a waiter.
typedef struct {
    // The function to call.
    petasos_wake wake;
    // Passed to the function. Must be valid until the function was called, or the handle that the
    // program waits for is freed.
    void *context;
    // Passed to the function.
    uint64_t tag;
} petasos_waker;

// PEM files, which are read again when they change. With them, connections use TLS 1.3, and
// packets are sealed. Zeros in all fields but `struct_bytes` are the defaults.
//
// Petasos' own protocol needs a certificate, a key and authorities at both ends. Over gRPC a
// channel needs authorities, and a certificate with its key if the server asks for one. A gRPC
// server needs a certificate and a key, and asks for clients' certificates if it has authorities.
typedef struct {
    // `sizeof(petasos_tls_options)`: later versions may have more fields.
    size_t struct_bytes;
    // The file with the certificate authorities for peers, or null.
    const char *authorities_file;
    // The file of this end's certificate, or null.
    const char *certificate_file;
    // The file of the certificate's private key, or null.
    const char *key_file;
    // A name that a peer's certificate must contain: a host name, or a URI with Petasos' own
    // protocol. Null allows any client with a certificate from the authorities, and requires the
    // called host for servers.
    const char *peer_name;
} petasos_tls_options;

// The options of a channel. Zeros in all fields but `struct_bytes` are the defaults.
typedef struct {
    // `sizeof(petasos_channel_options)`: later versions may have more fields.
    size_t struct_bytes;
    // Timeout of each call; a shorter timeout of the call itself takes precedence; 0 sets no
    // limit.
    uint64_t timeout_us;
    // Timeout for connecting; 0 means 20 s.
    uint64_t connect_timeout_us;
    // While no server is reachable, calls wait instead of failing with PETASOS_UNAVAILABLE.
    bool wait_for_ready;
    // gRPC's service config as JSON, or null.
    const char *service_config;
    // For `grpcs://`, and for `petasos://` and `router://` beyond loopback or with servers and
    // routers that require it; or null. Since version 2.
    const petasos_tls_options *tls;
    // Allows unencrypted `petasos://`, `router://` and `grpc://` beyond this host, where everybody
    // in the network can listen and call. Since version 2.
    bool plaintext;
} petasos_channel_options;

// Borrowed bytes. They are valid as long as the function that returns them documents.
typedef struct {
    // The first byte; must not be read if there are none.
    const uint8_t *data;
    // The number of bytes.
    size_t length;
} petasos_slice;

// A call that a handler of a petasos_loop answers. Valid until the handler returns. Since version
// 4.
typedef struct {
    // The called service.
    petasos_slice service;
    // The called method, without its service.
    petasos_slice method;
    // The request's message.
    petasos_slice message;
    // The remaining timeout, in microseconds; 0 for no limit.
    uint64_t timeout_us;
} petasos_request;

// A handler of a petasos_loop. It runs within petasos_loop_turn, on that thread, and gives its
// answer with petasos_answer_message or petasos_answer_failure before it returns. It must not call
// functions of its loop.
typedef void (*petasos_handle)(void *context, const petasos_request *call, petasos_answer *answer);

// What handles the calls of a petasos_loop. Since version 4.
typedef struct {
    // The function to call.
    petasos_handle handle;
    // Passed to the function. Must be valid until the loop is freed.
    void *context;
} petasos_handler;

// How a server joins a group of workers: the group's routers give it calls. Zeros in all fields
// but `struct_bytes` are the defaults; the target is required. Since version 3.
typedef struct {
    // `sizeof(petasos_join_options)`: later versions may have more fields.
    size_t struct_bytes;
    // The group's routers: `router://HOST:PORT[,HOST:PORT…]`, at most 8, or the list of these in
    // etcd, `router+etcd://HOST:PORT[,HOST:PORT…]/PREFIX`, as of petasos_channel_open.
    const char *target;
    // How many requests each loop takes at a time from each router, at most 4095; 0 means 16. The
    // router's policy may give fewer.
    uint16_t bound;
    // The part of the requests that each loop gets, in percent of what a worker of full weight
    // gets, at most 100; 0 means 100.
    uint16_t weight;
    // Joins as primary, for calls that are routed to that one.
    bool is_primary;
} petasos_join_options;

// The options of a loop. Zeros in all fields but `struct_bytes` are the defaults; an address is
// required. Since version 4.
typedef struct {
    // `sizeof(petasos_loop_options)`: later versions may have more fields.
    size_t struct_bytes;
    // The address for Petasos as `HOST:PORT`, where port 0 means any port.
    const char *listen;
    // For the address, or null.
    const petasos_tls_options *tls;
    // Allows the port to be unencrypted beyond loopback, where everybody in the network can listen
    // and call.
    bool plaintext;
    // The groups of workers that the loop joins.
    const petasos_join_options *const *joins;
    // The number of groups.
    size_t join_count;
} petasos_loop_options;

// The options of a server. Zeros in all fields but `struct_bytes` are the defaults; at least one
// address is required.
typedef struct {
    // `sizeof(petasos_server_options)`: later versions may have more fields.
    size_t struct_bytes;
    // The address for Petasos as `HOST:PORT`, where port 0 means any port, or null.
    const char *listen;
    // The address for gRPC in the same form, or null.
    const char *grpc_listen;
    // The number of loops, each on its own thread; 0 means one.
    size_t loops;
    // The most calls that may wait to be accepted; further ones fail with
    // PETASOS_RESOURCE_EXHAUSTED. 0 means 4096.
    size_t calls_max;
    // For both addresses, or null. Since version 2.
    const petasos_tls_options *tls;
    // Allows both ports to be unencrypted beyond loopback, where everybody in the network can
    // listen and call. Since version 2.
    bool plaintext;
    // The groups of workers that the server joins; it must have an address for Petasos, at which
    // the groups' routers dial it. Since version 3.
    const petasos_join_options *const *joins;
    // The number of groups. Since version 3.
    size_t join_count;
} petasos_server_options;

// A method of a service that is described by names.
typedef struct {
    // The name without the service's, with a zero at its end.
    const char *name;
    // The kind: PETASOS_UNARY, …
    uint32_t kind;
} petasos_method;

// How a call to a group of workers is routed. Zeros in all fields but `struct_bytes` are the
// defaults: it runs at most once, on any worker. Since version 3.
typedef struct {
    // `sizeof(petasos_routing)`: later versions may have more fields.
    size_t struct_bytes;
    // PETASOS_ROUTE_ANY, …
    uint32_t policy;
    // What waits in the router goes in this order, the greatest first: 0 to 15.
    uint8_t priority;
    // The call may run more than once, whatever the schema of its method says. It then goes to a
    // worker at once, and is sent again if its worker fails.
    bool is_idempotent;
    // The key, for PETASOS_ROUTE_KEY only.
    const uint8_t *key;
    // The number of the key's bytes.
    size_t key_length;
} petasos_routing;

// Success.
#define PETASOS_OK 0

// The caller cancelled the call.
#define PETASOS_CANCELLED 1

// An error without a more specific code.
#define PETASOS_UNKNOWN 2

// An argument or a request is invalid, whatever the server's state.
#define PETASOS_INVALID_ARGUMENT 3

// The deadline passed, perhaps after the call had its effect.
#define PETASOS_DEADLINE_EXCEEDED 4

// The requested entity does not exist.
#define PETASOS_NOT_FOUND 5

// The entity to be created exists already.
#define PETASOS_ALREADY_EXISTS 6

// The caller has no permission.
#define PETASOS_PERMISSION_DENIED 7

// A quota, memory or a limit is exhausted.
#define PETASOS_RESOURCE_EXHAUSTED 8

// The current state does not allow this.
#define PETASOS_FAILED_PRECONDITION 9

// A conflict with another change.
#define PETASOS_ABORTED 10

// A value outside of the valid range.
#define PETASOS_OUT_OF_RANGE 11

// The server has no such method.
#define PETASOS_UNIMPLEMENTED 12

// An invariant is broken.
#define PETASOS_INTERNAL 13

// The server is unreachable now. A retry may succeed.
#define PETASOS_UNAVAILABLE 14

// Data are permanently lost or damaged.
#define PETASOS_DATA_LOSS 15

// The caller is not authenticated.
#define PETASOS_UNAUTHENTICATED 16

// Not ready yet: the waker will be called.
#define PETASOS_PENDING -1

// There are no more items; not an error.
#define PETASOS_END -2

// The timeout passed. Nothing else has changed, and the program may wait again.
#define PETASOS_TIMED_OUT -3

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// The version of the library's interface: PETASOS_ABI_VERSION or greater.
uint32_t petasos_abi_version(void);

// Answers a call with a message, which is copied. A later answer replaces an earlier one.
// PETASOS_INVALID_ARGUMENT if the bytes are no message. Since version 4.
//
// # Safety
// The answer is valid, and `length` bytes are at `message`.
petasos_code petasos_answer_message(petasos_answer *answer, const uint8_t *message, size_t length);

// Answers a call with one of gRPC's codes but PETASOS_OK, and a message for people, which is
// copied. A later answer replaces an earlier one. Since version 4.
//
// # Safety
// The answer is valid, and `length` bytes are at `message`.
petasos_code petasos_answer_failure(petasos_answer *answer,
                                    petasos_code code,
                                    const uint8_t *message,
                                    size_t length);

// Frees bytes, and leaves an empty value. Does nothing if the pointer is null or there are no
// bytes.
//
// # Safety
// The pointer is null, or the bytes came from this library and are not in use.
void petasos_bytes_free(petasos_bytes *bytes);

// Starts to send a message, which is copied. PETASOS_FAILED_PRECONDITION if the previous message
// is not sent yet, or if the method allows no message. A handler of a method with one response
// also sends it with this function.
//
// # Safety
// The call is valid, and `length` bytes are at `message`.
petasos_code petasos_call_begin_send(const petasos_call *call,
                                     const uint8_t *message,
                                     size_t length);

// Waits until the next message can be sent: a sender is never far ahead of the receiver. Other
// codes mean that the call is over.
//
// # Safety
// The call is valid.
petasos_code petasos_call_wait_sent(const petasos_call *call, int64_t timeout_us);

// Like petasos_call_wait_sent, without blocking.
//
// # Safety
// The call is valid, and the waker meets its requirements.
petasos_code petasos_call_poll_sent(const petasos_call *call, petasos_waker waker);

// Sends a message, and waits until the next one can be sent. After PETASOS_TIMED_OUT the message
// is still being sent; use petasos_call_wait_sent to continue waiting.
//
// # Safety
// The call is valid, and `length` bytes are at `message`.
petasos_code petasos_call_send(const petasos_call *call,
                               const uint8_t *message,
                               size_t length,
                               int64_t timeout_us);

// For callers: closes the sending direction. A message that is being sent is the last one.
//
// # Safety
// The call is valid.
petasos_code petasos_call_close_send(const petasos_call *call);

// Receives the next message; free it with petasos_bytes_free. Returns PETASOS_END after the last
// one, which tells a caller that the call succeeded. Other codes are the status of the call.
//
// # Safety
// The call is valid, and `message` is writable; its previous content is not freed.
petasos_code petasos_call_receive(const petasos_call *call,
                                  int64_t timeout_us,
                                  petasos_bytes *message);

// Like petasos_call_receive, without blocking.
//
// # Safety
// As for petasos_call_receive, and the waker meets its requirements.
petasos_code petasos_call_poll_receive(const petasos_call *call,
                                       petasos_waker waker,
                                       petasos_bytes *message);

// Waits for the initial metadata: for a caller, those of the server; for a handler, those of the
// caller, which are available at once. Free them with petasos_metadata_free. Do not call this at
// the same time as petasos_call_receive.
//
// # Safety
// The call is valid, and `metadata` is writable.
petasos_code petasos_call_metadata(const petasos_call *call,
                                   int64_t timeout_us,
                                   petasos_metadata **metadata);

// Like petasos_call_metadata, without blocking.
//
// # Safety
// As for petasos_call_metadata, and the waker meets its requirements.
petasos_code petasos_call_poll_metadata(const petasos_call *call,
                                        petasos_waker waker,
                                        petasos_metadata **metadata);

// For callers: the trailing metadata of a successful call, once PETASOS_END was received. For a
// failed call, petasos_last_error has them. Free them with petasos_metadata_free.
//
// # Safety
// The call is valid, and `metadata` is writable.
petasos_code petasos_call_trailers(const petasos_call *call, petasos_metadata **metadata);

// Cancels a call: functions that wait for it return PETASOS_CANCELLED. If a handler cancels, its
// caller gets this status, too.
//
// # Safety
// The call is valid.
petasos_code petasos_call_cancel(const petasos_call *call);

// Frees a call, and cancels it if it is not over. Does nothing if it is null. None of its wakers
// is called afterwards.
//
// # Safety
// It is null, or belongs to the program and is not in use.
void petasos_call_free(petasos_call *call);

// Makes a channel to `petasos://HOST:PORT[,HOST:PORT…]`, `grpc://HOST:PORT[,…]` or `grpcs://…`, or
// to a group of workers by its routers, `router://HOST:PORT[,HOST:PORT…]`. It connects when the
// first call needs it. Free it with petasos_channel_free. `options` may be null.
//
// Servers may be listed in etcd, `etcd://HOST:PORT[,HOST:PORT…]/PREFIX`, and routers of a group,
// `router+etcd://…`; `etcds://…` and `router+etcds://…` reach etcd over TLS. The variables
// `ETCDCTL_CACERT`, `ETCDCTL_CERT`, `ETCDCTL_KEY`, `ETCDCTL_USER` and `ETCDCTL_PASSWORD` of the
// environment say how, as for etcdctl.
//
// # Safety
// Texts end with zeros; `options` is null or valid; `channel` is writable.
petasos_code petasos_channel_open(const char *target,
                                  const petasos_channel_options *options,
                                  petasos_channel **channel);

// Like petasos_channel_open, but waits until a server is connected. PETASOS_UNAVAILABLE if the
// timeout passes before.
//
// # Safety
// As for petasos_channel_open.
petasos_code petasos_channel_connect(const char *target,
                                     const petasos_channel_options *options,
                                     petasos_channel **channel);

// Frees a channel's handle; does nothing if it is null. Its clients remain usable.
//
// # Safety
// It is null, or belongs to the program and is not in use.
void petasos_channel_free(petasos_channel *channel);

// Makes a client of a service over a channel; free it with petasos_client_free. The handles of the
// channel and the service may be freed before.
//
// # Safety
// The handles are valid, and `client` is writable.
petasos_code petasos_client_new(const petasos_channel *channel,
                                const petasos_service *service,
                                petasos_client **client);

// Frees a client; does nothing if it is null. Its calls continue.
//
// # Safety
// It is null, or belongs to the program and is not in use.
void petasos_client_free(petasos_client *client);

// Makes a loop that serves some services, whose methods are all unary, and joins its groups. A
// message that arrives makes its descriptor readable. Free it with petasos_loop_free; the services
// may be freed at once. PETASOS_FAILED_PRECONDITION if the thread has a loop already. Since
// version 4.
//
// # Safety
// `count` valid services are at `services`, the handler and the options are valid, and
// `event_loop` is writable.
petasos_code petasos_loop_new(const petasos_service *const *services,
                              size_t count,
                              const petasos_handler *handler,
                              const petasos_loop_options *options,
                              petasos_loop **event_loop);

// A file descriptor that is readable when petasos_loop_turn has something to do, for its timers as
// well. It belongs to the loop, and may only be used with poll(2) and similar functions. -1 if the
// loop is null. Since version 4.
//
// # Safety
// The loop is null or valid.
int32_t petasos_loop_descriptor(const petasos_loop *event_loop);

// Turns the loop without waiting, until there is nothing to do, but at most `turns_max` times (0
// means 64): receives calls, has them handled, sends the answers. If there is more to do, the
// descriptor stays readable. PETASOS_FAILED_PRECONDITION on another thread, and in a handler.
// Since version 4.
//
// # Safety
// The loop is valid.
petasos_code petasos_loop_turn(const petasos_loop *event_loop, uint32_t turns_max);

// The port for Petasos, or 0. Since version 4.
//
// # Safety
// The loop is null or valid.
uint16_t petasos_loop_port(const petasos_loop *event_loop);

// Whether a loop is a member at one of the routers of its groups, as petasos_server_joined says.
// Since version 4.
//
// # Safety
// The loop is valid.
petasos_code petasos_loop_joined(const petasos_loop *event_loop, size_t router_index);

// Frees a loop; it leaves its groups. Does nothing if it is null. On another thread than the
// loop's, and in a handler, it is not freed: the program's fault. Since version 4.
//
// # Safety
// It is null, or came from petasos_loop_new and was not freed.
void petasos_loop_free(petasos_loop *event_loop);

// The last failure on this thread, which is that of the last function that returned a code above
// 0; null if there was none. Valid until the next failure on this thread.
const petasos_status *petasos_last_error(void);

// The message for people; UTF-8 without a zero at its end. Empty if the status is null.
//
// # Safety
// The status is null or valid.
petasos_slice petasos_status_message(const petasos_status *status);

// The details for programs: a serialized `google.rpc.Status`, or empty.
//
// # Safety
// The status is null or valid.
petasos_slice petasos_status_details(const petasos_status *status);

// The trailing metadata, which belong to the status; null if the status is null.
//
// # Safety
// The status is null or valid.
const petasos_metadata *petasos_status_metadata(const petasos_status *status);

// For handlers: the called service. Always valid; empty for a caller's call.
//
// # Safety
// The call is valid.
petasos_slice petasos_call_service(const petasos_call *call);

// For handlers: the called method, without its service. Always valid.
//
// # Safety
// The call is valid.
petasos_slice petasos_call_method(const petasos_call *call);

// For handlers: the remaining timeout when the call arrived, in microseconds; 0 for no limit.
//
// # Safety
// The call is valid.
uint64_t petasos_call_timeout_us(const petasos_call *call);

// For handlers: sends the initial metadata now; otherwise they are sent with the first message. At
// most once, before messages.
//
// # Safety
// The call is valid, and so are the metadata.
petasos_code petasos_call_send_metadata(const petasos_call *call, const petasos_metadata *metadata);

// For handlers: ends the call with PETASOS_OK or another of gRPC's codes. For other codes,
// `message` is a message for people with `message_length` bytes, and `details` a serialized
// `google.rpc.Status`; both may be empty. The trailing metadata may be null. PETASOS_CANCELLED if
// nobody waits for the call any more. The call must still be freed.
//
// # Safety
// The call is valid, as many bytes as given are at `message` and `details`, and the metadata are
// null or valid.
petasos_code petasos_call_finish(const petasos_call *call,
                                 petasos_code code,
                                 const uint8_t *message,
                                 size_t message_length,
                                 const uint8_t *details,
                                 size_t details_length,
                                 const petasos_metadata *trailers);

// For handlers: whether nobody waits for the call any more, or it has ended.
//
// # Safety
// The call is valid.
bool petasos_call_is_cancelled(const petasos_call *call);

// For handlers: waits until petasos_call_is_cancelled returns true, and then returns PETASOS_OK.
//
// # Safety
// The call is valid, and the waker meets its requirements.
petasos_code petasos_call_poll_cancelled(const petasos_call *call, petasos_waker waker);

// Makes metadata without entries; free them with petasos_metadata_free.
petasos_metadata *petasos_metadata_new(void);

// Adds an entry. Keys are `[0-9a-z_.-]+`, and do not begin with `grpc-`. If a key ends in `-bin`,
// the value may be any bytes; otherwise it must be printable ASCII. PETASOS_INVALID_ARGUMENT if
// this is violated; then nothing is added.
//
// # Safety
// The metadata are valid and not in use elsewhere; `key` ends with a zero; `length` bytes are at
// `value`.
petasos_code petasos_metadata_append(petasos_metadata *metadata,
                                     const char *key,
                                     const uint8_t *value,
                                     size_t length);

// The number of entries.
//
// # Safety
// The metadata are null or valid.
size_t petasos_metadata_count(const petasos_metadata *metadata);

// Returns the entry at an index, from 0: its key and its value, without zeros at their ends. They
// are valid until the metadata are changed or freed. The result is false if there is no such
// entry.
//
// # Safety
// The metadata are null or valid; `key` and `value` are writable.
bool petasos_metadata_get(const petasos_metadata *metadata,
                          size_t index,
                          petasos_slice *key,
                          petasos_slice *value);

// Frees metadata from petasos_metadata_new or a call; does nothing if they are null.
//
// # Safety
// They are null, or belong to the program and are not in use.
void petasos_metadata_free(petasos_metadata *metadata);

// Makes a queue; free it with petasos_queue_free.
//
// # Safety
// `queue` is writable.
petasos_code petasos_queue_new(petasos_queue **queue);

// A petasos_wake: adds a tag to the queue that is the context.
//
// # Safety
// `queue` is a valid petasos_queue.
void petasos_queue_push(void *queue, uint64_t tag);

// A file descriptor that is readable while the queue has tags. It belongs to the queue, and may
// only be used with poll(2) and similar functions. -1 if the queue is null.
//
// # Safety
// The queue is null or valid.
int32_t petasos_queue_descriptor(const petasos_queue *queue);

// Takes up to `max` tags. Waits up to `timeout_us` microseconds for the first one; 0 returns at
// once, a negative value waits without limit. Returns the number of tags.
//
// # Safety
// The queue is valid, and `max` tags can be written to `tags`.
size_t petasos_queue_take(const petasos_queue *queue,
                          uint64_t *tags,
                          size_t max,
                          int64_t timeout_us);

// Frees a queue; does nothing if it is null.
//
// # Safety
// It is null, or came from petasos_queue_new, and no waker with it can be called any more.
void petasos_queue_free(petasos_queue *queue);

// Starts a server with some services. When this returns, it receives calls, which wait for
// petasos_server_accept. Free it with petasos_server_free; the services may be freed at once.
//
// # Safety
// `count` valid services are at `services`, the options are valid, and `server` is writable.
petasos_code petasos_server_start(const petasos_service *const *services,
                                  size_t count,
                                  const petasos_server_options *options,
                                  petasos_server **server);

// The port for Petasos, or 0.
//
// # Safety
// The server is null or valid.
uint16_t petasos_server_port(const petasos_server *server);

// The port for gRPC, or 0.
//
// # Safety
// The server is null or valid.
uint16_t petasos_server_grpc_port(const petasos_server *server);

// Whether a server is a member at one of the routers of its groups, counted from 0 in the order of
// their addresses. PETASOS_OK if all its loops are, PETASOS_PENDING if a router has not answered
// yet, PETASOS_END if there is no such router. PETASOS_UNAVAILABLE if a router cannot be reached
// or has refused; petasos_last_error has the reason. The server keeps asking. Since version 3.
//
// # Safety
// The server is valid.
petasos_code petasos_server_joined(const petasos_server *server, size_t router_index);

// Accepts the next call. Waits for at most `timeout_us` microseconds (0 returns at once, a
// negative value waits without limit). Answer the call with petasos_call_finish, and free it with
// petasos_call_free. PETASOS_TIMED_OUT if there is no call, PETASOS_END once the server has ended.
//
// # Safety
// The server is valid, and `call` is writable.
petasos_code petasos_server_accept(const petasos_server *server,
                                   int64_t timeout_us,
                                   petasos_call **call);

// Like petasos_server_accept, without blocking: returns PETASOS_PENDING if there is no call. The
// waker is called once there may be one.
//
// # Safety
// The server is valid, `call` is writable, and the waker meets its requirements.
petasos_code petasos_server_poll_accept(const petasos_server *server,
                                        petasos_waker waker,
                                        petasos_call **call);

// Shuts the server down and waits for that: it receives no more calls, lets running calls continue
// for `grace_us` microseconds, and ends the rest with PETASOS_UNAVAILABLE. Meanwhile other threads
// can accept and answer calls.
//
// # Safety
// The server is valid.
petasos_code petasos_server_drain(const petasos_server *server, uint64_t grace_us);

// Frees a server, and ends it at once unless it was drained. Does nothing if it is null. Accepted
// calls must still be freed. None of its wakers is called afterwards.
//
// # Safety
// It is null, or belongs to the program and is not in use.
void petasos_server_free(petasos_server *server);

// A service with a full name (`package.Service`) and the names of its methods. This is enough for
// calls. To serve callers with typed messages, and to go through the managed service of the host,
// a service needs descriptors. Free it with petasos_service_free. Its description is freed with
// the last service, channel, client and server that use it.
//
// # Safety
// Names end with zeros, `count` methods are at `methods`, and `service` is writable.
petasos_code petasos_service_named(const char *name,
                                   const petasos_method *methods,
                                   size_t count,
                                   petasos_service **service);

// A service from an encoded `google.protobuf.FileDescriptorSet`, with all its methods. Calls to
// servers with an incompatible schema fail, and servers with this service publish its schema. Free
// it with petasos_service_free.
//
// # Safety
// `length` bytes are at `descriptors`, the name ends with a zero, and `service` is writable.
petasos_code petasos_service_described(const uint8_t *descriptors,
                                       size_t length,
                                       const char *name,
                                       petasos_service **service);

// Frees a service's handle; does nothing if it is null. Clients and servers made with it remain
// usable.
//
// # Safety
// It is null, or belongs to the program and is not in use.
void petasos_service_free(petasos_service *service);

// Compiles .proto files to an encoded `google.protobuf.FileDescriptorSet` with all imports and
// comments. Files and imports are searched in the directories `includes`, and the first match
// wins. PETASOS_INVALID_ARGUMENT if there is an error in the files; the message has its position.
//
// # Safety
// `file_count` texts that end with zeros are at `files`, `includes` meets the same requirements,
// and `descriptors` is writable.
petasos_code petasos_compile(const char *const *files,
                             size_t file_count,
                             const char *const *includes,
                             size_t include_count,
                             petasos_bytes *descriptors);

// Starts a call of a method, whose name is given without its service. The call has started when
// this returns.
//
// `request` is the only request for methods that take one. For others it must be empty, and
// requests follow with petasos_call_send. `timeout_us` is the timeout of the call; 0 means the
// channel's default. `metadata` is sent with the request, and may be null. Free the call with
// petasos_call_free.
//
// # Safety
// The client is valid, the name ends with a zero, `length` bytes are at `request`, the metadata
// are null or valid, and `call` is writable.
petasos_code petasos_call_start(const petasos_client *client,
                                const char *method,
                                const uint8_t *request,
                                size_t length,
                                uint64_t timeout_us,
                                const petasos_metadata *metadata,
                                petasos_call **call);

// Like petasos_call_start, and says how a call to a group of workers (`router://…`) is routed.
// `routing` may be null, and has no effect on other calls: not on streams, whose worker the router
// names, nor on calls to other targets. Since version 3.
//
// # Safety
// As for petasos_call_start; `routing` is null or valid, with its key.
petasos_code petasos_call_start_routed(const petasos_client *client,
                                       const char *method,
                                       const uint8_t *request,
                                       size_t length,
                                       uint64_t timeout_us,
                                       const petasos_metadata *metadata,
                                       const petasos_routing *routing,
                                       petasos_call **call);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* PETASOS_H */
