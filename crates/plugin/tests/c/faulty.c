/* Plug-ins with one fault each: FAULT says which. */
#define _GNU_SOURCE
#include "petasos_plugin.h"

#include <string.h>
#include <unistd.h>

#define CRASH_ON_LOAD 1
#define LOOP_ON_LOAD 2
#define OTHER_VERSION 3
#define SHORT_TABLE 4
#define NO_FUNCTION 5
#define UNDEFINED 6
#define BAD_NAME 7
#define CRASH_ON_ITEM 8
#define LOOP_ON_ITEM 9
#define FORGETFUL 10
#define EXIT_ON_LOAD 11
#define NO_TABLE 12
#define NULL_NAME 13
#define CRASH_IF_TOLD 14
/* What is allowed, but odd. */
#define STAYS_MAPPED 20
#define RUDE 21
#define NOISY 22

#define POLITE 0
#ifndef FAULT
#define FAULT POLITE
#endif

static const petasos_host *service;
static int a_policy, an_engine;

static void crash(void) {
  volatile int *nowhere = (volatile int *)8;
  *nowhere = 1;
}

static petasos_bytes bytes(const char *text) {
  petasos_bytes all = {(const uint8_t *)text, strlen(text)};
  return all;
}

#if FAULT == UNDEFINED
extern void this_is_nowhere(void);
#endif

#if FAULT == STAYS_MAPPED
/* A destructor of a thread-local variable, as C++ makes them. */
extern int __cxa_thread_atexit_impl(void (*)(void *), void *, void *);
extern void *__dso_handle;
static void destructor(void *nothing) { (void)nothing; }
#endif

__attribute__((constructor)) static void on_load(void) {
  if (FAULT == CRASH_ON_LOAD) crash();
  if (FAULT == EXIT_ON_LOAD) _exit(0);
  while (FAULT == LOOP_ON_LOAD) pause();
#if FAULT == UNDEFINED
  this_is_nowhere();
#endif
#if FAULT == STAYS_MAPPED
  __cxa_thread_atexit_impl(destructor, NULL, &__dso_handle);
#endif
  if (FAULT == NOISY)
    if (write(1, "[1]\n", 4) != 4) crash();
}

static int32_t policy_create(const petasos_host *host, uint64_t token, petasos_bytes configuration,
                             petasos_bytes state, void **policy) {
  (void)state;
  service = host;
  if (FAULT == CRASH_IF_TOLD && memmem(configuration.data, configuration.len, "crash", 5)) crash();
  *policy = &a_policy;
  (void)token;
  return PETASOS_OK;
}

static void destroy(void *what) { (void)what; }

static int32_t engine_create(void *policy, uint64_t token, petasos_bytes state, void **engine) {
  (void)policy;
  *engine = &an_engine;
  if (FAULT == FORGETFUL && state.len) {
    service->say(token, bytes("what is this?"));
    return PETASOS_WRONG_STATE;
  }
  return PETASOS_OK;
}

static int32_t engine_method(void *engine, uint64_t token, uint32_t method, petasos_bytes name) {
  (void)engine, (void)method, (void)name;
  uint32_t field;
  if (FAULT == RUDE) service->declare_field(token, bytes("count"), PETASOS_UNSIGNED, 1, &field, 0);
  return PETASOS_OK;
}

/* Does what must not be done, and says which of it the service has taken. */
static void be_rude(const petasos_item *item) {
  static uint64_t earlier;
  petasos_bytes huge = {(const uint8_t *)"x", UINT64_MAX}, nowhere = {NULL, 5};
  petasos_bytes latin = {(const uint8_t *)"\xe4", 1};
  petasos_value text = {.kind = PETASOS_TEXT, .bytes = latin};
  petasos_value odd = {.kind = 99}, found;
  uint32_t field;
  uint64_t token = item->token;
  int taken[] = {
      service->say(token + 1, bytes("a")),
      service->say(earlier, bytes("b")),
      service->say(0, bytes("c")),
      service->say(token, huge),
      service->say(token, nowhere),
      service->declare_field(token, bytes("count"), PETASOS_ANY_KIND, 0, &field, NULL),
      service->field(token, 1, &found),
      service->field(token, 0, NULL),
      service->set_field(token, 0, NULL),
      service->set_field(token, 0, &text),
      service->set_field(token, 0, &odd),
      service->set_metadata(token, bytes("Not A Key"), bytes("v")),
      service->set_metadata(token, bytes("key"), latin),
      service->metadata(token, latin, &huge),
      service->random(token, NULL),
  };
  earlier = token;
  for (size_t at = 0; at < sizeof taken / sizeof *taken; at++) {
    char digit[2] = {(char)('0' - taken[at]), 0};
    service->say(token, bytes(digit));
  }
  for (int more = 0; more < 2000; more++) service->say(token, bytes("~"));
}

/* Does what may be done. */
static uint32_t change(const petasos_item *item, petasos_value *count) {
  petasos_bytes key = bytes("old"), value, none = {NULL, 0};
  uint64_t bits;
  if (service->metadata(item->token, key, &value) == PETASOS_OK) {
    service->set_metadata(item->token, bytes("new"), value);
    service->set_metadata(item->token, key, none);
  }
  count->number.u = 42;
  if (service->set_field(item->token, 0, count) || service->random(item->token, &bits)) return 13;
  return PETASOS_PASS;
}

static uint32_t engine_item(void *engine, const petasos_item *item) {
  (void)engine;
  if (FAULT == CRASH_ON_ITEM) crash();
  while (FAULT == LOOP_ON_ITEM) continue;
  petasos_value count;
  if (FAULT == RUDE && service->field(item->token, 0, &count) == PETASOS_OK) {
    if (count.number.u == 0) return change(item, &count);
    if (count.number.u == 1) return be_rude(item), 9;
    return 12345;
  }
  return PETASOS_PASS;
}

static void engine_decompose(void *engine, uint64_t token) {
  (void)engine;
  service->say(token, bytes(FAULT == RUDE ? "[no JSON" : "{}"));
}

#define NAME "faulty"
#if FAULT == BAD_NAME
#undef NAME
#define NAME "not a name"
#endif

#if FAULT != NO_TABLE
const petasos_plugin_table petasos_plugin = {
    .abi_version = FAULT == OTHER_VERSION ? 2 : PETASOS_PLUGIN_ABI,
    .size = FAULT == SHORT_TABLE ? 96 : sizeof(petasos_plugin_table),
    .name = {FAULT == NULL_NAME ? NULL : (const uint8_t *)NAME, sizeof NAME - 1},
    .state_version = 1,
    .interests = ~0u,
    .policy_create = policy_create,
    .policy_destroy = destroy,
    .engine_create = engine_create,
    .engine_method = engine_method,
    .engine_item = FAULT == NO_FUNCTION ? NULL : engine_item,
    .engine_decompose = engine_decompose,
    .engine_destroy = destroy,
};
#else
/* So that nothing is unused. */
const void *const all[] = {policy_create, destroy, engine_create, engine_method, engine_item,
                           engine_decompose, NAME};
#endif
