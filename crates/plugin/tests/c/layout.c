/* What `src/abi.rs` asserts, of the header. */
#include "petasos_plugin.h"

#define IS(what, number) _Static_assert((what) == (number), #what)

IS(sizeof(petasos_bytes), 16);
IS(offsetof(petasos_bytes, len), 8);
IS(sizeof(petasos_value), 32);
IS(offsetof(petasos_value, number), 8);
IS(offsetof(petasos_value, bytes), 16);
IS(sizeof(petasos_item), 88);
IS(offsetof(petasos_item, kind), 40);
IS(offsetof(petasos_item, attempt), 68);
IS(offsetof(petasos_item, identity), 72);
IS(sizeof(petasos_host), 64);
IS(offsetof(petasos_host, say), 8);
IS(offsetof(petasos_host, random), 56);
IS(sizeof(petasos_plugin_table), 104);
IS(offsetof(petasos_plugin_table, state_version), 24);
IS(offsetof(petasos_plugin_table, policy_create), 32);
IS(offsetof(petasos_plugin_table, engine_destroy), 96);
