/*
 * Passes as many requests as LIMIT says, and refuses those after them. It counts in each engine, and
 * a successor goes on from there: so a test can tell whether a state was handed over.
 */
#include "petasos_plugin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef LIMIT
#define LIMIT 3
#endif
#ifndef STATE_VERSION
#define STATE_VERSION 1u
#endif
#define RESOURCE_EXHAUSTED 8u

struct engine {
  const petasos_host *host;
  unsigned long seen;
};

static const petasos_host *service;
static int a_policy;

static petasos_bytes bytes(const char *text) {
  petasos_bytes all = {(const uint8_t *)text, strlen(text)};
  return all;
}

static int32_t policy_create(const petasos_host *host, uint64_t token, petasos_bytes configuration,
                             petasos_bytes state, void **out) {
  (void)token, (void)configuration, (void)state;
  service = host;
  *out = &a_policy;
  return PETASOS_OK;
}

static void policy_destroy(void *policy) { (void)policy; }

static int32_t engine_create(void *policy, uint64_t token, petasos_bytes state, void **out) {
  (void)policy;
  struct engine *engine = calloc(1, sizeof *engine);
  if (!engine) {
    service->say(token, bytes("there is no memory"));
    return PETASOS_WRONG_CONFIGURATION;
  }
  engine->host = service;
  char text[32] = {0};
  memcpy(text, state.data ? (const char *)state.data : "",
         state.len < sizeof text ? state.len : sizeof text - 1);
  engine->seen = strtoul(text, NULL, 10);
  *out = engine;
  return PETASOS_OK;
}

static uint32_t engine_item(void *of, const petasos_item *item) {
  struct engine *engine = of;
  if (++engine->seen <= LIMIT) return PETASOS_PASS;
  engine->host->say(item->token, bytes("enough"));
  return RESOURCE_EXHAUSTED;
}

static void engine_decompose(void *of, uint64_t token) {
  const struct engine *engine = of;
  char text[32];
  snprintf(text, sizeof text, "%lu", engine->seen);
  engine->host->say(token, bytes(text));
}

static void engine_destroy(void *engine) { free(engine); }

#define NAME "count"

const petasos_plugin_table petasos_plugin = {
    .abi_version = PETASOS_PLUGIN_ABI,
    .size = sizeof(petasos_plugin_table),
    .name = {(const uint8_t *)NAME, sizeof NAME - 1},
    .state_version = STATE_VERSION,
    .interests = PETASOS_INTEREST(PETASOS_REQUEST),
    .policy_create = policy_create,
    .policy_destroy = policy_destroy,
    .engine_create = engine_create,
    .engine_item = engine_item,
    .engine_decompose = engine_decompose,
    .engine_destroy = engine_destroy,
};
