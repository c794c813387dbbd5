/*
 * petasos_plugin.h: policies of the managed service as shared objects, version 1.
 *
 * An object exports one symbol: a constant `petasos_plugin_table petasos_plugin`. The service tries
 * an object in a child process first: it loads it there, makes a policy and an engine with the given
 * configuration, gives it a few items, and has it go on from its own state. Only then is it loaded
 * into the service. What crashes or takes too long there is refused.
 *
 * Rules:
 * - No exception, longjmp, allocator or type of a language's library crosses these functions.
 * - Bytes are a pointer and a length. What the service passes is valid until the function returns.
 *   Text is UTF-8, without a 0 at its end.
 * - A *token* names what the service is doing with the plug-in, and is valid until that function
 *   returns, and on its thread only. The service refuses others (PETASOS_GONE).
 * - Functions of a policy may be called from several threads at a time, those of an engine from one
 *   at a time. Functions of an engine never block.
 * - Who starts threads joins them in `policy_destroy`. When the last policy and engine are gone, the
 *   object is unloaded. An object with destructors of thread-local variables may stay mapped; the
 *   service reports that.
 * - A later version may add members at the ends of the structures. `size` says how many there are.
 */
#ifndef PETASOS_PLUGIN_H
#define PETASOS_PLUGIN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PETASOS_PLUGIN_ABI 1u

/* The longest text that a plug-in may say: a reason, a status's text; and a state or a report. */
#define PETASOS_TEXT_BYTES_MAX 1024u
#define PETASOS_STATE_BYTES_MAX (1024u * 1024u)

/* What functions of the service return. */
#define PETASOS_OK 0
/* The token is not valid here. */
#define PETASOS_GONE (-1)
/* An argument is wrong: a number out of range, a null pointer, text that is not UTF-8. */
#define PETASOS_INVALID (-2)
/* There is no such field, value or entry. */
#define PETASOS_ABSENT (-3)
/* There is no room. */
#define PETASOS_FULL (-4)

/* What `policy_create` and `engine_create` return; they say why (`say`). */
#define PETASOS_WRONG_CONFIGURATION 1
#define PETASOS_WRONG_STATE 2

/* What `engine_item` returns: pass the item on, or end its call with a status of gRPC's numbers,
   1 to 16, whose text the plug-in has said. Other numbers end the call with INTERNAL. */
#define PETASOS_PASS 0u

typedef struct petasos_bytes {
  const uint8_t *data; /* may be null if `len` is 0 */
  uint64_t len;
} petasos_bytes;

/* Kinds of fields. */
#define PETASOS_BOOL 0u
#define PETASOS_SIGNED 1u /* and enums */
#define PETASOS_UNSIGNED 2u
#define PETASOS_FLOAT 3u
#define PETASOS_TEXT 4u
#define PETASOS_BYTES 5u
#define PETASOS_ANY_KIND 255u /* only where a kind is asked for */

typedef struct petasos_value {
  uint32_t kind;
  uint32_t reserved; /* 0 */
  union {
    uint64_t u; /* PETASOS_UNSIGNED; PETASOS_BOOL: 0 or 1 */
    int64_t i;  /* PETASOS_SIGNED */
    double f;   /* PETASOS_FLOAT */
  } number;
  petasos_bytes bytes; /* PETASOS_TEXT, PETASOS_BYTES */
} petasos_value;

/* Kinds of items (docs/spec/engine.md). */
#define PETASOS_REQUEST 0u
#define PETASOS_MESSAGE 1u
#define PETASOS_CLOSE 2u
#define PETASOS_CANCEL 3u
#define PETASOS_HEAD 4u
#define PETASOS_END 5u
/* For `interests`. */
#define PETASOS_INTEREST(kind) (1u << (kind))

/* Flags of an item. */
#define PETASOS_IS_STREAM 1u
#define PETASOS_IS_IDEMPOTENT 2u
#define PETASOS_IS_SEALED 4u
#define PETASOS_IS_FROM_CALLER 8u
#define PETASOS_IS_INBOUND 16u

typedef struct petasos_item {
  uint64_t token;
  uint64_t call;        /* not given to another call of the datapath while it goes on */
  uint64_t now_ns;      /* the time of this batch; a plug-in reads no clock */
  uint64_t arrived_ns;
  uint64_t deadline_ns; /* UINT64_MAX for none */
  uint32_t kind;
  uint32_t flags;
  uint32_t application;
  uint32_t peer;
  uint32_t method;
  uint32_t bytes;  /* of its message */
  uint32_t status; /* of an end: a status of gRPC's numbers */
  uint32_t attempt;
  petasos_bytes identity; /* of the other end, if that is proved */
} petasos_item;

/* What the service offers. The structure stays valid while the object is loaded. */
typedef struct petasos_host {
  uint32_t abi_version;
  uint32_t size;
  /* Appends to what the plug-in says: a reason, a status's text, a state, a report. */
  int32_t (*say)(uint64_t token, petasos_bytes text);
  /* In `engine_method`: the engine reads, or also writes, the field at a path of the method's
     messages from the caller: names with dots between them. Gives the field's number in this
     engine, and its kind. PETASOS_ABSENT: the method has no such field, or one of another kind. */
  int32_t (*declare_field)(uint64_t token, petasos_bytes path, uint32_t kind, uint32_t writes,
                           uint32_t *field, uint32_t *kind_found);
  /* In `engine_item`: a value, valid until the next call of `set_field`, or the return. */
  int32_t (*field)(uint64_t token, uint32_t field, petasos_value *value);
  int32_t (*set_field)(uint64_t token, uint32_t field, const petasos_value *value);
  /* In `engine_item`: the first value of a key, valid until the next call of `set_metadata`, or
     the return. */
  int32_t (*metadata)(uint64_t token, petasos_bytes key, petasos_bytes *value);
  /* In `engine_item`: replaces the values of a key; a value of which `data` is null removes it. */
  int32_t (*set_metadata)(uint64_t token, petasos_bytes key, petasos_bytes value);
  /* In `engine_item`: 64 random bits. */
  int32_t (*random)(uint64_t token, uint64_t *bits);
} petasos_host;

typedef struct petasos_plugin_table {
  uint32_t abi_version; /* PETASOS_PLUGIN_ABI */
  uint32_t size;        /* sizeof(petasos_plugin_table) */
  /* Names the kind in states and messages: 1 to 64 letters, digits, `_` and `-`. */
  petasos_bytes name;
  /* Of states; counts up with each change of their form. The service refuses states of later
     versions, and of plug-ins of another name. */
  uint32_t state_version;
  /* Which kinds of items `engine_item` is called for; others pass. */
  uint32_t interests;
  /* A policy of a configuration, a JSON text. `state` is what an earlier policy has said, or null.
     Gives the policy, which may be null. */
  int32_t (*policy_create)(const petasos_host *host, uint64_t token, petasos_bytes configuration,
                           petasos_bytes state, void **policy);
  /* Says the policy's state, a JSON text, or nothing. May be null. */
  void (*policy_state)(void *policy, uint64_t token);
  /* Says what operators see of it, a JSON text. May be null. */
  void (*policy_report)(void *policy, uint64_t token);
  void (*policy_destroy)(void *policy);
  /* The policy's replica in one datapath. The policy outlives it. */
  int32_t (*engine_create)(void *policy, uint64_t token, petasos_bytes state, void **engine);
  /* Calls of a method will come. Other results than PETASOS_OK refuse it. May be null. */
  int32_t (*engine_method)(void *engine, uint64_t token, uint32_t method, petasos_bytes name);
  uint32_t (*engine_item)(void *engine, const petasos_item *item);
  /* Says the engine's state, a JSON text, or nothing: `engine_destroy` follows. May be null. An
     engine of another process may go on from it, which has other calls and another clock. */
  void (*engine_decompose)(void *engine, uint64_t token);
  void (*engine_destroy)(void *engine);
} petasos_plugin_table;

#if defined(__GNUC__)
#define PETASOS_EXPORT __attribute__((visibility("default")))
#else
#define PETASOS_EXPORT
#endif

extern PETASOS_EXPORT const petasos_plugin_table petasos_plugin;

#ifdef __cplusplus
}
#endif

#endif
