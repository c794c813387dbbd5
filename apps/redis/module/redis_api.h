/*
 * What this module uses of the module API of Redis 7.0.
 *
 * The names, numbers and signatures are those of src/redismodule.h of Redis 7.0.15 (Copyright (c)
 * 2015, Salvatore Sanfilippo; BSD 3-clause), which Debian ships in no package.
 */

#ifndef PETASOS_REDIS_API_H
#define PETASOS_REDIS_API_H

#include <stddef.h>
#include <stdint.h>

#define REDISMODULE_OK 0
#define REDISMODULE_ERR 1
#define REDISMODULE_APIVER_1 1

#define REDISMODULE_EVENTLOOP_READABLE 1

#define REDISMODULE_CTX_FLAGS_MASTER (1 << 2)
#define REDISMODULE_CTX_FLAGS_REPLICA_IS_ONLINE (1 << 17)

#define REDISMODULE_SUBEVENT_EVENTLOOP_BEFORE_SLEEP 0

typedef struct RedisModuleCtx RedisModuleCtx;
typedef struct RedisModuleString RedisModuleString;
typedef struct RedisModuleCallReply RedisModuleCallReply;
typedef struct RedisModuleUser RedisModuleUser;

typedef struct RedisModuleEvent {
    uint64_t id;
    uint64_t dataver;
} RedisModuleEvent;

static const RedisModuleEvent RedisModuleEvent_ReplicationRoleChanged = {0, 1};
static const RedisModuleEvent RedisModuleEvent_Shutdown = {5, 1};
static const RedisModuleEvent RedisModuleEvent_EventLoop = {15, 1};

typedef void (*RedisModuleEventCallback)(RedisModuleCtx *ctx, RedisModuleEvent event,
                                         uint64_t subevent, void *data);
typedef void (*RedisModuleEventLoopFunc)(int fd, void *user_data, int mask);
typedef int (*RedisModuleCmdFunc)(RedisModuleCtx *ctx, RedisModuleString **argv, int argc);

/* Each function is a pointer that RedisModule_GetApi fills in. */
#define REDIS_API(X)                                                                              \
    X(void, SetModuleAttribs, (RedisModuleCtx *, const char *, int, int))                         \
    X(int, CreateCommand, (RedisModuleCtx *, const char *, RedisModuleCmdFunc, const char *, int, \
                           int, int))                                                             \
    X(int, ReplyWithArray, (RedisModuleCtx *, long))                                              \
    X(int, ReplyWithCString, (RedisModuleCtx *, const char *))                                    \
    X(int, ReplyWithLongLong, (RedisModuleCtx *, long long))                                      \
    X(int, SubscribeToServerEvent, (RedisModuleCtx *, RedisModuleEvent, RedisModuleEventCallback))\
    X(int, EventLoopAdd, (int, int, RedisModuleEventLoopFunc, void *))                            \
    X(int, EventLoopDel, (int, int))                                                              \
    X(int, GetContextFlags, (RedisModuleCtx *))                                                   \
    X(RedisModuleCtx *, GetDetachedThreadSafeContext, (RedisModuleCtx *))                         \
    X(RedisModuleCallReply *, Call, (RedisModuleCtx *, const char *, const char *, ...))          \
    X(const char *, CallReplyProto, (RedisModuleCallReply *, size_t *))                           \
    X(void, FreeCallReply, (RedisModuleCallReply *))                                              \
    X(RedisModuleString *, CreateString, (RedisModuleCtx *, const char *, size_t))                \
    X(void, FreeString, (RedisModuleCtx *, RedisModuleString *))                                  \
    X(const char *, StringPtrLen, (const RedisModuleString *, size_t *))                          \
    X(RedisModuleUser *, GetModuleUserFromUserName, (RedisModuleString *))                        \
    X(void, FreeModuleUser, (RedisModuleUser *))                                                  \
    X(void, SetContextUser, (RedisModuleCtx *, const RedisModuleUser *))                          \
    X(void, Log, (RedisModuleCtx *, const char *, const char *, ...))

#define REDIS_DECLARE(result, name, arguments) static result(*RedisModule_##name) arguments;
REDIS_API(REDIS_DECLARE)
#undef REDIS_DECLARE

/* Finds all functions. REDISMODULE_ERR if this Redis lacks one. */
static inline int redis_api_find(RedisModuleCtx *ctx) {
    int (*get)(const char *, void *);
    /* A context begins with the pointer to RedisModule_GetApi. */
    void *first = *(void **)ctx;
    __builtin_memcpy(&get, &first, sizeof get);
#define REDIS_FIND(result, name, arguments) \
    if (get("RedisModule_" #name, (void *)&RedisModule_##name) != REDISMODULE_OK) \
        return REDISMODULE_ERR;
    REDIS_API(REDIS_FIND)
#undef REDIS_FIND
    return REDISMODULE_OK;
}

#endif
