/* What the crate `petasos-plugin-abi` asserts, of the header. */
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

IS(PETASOS_PLUGIN_ABI, 1);
IS(PETASOS_TEXT_BYTES_MAX, 1024);
IS(PETASOS_STATE_BYTES_MAX, 1 << 20);
IS(PETASOS_GONE, -1);
IS(PETASOS_INVALID, -2);
IS(PETASOS_ABSENT, -3);
IS(PETASOS_FULL, -4);
IS(PETASOS_OK, 0);
IS(PETASOS_WRONG_CONFIGURATION, 1);
IS(PETASOS_WRONG_STATE, 2);
IS(PETASOS_PASS, 0);
IS(PETASOS_REQUEST, 0);
IS(PETASOS_CANCEL, 3);
IS(PETASOS_END, 5);
IS(PETASOS_BOOL, 0);
IS(PETASOS_FLOAT, 3);
IS(PETASOS_BYTES, 5);
IS(PETASOS_ANY_KIND, 255);
IS(PETASOS_IS_STREAM, 1);
IS(PETASOS_IS_IDEMPOTENT, 2);
IS(PETASOS_IS_SEALED, 4);
IS(PETASOS_IS_FROM_CALLER, 8);
IS(PETASOS_IS_INBOUND, 16);
