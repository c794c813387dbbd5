/*
 * A template of a plug-in: refuses requests in which a field has a certain text, and says how often.
 *
 *   cc -std=c11 -O2 -shared -fPIC -I crates/plugin/include -o refuse.so refuse.c
 *
 * Configuration: {"field": "customer.name", "text": "mallory"}. Neither may contain `"` or `\`.
 */
#include "petasos_plugin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of states. Version 1 had no `seen`. */
#ifndef STATE_VERSION
#define STATE_VERSION 2u
#endif

#define TEXT_MAX 256u
#define FIELDS_MAX 64u
#define PERMISSION_DENIED 7u

struct policy {
  const petasos_host *host;
  char field[TEXT_MAX];
  char text[TEXT_MAX];
};

struct engine {
  const struct policy *policy;
  unsigned long long seen, refused;
  /* The field's number in the engine, by method. */
  uint32_t methods[FIELDS_MAX], fields[FIELDS_MAX];
  unsigned known;
};

static petasos_bytes bytes(const char *text) {
  petasos_bytes all = {(const uint8_t *)text, strlen(text)};
  return all;
}

static int32_t refuse(const petasos_host *host, uint64_t token, const char *why, int32_t result) {
  host->say(token, bytes(why));
  return result;
}

/* What follows a key in a JSON text; null if the key is not there. */
static const char *after(const char *json, const char *key) {
  char quoted[TEXT_MAX];
  snprintf(quoted, sizeof quoted, "\"%s\"", key);
  const char *at = strstr(json, quoted);
  if (!at) return NULL;
  at += strlen(quoted);
  at += strspn(at, " \t\r\n");
  if (*at++ != ':') return NULL;
  return at + strspn(at, " \t\r\n");
}

/* The member of a JSON object that is a text without escapes. */
static int member(const char *json, const char *key, char *to) {
  const char *at = after(json, key);
  if (!at || *at++ != '"') return 0;
  size_t len = strcspn(at, "\"\\");
  if (at[len] != '"' || len == 0 || len >= TEXT_MAX) return 0;
  memcpy(to, at, len);
  to[len] = 0;
  return 1;
}

/* A copy with a 0 at its end. */
static char *copy(petasos_bytes from) {
  char *to = malloc(from.len + 1);
  if (!to) return NULL;
  if (from.len) memcpy(to, from.data, from.len);
  to[from.len] = 0;
  return to;
}

static int32_t policy_create(const petasos_host *host, uint64_t token, petasos_bytes configuration,
                             petasos_bytes state, void **out) {
  (void)state; /* policies have none here, engines do */
  struct policy *policy = calloc(1, sizeof *policy);
  char *json = copy(configuration);
  int is_right = policy && json && member(json, "field", policy->field) &&
                 member(json, "text", policy->text);
  free(json);
  if (!is_right) {
    free(policy);
    return refuse(host, token, "it needs `field` and `text`", PETASOS_WRONG_CONFIGURATION);
  }
  policy->host = host;
  *out = policy;
  return PETASOS_OK;
}

static void policy_destroy(void *policy) { free(policy); }

static int32_t engine_create(void *of, uint64_t token, petasos_bytes state, void **out) {
  const struct policy *policy = of;
  struct engine *engine = calloc(1, sizeof *engine);
  if (!engine)
    return refuse(policy->host, token, "there is no memory", PETASOS_WRONG_CONFIGURATION);
  engine->policy = policy;
  if (state.len) {
    char *json = copy(state);
    const char *seen = json ? after(json, "seen") : NULL;
    const char *refused = json ? after(json, "refused") : NULL;
    if (refused) engine->refused = strtoull(refused, NULL, 10);
    if (seen) engine->seen = strtoull(seen, NULL, 10);
    free(json);
    if (!refused) {
      free(engine);
      return refuse(policy->host, token, "it has no `refused`", PETASOS_WRONG_STATE);
    }
  }
  *out = engine;
  return PETASOS_OK;
}

static int32_t engine_method(void *of, uint64_t token, uint32_t method, petasos_bytes name) {
  struct engine *engine = of;
  const struct policy *policy = engine->policy;
  (void)name;
  uint32_t field;
  int32_t result = policy->host->declare_field(token, bytes(policy->field), PETASOS_TEXT, 0,
                                               &field, NULL);
  if (result == PETASOS_ABSENT) return PETASOS_OK; /* such methods pass */
  if (result != PETASOS_OK || engine->known == FIELDS_MAX) return PETASOS_FULL;
  engine->methods[engine->known] = method;
  engine->fields[engine->known++] = field;
  return PETASOS_OK;
}

static uint32_t engine_item(void *of, const petasos_item *item) {
  struct engine *engine = of;
  const struct policy *policy = engine->policy;
  petasos_value value;
  engine->seen++;
  for (unsigned at = 0; at < engine->known; at++) {
    if (engine->methods[at] != item->method) continue;
    if (policy->host->field(item->token, engine->fields[at], &value) != PETASOS_OK) break;
    if (value.bytes.len != strlen(policy->text)) break;
    if (value.bytes.len && memcmp(value.bytes.data, policy->text, value.bytes.len) != 0) break;
    engine->refused++;
    char why[64 + TEXT_MAX];
    snprintf(why, sizeof why, "no. %llu of `%s`", engine->refused, policy->text);
    policy->host->say(item->token, bytes(why));
    return PERMISSION_DENIED;
  }
  return PETASOS_PASS;
}

static void engine_decompose(void *of, uint64_t token) {
  struct engine *engine = of;
  char state[128];
  snprintf(state, sizeof state, "{\"seen\":%llu,\"refused\":%llu}", engine->seen, engine->refused);
  engine->policy->host->say(token, bytes(state));
}

static void engine_destroy(void *engine) { free(engine); }

#define NAME "refuse"

const petasos_plugin_table petasos_plugin = {
    .abi_version = PETASOS_PLUGIN_ABI,
    .size = sizeof(petasos_plugin_table),
    .name = {(const uint8_t *)NAME, sizeof NAME - 1},
    .state_version = STATE_VERSION,
    .interests = PETASOS_INTEREST(PETASOS_REQUEST) | PETASOS_INTEREST(PETASOS_MESSAGE),
    .policy_create = policy_create,
    .policy_destroy = policy_destroy,
    .engine_create = engine_create,
    .engine_method = engine_method,
    .engine_item = engine_item,
    .engine_decompose = engine_decompose,
    .engine_destroy = engine_destroy,
};
