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

// The version of this interface. It grows with each change that programs can notice; a program
// that was built for a smaller number goes on working, but for gRPC in the clear beyond this host,
// which takes consent since version 2.
#define PETASOS_ABI_VERSION 2

// One request, one response.
#define PETASOS_UNARY 0

// Many requests, one response.
#define PETASOS_CLIENT_STREAMING 1

// One request, many responses.
#define PETASOS_SERVER_STREAMING 2

// Many requests and many responses.
#define PETASOS_BIDIRECTIONAL 3

// A call: a caller's, from petasos_call_start, or one to be handled, from petasos_server_accept.
//
// Any number of threads may use it, but one at a time sends, and one at a time receives. What can
// wait comes in two forms. One blocks the thread, for at most `timeout_us` microseconds (0 only
// looks, less waits for ever), and returns PETASOS_TIMED_OUT after that. The other, with `poll` in
// its name, never blocks: it returns PETASOS_PENDING if there is nothing yet, and its waker is
// called once it is time to call it again, perhaps in vain; a waker replaces that of the last
// time.
typedef struct petasos_call petasos_call;

// A way to servers. Any number of threads may use it.
typedef struct petasos_channel petasos_channel;

// A service that is called over a channel. Any number of threads may use it.
typedef struct petasos_client petasos_client;

// Keys with values, in order; a key may occur more than once. A handle of them is used by one
// thread at a time.
typedef struct petasos_metadata petasos_metadata;

// Tags of wakers that were called, in order. For programs with an event loop of their own: wakers
// call petasos_queue_push with the queue as their context, the loop watches the queue's descriptor
// and takes the tags. Any number of threads may use it.
typedef struct petasos_queue petasos_queue;

// A server that runs. Any number of threads may use it and take calls of it.
typedef struct petasos_server petasos_server;

// A service and what is known of its methods. Any number of threads may use it.
typedef struct petasos_service petasos_service;

// What is known of a failure.
typedef struct petasos_status petasos_status;

// Bytes that belong to the program, which frees them with petasos_bytes_free.
typedef struct {
    // The first; null if there are none.
    uint8_t *data;
    // How many.
    size_t length;
} petasos_bytes;

// What a function came to: 0 if it worked, gRPC's codes if something failed, and less than 0 for
// what is neither.
typedef int32_t petasos_code;

// Called once when whoever waits is to look again, on any thread, also on the one that is looking.
// It must return soon, and call no function of this library but petasos_queue_push.
typedef void (*petasos_wake)(void *context, uint64_t tag);

// Whom to tell that it is time to look again.
typedef struct {
    // What is called.
    petasos_wake wake;
    // Passed to it. Must be valid until it was called, or until the handle that was waited for is
    // freed.
    void *context;
    // Passed to it.
    uint64_t tag;
} petasos_waker;

// Files in PEM, which are read again when they change. Connections are TLS 1.3 then, and packets
// are sealed. All zeros but `struct_bytes` are the defaults.
//
// Petasos' own protocol needs certificate, key and authorities at both ends. Over gRPC a channel
// needs authorities, and a certificate with its key if the server asks for one; a server needs
// certificate and key, and asks for clients' certificates if it has authorities.
typedef struct {
    // `sizeof(petasos_tls_options)`: later versions may have more fields.
    size_t struct_bytes;
    // The file of the authorities that vouch for peers, or null.
    const char *authorities_file;
    // The file of this end's certificate, or null.
    const char *certificate_file;
    // The file of the certificate's private key, or null.
    const char *key_file;
    // A name that peers must have in their certificates: a host's, or a URI over Petasos' own
    // protocol. Null for any client that the authorities vouch for, and for the host that a
    // channel calls.
    const char *peer_name;
} petasos_tls_options;

// How channels are made. All zeros but `struct_bytes` are the defaults.
typedef struct {
    // `sizeof(petasos_channel_options)`: later versions may have more fields.
    size_t struct_bytes;
    // Lets each call take no longer, unless it asks for less; 0 sets no limit.
    uint64_t timeout_us;
    // Lets connecting take no longer; 0 for 20 s.
    uint64_t connect_timeout_us;
    // Has calls wait while no server can be reached, in place of failing with
    // PETASOS_UNAVAILABLE.
    bool wait_for_ready;
    // gRPC's service config as JSON, or null.
    const char *service_config;
    // For `grpcs://`, and for `petasos://` beyond loopback or where servers ask for it; or null.
    // Since version 2.
    const petasos_tls_options *tls;
    // Lets `petasos://` and `grpc://` talk in the clear beyond this host, where whoever reaches
    // the network can listen and call. Since version 2.
    bool plaintext;
} petasos_channel_options;

// Bytes that belong to something else, and are valid as long as that says.
typedef struct {
    // The first; not to be read if there are none.
    const uint8_t *data;
    // How many.
    size_t length;
} petasos_slice;

// How servers are made. All zeros but `struct_bytes` are the defaults; at least one address is
// needed.
typedef struct {
    // `sizeof(petasos_server_options)`: later versions may have more fields.
    size_t struct_bytes;
    // Where Petasos listens, as `HOST:PORT` with port 0 for any, or null.
    const char *listen;
    // Where gRPC is answered, likewise.
    const char *grpc_listen;
    // Loops, each on a thread of its own; 0 for one.
    size_t loops;
    // Calls that may wait to be taken, more being PETASOS_RESOURCE_EXHAUSTED; 0 for 4096.
    size_t calls_max;
    // For both addresses, or null. Since version 2.
    const petasos_tls_options *tls;
    // Lets both ports listen in the clear beyond loopback, where whoever reaches the network can
    // listen and call. Since version 2.
    bool plaintext;
} petasos_server_options;

// A method of a service that is known by names.
typedef struct {
    // The name without the service's, with a zero at its end.
    const char *name;
    // Which sides are streams: PETASOS_UNARY, …
    uint32_t kind;
} petasos_method;

// It worked.
#define PETASOS_OK 0

// The caller gave the call up.
#define PETASOS_CANCELLED 1

// Something that no other code tells.
#define PETASOS_UNKNOWN 2

// An argument or a request is wrong, whatever the state of things.
#define PETASOS_INVALID_ARGUMENT 3

// The call's time ran out, perhaps after it had its effect.
#define PETASOS_DEADLINE_EXCEEDED 4

// What was asked for does not exist.
#define PETASOS_NOT_FOUND 5

// What was to be made exists already.
#define PETASOS_ALREADY_EXISTS 6

// The caller may not do this.
#define PETASOS_PERMISSION_DENIED 7

// A quota, memory or a limit is used up.
#define PETASOS_RESOURCE_EXHAUSTED 8

// The state of things does not allow it.
#define PETASOS_FAILED_PRECONDITION 9

// It clashed with another change.
#define PETASOS_ABORTED 10

// Beyond the valid range.
#define PETASOS_OUT_OF_RANGE 11

// The server has no such method.
#define PETASOS_UNIMPLEMENTED 12

// An invariant is broken.
#define PETASOS_INTERNAL 13

// The server cannot be reached now; a retry may work.
#define PETASOS_UNAVAILABLE 14

// Data are lost or damaged for good.
#define PETASOS_DATA_LOSS 15

// The caller is not known.
#define PETASOS_UNAUTHENTICATED 16

// Not yet: the waker will be called.
#define PETASOS_PENDING -1

// Nothing follows, and all is well.
#define PETASOS_END -2

// The time to wait is over; nothing else has changed, and one may wait again.
#define PETASOS_TIMED_OUT -3

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// The version of the interface that the library has: PETASOS_ABI_VERSION or more.
uint32_t petasos_abi_version(void);

// Frees bytes and leaves none. Nothing if the pointer is null or there are none.
//
// # Safety
// The pointer is null, or the bytes came from this library and nobody uses them.
void petasos_bytes_free(petasos_bytes *bytes);

// Calls a method, which is named without its service. The call is under way when this returns.
//
// `request` is the only request of methods that take one, and empty for others, whose requests
// follow with petasos_call_send. `timeout_us` is what the call may take, 0 for as long as the
// channel lets it; `metadata` go with the request, and may be null. The call is to be freed with
// petasos_call_free.
//
// # Safety
// The client is valid, the name ends with a zero, `length` bytes are at `request`, the metadata
// are null or valid, and `call` may be written to.
petasos_code petasos_call_start(const petasos_client *client,
                                const char *method,
                                const uint8_t *request,
                                size_t length,
                                uint64_t timeout_us,
                                const petasos_metadata *metadata,
                                petasos_call **call);

// Begins to send a message; it is copied. PETASOS_FAILED_PRECONDITION if the one before is still
// under way, or if there is nothing to send. A handler of a method with one response sends it so.
//
// # Safety
// The call is valid, and `length` bytes are at `message`.
petasos_code petasos_call_begin_send(const petasos_call *call,
                                     const uint8_t *message,
                                     size_t length);

// Waits until there is room for the next message: a sender is never far ahead of who reads. Other
// codes say that the call is over.
//
// # Safety
// The call is valid.
petasos_code petasos_call_wait_sent(const petasos_call *call, int64_t timeout_us);

// petasos_call_wait_sent without blocking.
//
// # Safety
// The call is valid, and the waker is as it says.
petasos_code petasos_call_poll_sent(const petasos_call *call, petasos_waker waker);

// Sends a message and waits until there is room for the next. After PETASOS_TIMED_OUT the message
// is still under way, and petasos_call_wait_sent goes on waiting.
//
// # Safety
// The call is valid, and `length` bytes are at `message`.
petasos_code petasos_call_send(const petasos_call *call,
                               const uint8_t *message,
                               size_t length,
                               int64_t timeout_us);

// A caller's: no more messages follow the one that may be under way.
//
// # Safety
// The call is valid.
petasos_code petasos_call_close_send(const petasos_call *call);

// Receives the next message, to be freed with petasos_bytes_free. PETASOS_END behind the last:
// to a caller it says that the call went well. Other codes are how the call ended.
//
// # Safety
// The call is valid, and `message` may be written to; what it held is not freed.
petasos_code petasos_call_receive(const petasos_call *call,
                                  int64_t timeout_us,
                                  petasos_bytes *message);

// petasos_call_receive without blocking.
//
// # Safety
// As of petasos_call_receive; the waker is as it says.
petasos_code petasos_call_poll_receive(const petasos_call *call,
                                       petasos_waker waker,
                                       petasos_bytes *message);

// Waits for the initial metadata: to a caller the server's, to a handler the caller's, which are
// there at once. To be freed with petasos_metadata_free. It waits in place of
// petasos_call_receive.
//
// # Safety
// The call is valid, and `metadata` may be written to.
petasos_code petasos_call_metadata(const petasos_call *call,
                                   int64_t timeout_us,
                                   petasos_metadata **metadata);

// petasos_call_metadata without blocking.
//
// # Safety
// As of petasos_call_metadata; the waker is as it says.
petasos_code petasos_call_poll_metadata(const petasos_call *call,
                                        petasos_waker waker,
                                        petasos_metadata **metadata);

// A caller's: the trailing metadata of a call that went well, once PETASOS_END was received; those
// of others are with petasos_last_error. To be freed with petasos_metadata_free.
//
// # Safety
// The call is valid, and `metadata` may be written to.
petasos_code petasos_call_trailers(const petasos_call *call, petasos_metadata **metadata);

// Gives a call up: who waits for it gets PETASOS_CANCELLED. A handler's caller gets that, too.
//
// # Safety
// The call is valid.
petasos_code petasos_call_cancel(const petasos_call *call);

// Frees a call, and gives it up if it is not over; nothing if it is null. No waker of it is called
// afterwards.
//
// # Safety
// It is null, or belongs to the program and is used by nobody.
void petasos_call_free(petasos_call *call);

// Makes a channel to `petasos://HOST:PORT[,HOST:PORT…]`, `grpc://HOST:PORT[,…]` or `grpcs://…`,
// which connects when the first call needs it; to be freed with petasos_channel_free. `options`
// may be null.
//
// # Safety
// Texts end with zeros; `options` is null or valid; `channel` may be written to.
petasos_code petasos_channel_open(const char *target,
                                  const petasos_channel_options *options,
                                  petasos_channel **channel);

// As petasos_channel_open, but waits until a server is connected. PETASOS_UNAVAILABLE if none is
// in time.
//
// # Safety
// As of petasos_channel_open.
petasos_code petasos_channel_connect(const char *target,
                                     const petasos_channel_options *options,
                                     petasos_channel **channel);

// Frees a channel's handle; nothing if it is null. Clients of it go on.
//
// # Safety
// It is null, or belongs to the program and is used by nobody.
void petasos_channel_free(petasos_channel *channel);

// A service, called over a channel; to be freed with petasos_client_free. The handles of channel
// and service may be freed before.
//
// # Safety
// The handles are valid, and `client` may be written to.
petasos_code petasos_client_new(const petasos_channel *channel,
                                const petasos_service *service,
                                petasos_client **client);

// Frees a client; nothing if it is null. Calls of it go on.
//
// # Safety
// It is null, or belongs to the program and is used by nobody.
void petasos_client_free(petasos_client *client);

// What is known of the last failure on this thread, that is, of the last function that returned a
// code above 0; null if there was none. Valid until the next failure on this thread.
const petasos_status *petasos_last_error(void);

// A text for people; UTF-8 without a zero at its end. Empty if the status is null.
//
// # Safety
// The status is null or valid.
petasos_slice petasos_status_message(const petasos_status *status);

// Details for programs: a serialized `google.rpc.Status`, or nothing.
//
// # Safety
// The status is null or valid.
petasos_slice petasos_status_details(const petasos_status *status);

// The trailing metadata that came with it, which belong to the status; null if that is null.
//
// # Safety
// The status is null or valid.
const petasos_metadata *petasos_status_metadata(const petasos_status *status);

// A handler's: which service is called. Valid for good; empty for a caller's.
//
// # Safety
// The call is valid.
petasos_slice petasos_call_service(const petasos_call *call);

// A handler's: which method is called, without its service. Valid for good.
//
// # Safety
// The call is valid.
petasos_slice petasos_call_method(const petasos_call *call);

// A handler's: what was left of the caller's time when the call arrived, in microseconds; 0 for no
// limit.
//
// # Safety
// The call is valid.
uint64_t petasos_call_timeout_us(const petasos_call *call);

// A handler's: sends the initial metadata, which go with the first message otherwise. At most
// once, before messages.
//
// # Safety
// The call is valid, and so are the metadata.
petasos_code petasos_call_send_metadata(const petasos_call *call, const petasos_metadata *metadata);

// A handler's: ends the call, with PETASOS_OK or another of gRPC's codes. For others, `message` is
// a text for people of `message_length` bytes, and `details` a serialized `google.rpc.Status`;
// both may be empty. The trailing metadata may be null. PETASOS_CANCELLED if nobody waits for it
// any more. The call is still to be freed.
//
// # Safety
// The call is valid, so many bytes are at `message` and `details`, and the metadata are null or
// valid.
petasos_code petasos_call_finish(const petasos_call *call,
                                 petasos_code code,
                                 const uint8_t *message,
                                 size_t message_length,
                                 const uint8_t *details,
                                 size_t details_length,
                                 const petasos_metadata *trailers);

// A handler's: whether nobody waits for its end any more, or it has ended.
//
// # Safety
// The call is valid.
bool petasos_call_is_cancelled(const petasos_call *call);

// A handler's: waits until petasos_call_is_cancelled, which PETASOS_OK says.
//
// # Safety
// The call is valid, and the waker is as it says.
petasos_code petasos_call_poll_cancelled(const petasos_call *call, petasos_waker waker);

// Metadata without entries, to be freed with petasos_metadata_free.
petasos_metadata *petasos_metadata_new(void);

// Adds an entry. Keys are `[0-9a-z_.-]+`, do not begin with `grpc-`, and end in `-bin` if the
// value may be any bytes; other values are printable ASCII. PETASOS_INVALID_ARGUMENT otherwise,
// and nothing is added.
//
// # Safety
// The metadata are valid and used by nobody else; `key` ends with a zero; `length` bytes are at
// `value`.
petasos_code petasos_metadata_append(petasos_metadata *metadata,
                                     const char *key,
                                     const uint8_t *value,
                                     size_t length);

// How many entries there are.
//
// # Safety
// The metadata are null or valid.
size_t petasos_metadata_count(const petasos_metadata *metadata);

// Gives the entry at an index, from 0: its key and its value, without zeros at their ends. They
// are valid until the metadata are changed or freed. Whether there is one.
//
// # Safety
// The metadata are null or valid; `key` and `value` may be written to.
bool petasos_metadata_get(const petasos_metadata *metadata,
                          size_t index,
                          petasos_slice *key,
                          petasos_slice *value);

// Frees metadata that petasos_metadata_new or a call gave; nothing if they are null.
//
// # Safety
// They are null, or belong to the program and are used by nobody.
void petasos_metadata_free(petasos_metadata *metadata);

// Makes a queue, to be freed with petasos_queue_free.
//
// # Safety
// `queue` may be written to.
petasos_code petasos_queue_new(petasos_queue **queue);

// A petasos_wake: adds a tag to the queue that is the context.
//
// # Safety
// `queue` is a valid petasos_queue.
void petasos_queue_push(void *queue, uint64_t tag);

// A descriptor that is readable while the queue has tags. It belongs to the queue, and is for
// poll(2) and the like only. -1 if the queue is null.
//
// # Safety
// The queue is null or valid.
int32_t petasos_queue_descriptor(const petasos_queue *queue);

// Takes up to `max` tags, and waits up to `timeout_us` microseconds until there is one; 0 only
// looks, less waits for ever. How many were taken.
//
// # Safety
// The queue is valid, and `max` tags can be written to `tags`.
size_t petasos_queue_take(const petasos_queue *queue,
                          uint64_t *tags,
                          size_t max,
                          int64_t timeout_us);

// Frees a queue; nothing if it is null.
//
// # Safety
// It is null, or came from petasos_queue_new, and no waker with it can be called any more.
void petasos_queue_free(petasos_queue *queue);

// Starts a server of some services: when this returns, it takes calls, which wait for
// petasos_server_accept. To be freed with petasos_server_free; the services may be freed at once.
//
// # Safety
// `count` valid services are at `services`, the options are valid, and `server` may be written to.
petasos_code petasos_server_start(const petasos_service *const *services,
                                  size_t count,
                                  const petasos_server_options *options,
                                  petasos_server **server);

// The port at which Petasos listens, or 0.
//
// # Safety
// The server is null or valid.
uint16_t petasos_server_port(const petasos_server *server);

// The port at which gRPC is answered, or 0.
//
// # Safety
// The server is null or valid.
uint16_t petasos_server_grpc_port(const petasos_server *server);

// Takes the next call, for at most `timeout_us` microseconds (0 only looks, less waits for ever).
// It is to be answered with petasos_call_finish and freed with petasos_call_free.
// PETASOS_TIMED_OUT if there is none, PETASOS_END once the server has ended.
//
// # Safety
// The server is valid, and `call` may be written to.
petasos_code petasos_server_accept(const petasos_server *server,
                                   int64_t timeout_us,
                                   petasos_call **call);

// petasos_server_accept without blocking: PETASOS_PENDING if there is no call, and the waker is
// called once one may be there.
//
// # Safety
// The server is valid, `call` may be written to, and the waker is as it says.
petasos_code petasos_server_poll_accept(const petasos_server *server,
                                        petasos_waker waker,
                                        petasos_call **call);

// Ends the server and waits for that: it takes no more calls from callers, gives those that run
// `grace_us` microseconds, and ends what is left with PETASOS_UNAVAILABLE. Other threads go on
// taking and answering calls meanwhile.
//
// # Safety
// The server is valid.
petasos_code petasos_server_drain(const petasos_server *server, uint64_t grace_us);

// Frees a server, and ends it at once unless it was drained; nothing if it is null. Calls that
// were taken are still to be freed. None of its wakers is called afterwards.
//
// # Safety
// It is null, or belongs to the program and is used by nobody.
void petasos_server_free(petasos_server *server);

// A service by its full name (`package.Service`) and those of methods. Enough for calls; to serve
// it for callers with types, a service needs descriptors. To be freed with petasos_service_free;
// what is known of it is kept once per process, and for good.
//
// # Safety
// Names end with zeros, `count` methods are at `methods`, and `service` may be written to.
petasos_code petasos_service_named(const char *name,
                                   const petasos_method *methods,
                                   size_t count,
                                   petasos_service **service);

// A service of an encoded `google.protobuf.FileDescriptorSet`, with all its methods. Servers whose
// schema is incompatible are not called, and servers that offer it tell theirs. To be freed with
// petasos_service_free.
//
// # Safety
// `length` bytes are at `descriptors`, the name ends with a zero, and `service` may be written to.
petasos_code petasos_service_described(const uint8_t *descriptors,
                                       size_t length,
                                       const char *name,
                                       petasos_service **service);

// Frees a service's handle; nothing if it is null. Clients and servers made with it go on.
//
// # Safety
// It is null, or belongs to the program and is used by nobody.
void petasos_service_free(petasos_service *service);

// Compiles .proto files, found like imports in the directories `includes`, first match first, to
// an encoded `google.protobuf.FileDescriptorSet` with all that they import and with their
// comments. PETASOS_INVALID_ARGUMENT if something is wrong in them; the message says where.
//
// # Safety
// `file_count` texts that end with zeros are at `files`, likewise `includes`, and `descriptors`
// may be written to.
petasos_code petasos_compile(const char *const *files,
                             size_t file_count,
                             const char *const *includes,
                             size_t include_count,
                             petasos_bytes *descriptors);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* PETASOS_H */
