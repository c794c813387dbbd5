/*
 * A node of Redis as a worker of a group: Petasos' endpoint runs in Redis' own event loop.
 *
 *     loadmodule petasos_redis.so group router://HOST:PORT listen HOST:PORT [bound N] [user NAME]
 *                                 [tls AUTHORITIES CERTIFICATE KEY | plaintext]
 *
 * Who does what, and when:
 * - Redis watches the endpoint's descriptor. Its callback only notes that there is something to do,
 *   since Redis also calls it while a script is busy or a dataset is loaded, when no command may
 *   run.
 * - Before Redis sleeps, the endpoint turns: requests are taken, their commands run, and answers
 *   are sent. When the event is over, Redis replicates what commands have changed, before it
 *   sends anything to replicas or writes its log.
 * - The node is the group's primary while Redis is one, and joins anew when that changes. A replica
 *   joins once it is in step with its primary, and stays when it loses it.
 *
 * Commands have the rights of an ACL user. Read refuses what writes; what is refused within scripts
 * (transactions, blocking, subscriptions, administration) is refused here.
 */

#include <petasos.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <time.h>

#include "commands.h"
#include "descriptors.h"
#include "redis_api.h"

/* Replies begin here in their buffer, so that the message's head fits before them. */
#define HEAD_BYTES 16
/* A larger buffer is not kept. */
#define KEPT_BYTES (1 << 20)
/* Between two attempts to open a loop. */
#define RETRY_SECONDS 1
/* Without a bound in the arguments: as in the paper, since commands take less than its trip. */
#define BOUND 64

static struct {
    const char *group, *listen, *user;
    petasos_tls_options tls;
    bool has_tls, plaintext;
    uint16_t bound;
    petasos_loop *loop;
    /* What the loop has joined as. */
    bool is_primary;
    /* The replica was in step with its primary once. */
    bool was_online;
    /* The endpoint has something to do. */
    bool is_ready;
    time_t tried_at;
    /* What commands run in. The context of an event has a client without a user, of which Redis 7.0
     * wants the name when it logs that an ACL refuses something. */
    RedisModuleCtx *ctx;
    /* The user of the turn that runs. */
    RedisModuleUser *acl;
    uint8_t *replies;
    size_t replies_length, replies_room;
    long long reads, writes, refused;
} node;

/* Adds to the replies; false without memory. */
static bool add_reply(const char *bytes, size_t length) {
    size_t needed = HEAD_BYTES + node.replies_length + length;
    if (needed > node.replies_room) {
        size_t room = needed < 4096 ? 4096 : needed * 2;
        uint8_t *larger = realloc(node.replies, room);
        if (larger == NULL) return false;
        node.replies = larger;
        node.replies_room = room;
    }
    memcpy(node.replies + HEAD_BYTES + node.replies_length, bytes, length);
    node.replies_length += length;
    return true;
}

static bool add_error(const char *text) {
    node.refused++;
    return add_reply("-", 1) && add_reply(text, strlen(text)) && add_reply("\r\n", 2);
}

/* Runs a command; false without memory for its reply. */
static bool run(bool writes, RedisModuleString **argv, size_t argc) {
    size_t length;
    const char *name = RedisModule_StringPtrLen(argv[0], &length);
    if (strlen(name) != length) return add_error("ERR a command's name has a zero");
    /* It would hold for this one command only. */
    if (strcasecmp(name, "select") == 0) return add_error("ERR SELECT is not supported");
    if (node.acl == NULL) return add_error("NOPERM the module's user is not there");
    /* v: the arguments; E: errors are replies; S: only what scripts may; C: as the user; M: not
     * beyond maxmemory; W: no writes; !: replicated. */
    const char *how = writes ? "v!ESCM" : "vESCW";
    RedisModuleCallReply *reply = RedisModule_Call(node.ctx, name, how, argv + 1, argc - 1);
    if (reply == NULL) return add_error("ERR the command was not run");
    const char *bytes = RedisModule_CallReplyProto(reply, &length);
    bool added = add_reply(bytes, length);
    RedisModule_FreeCallReply(reply);
    return added;
}

/* Runs the command in these bytes. What is no command is refused as one. */
static bool run_bytes(bool writes, unread_bytes command) {
    size_t count, made = 0;
    if (!read_arguments(&command, &count)) return add_error("ERR Protocol error: no command");
    RedisModuleString **argv = malloc(count * sizeof *argv);
    if (argv == NULL) return false;
    unread_bytes argument;
    while (made < count && next_argument(&command, &argument)) {
        const char *text = (const char *)argument.at;
        argv[made++] = RedisModule_CreateString(NULL, text, argument.left);
    }
    bool is_whole = made == count && command.left == 0;
    bool added = is_whole ? run(writes, argv, count)
                          : add_error("ERR Protocol error: not an array of bulk strings");
    for (size_t at = 0; at < made; at++) RedisModule_FreeString(NULL, argv[at]);
    free(argv);
    return added;
}

static void fail(petasos_answer *answer, petasos_code code, const char *why) {
    petasos_answer_failure(answer, code, (const uint8_t *)why, strlen(why));
}

/* Answers a request: petasos_handle. */
static void handle(void *context, const petasos_request *request, petasos_answer *answer) {
    (void)context;
    bool writes = request->method.length == 5;
    unread_bytes message = {request->message.data, request->message.length}, command;
    /* Looked at before anything runs: a request is run as a whole, or not at all. */
    unread_bytes ahead = message;
    while (next_command(&ahead, &command)) {}
    if (ahead.left > 0) return fail(answer, PETASOS_INVALID_ARGUMENT, "not a list of commands");
    node.replies_length = 0;
    bool added = add_reply("", 0);
    while (added && next_command(&message, &command)) {
        *(writes ? &node.writes : &node.reads) += 1;
        added = run_bytes(writes, command);
    }
    if (!added) return fail(answer, PETASOS_RESOURCE_EXHAUSTED, "no memory for the replies");
    uint8_t *wrapped = wrap_replies(node.replies + HEAD_BYTES, node.replies_length);
    size_t length = node.replies_length + (size_t)(node.replies + HEAD_BYTES - wrapped);
    if (petasos_answer_message(answer, wrapped, length) != PETASOS_OK)
        fail(answer, PETASOS_RESOURCE_EXHAUSTED, "the replies are too long");
    if (node.replies_room > KEPT_BYTES) {
        free(node.replies);
        node.replies = NULL;
        node.replies_room = 0;
    }
}

/* The endpoint has something to do: a RedisModuleEventLoopFunc. */
static void on_readable(int fd, void *data, int mask) {
    (void)fd, (void)data, (void)mask;
    node.is_ready = true;
}

static petasos_code make_loop(void) {
    petasos_service *service = NULL;
    petasos_code code =
        petasos_service_described(DESCRIPTORS, sizeof DESCRIPTORS, SERVICE, &service);
    if (code != PETASOS_OK) return code;
    petasos_join_options join = {.struct_bytes = sizeof join, .target = node.group};
    join.bound = node.bound;
    join.is_primary = node.is_primary;
    const petasos_join_options *joins[] = {&join};
    petasos_loop_options options = {.struct_bytes = sizeof options, .listen = node.listen};
    options.plaintext = node.plaintext;
    options.tls = node.has_tls ? &node.tls : NULL;
    options.joins = joins;
    options.join_count = 1;
    const petasos_service *services[] = {service};
    petasos_handler handler = {.handle = handle, .context = NULL};
    code = petasos_loop_new(services, 1, &handler, &options, &node.loop);
    petasos_service_free(service);
    return code;
}

static void close_loop(void) {
    if (node.loop == NULL) return;
    RedisModule_EventLoopDel(petasos_loop_descriptor(node.loop), REDISMODULE_EVENTLOOP_READABLE);
    petasos_loop_free(node.loop);
    node.loop = NULL;
}

/* Opens a loop once this node can be a worker. */
static void open_loop(RedisModuleCtx *ctx) {
    int flags = RedisModule_GetContextFlags(ctx);
    node.is_primary = flags & REDISMODULE_CTX_FLAGS_MASTER;
    node.was_online |= (flags & REDISMODULE_CTX_FLAGS_REPLICA_IS_ONLINE) != 0;
    time_t now = time(NULL);
    if (!(node.is_primary || node.was_online) || now < node.tried_at + RETRY_SECONDS) return;
    node.tried_at = now;
    if (node.ctx == NULL) node.ctx = RedisModule_GetDetachedThreadSafeContext(ctx);
    if (make_loop() != PETASOS_OK) {
        petasos_slice why = petasos_status_message(petasos_last_error());
        RedisModule_Log(ctx, "warning", "petasos: %.*s", (int)why.length, (const char *)why.data);
        return;
    }
    int fd = petasos_loop_descriptor(node.loop);
    if (RedisModule_EventLoopAdd(fd, REDISMODULE_EVENTLOOP_READABLE, on_readable, NULL) !=
        REDISMODULE_OK) {
        RedisModule_Log(ctx, "warning", "petasos: maxclients allows no more descriptors");
        petasos_loop_free(node.loop);
        node.loop = NULL;
        return;
    }
    node.tried_at = 0;
    node.is_ready = true;
    RedisModule_Log(ctx, "notice", "petasos: port %d, joins %s as %s",
                    petasos_loop_port(node.loop), node.group,
                    node.is_primary ? "primary" : "replica");
}

static void turn(RedisModuleCtx *ctx) {
    node.is_ready = false;
    /* A user may be deleted or changed at any time, so it is looked up for each turn. */
    RedisModuleString *name = RedisModule_CreateString(ctx, node.user, strlen(node.user));
    node.acl = RedisModule_GetModuleUserFromUserName(name);
    RedisModule_FreeString(ctx, name);
    RedisModule_SetContextUser(node.ctx, node.acl);
    petasos_loop_turn(node.loop, 0);
    RedisModule_SetContextUser(node.ctx, NULL);
    if (node.acl != NULL) RedisModule_FreeModuleUser(node.acl);
    node.acl = NULL;
}

static void on_event_loop(RedisModuleCtx *ctx, RedisModuleEvent event, uint64_t subevent,
                          void *data) {
    (void)event, (void)data;
    if (subevent != REDISMODULE_SUBEVENT_EVENTLOOP_BEFORE_SLEEP) return;
    if (node.loop == NULL) open_loop(ctx);
    if (node.loop != NULL && node.is_ready) turn(ctx);
}

/* Redis has become a primary, or a replica. */
static void on_role(RedisModuleCtx *ctx, RedisModuleEvent event, uint64_t subevent, void *data) {
    (void)ctx, (void)event, (void)subevent, (void)data;
    node.was_online = false;
    close_loop();
}

static void on_shutdown(RedisModuleCtx *ctx, RedisModuleEvent event, uint64_t subevent,
                        void *data) {
    (void)ctx, (void)event, (void)subevent, (void)data;
    close_loop();
}

static const char *membership(void) {
    if (node.loop == NULL) return "not ready";
    switch (petasos_loop_joined(node.loop, 0)) {
    case PETASOS_OK: return "member";
    case PETASOS_PENDING: return "joining";
    default: return "not a member";
    }
}

/* PETASOS.STATUS: what the node is in its group, and what it has run. */
static int status(RedisModuleCtx *ctx, RedisModuleString **argv, int argc) {
    (void)argv, (void)argc;
    RedisModule_ReplyWithArray(ctx, 12);
    RedisModule_ReplyWithCString(ctx, "membership");
    RedisModule_ReplyWithCString(ctx, membership());
    RedisModule_ReplyWithCString(ctx, "role");
    RedisModule_ReplyWithCString(ctx, node.is_primary ? "primary" : "replica");
    RedisModule_ReplyWithCString(ctx, "port");
    RedisModule_ReplyWithLongLong(ctx, node.loop == NULL ? 0 : petasos_loop_port(node.loop));
    RedisModule_ReplyWithCString(ctx, "reads");
    RedisModule_ReplyWithLongLong(ctx, node.reads);
    RedisModule_ReplyWithCString(ctx, "writes");
    RedisModule_ReplyWithLongLong(ctx, node.writes);
    RedisModule_ReplyWithCString(ctx, "refused");
    return RedisModule_ReplyWithLongLong(ctx, node.refused);
}

/* A copy of an argument, which lives as long as the process. */
static const char *text_of(const RedisModuleString *argument) {
    size_t length;
    const char *text = RedisModule_StringPtrLen(argument, &length);
    return strndup(text, length);
}

/* Reads `loadmodule`'s arguments. Returns what is wrong; null if nothing is. */
static const char *read_options(RedisModuleString **argv, int argc) {
    node.bound = BOUND;
    node.user = "default";
    for (int at = 0; at < argc; at++) {
        const char *option = text_of(argv[at]);
        int left = argc - at - 1;
        if (strcmp(option, "plaintext") == 0) {
            node.plaintext = true;
            continue;
        }
        if (left < 1) return "an option has no value, or is none of group, listen, bound, user, "
                             "tls and plaintext";
        const char *value = text_of(argv[++at]);
        if (strcmp(option, "group") == 0) node.group = value;
        else if (strcmp(option, "listen") == 0) node.listen = value;
        else if (strcmp(option, "user") == 0) node.user = value;
        else if (strcmp(option, "bound") == 0) {
            long bound = strtol(value, NULL, 10);
            if (bound < 1 || bound > 4095) return "bound is a number from 1 to 4095";
            node.bound = (uint16_t)bound;
        } else if (strcmp(option, "tls") == 0) {
            if (left < 3) return "tls takes three files: authorities, certificate, key";
            node.has_tls = true;
            node.tls.struct_bytes = sizeof node.tls;
            node.tls.authorities_file = value;
            node.tls.certificate_file = text_of(argv[++at]);
            node.tls.key_file = text_of(argv[++at]);
        } else {
            return "the options are group, listen, bound, user, tls and plaintext";
        }
    }
    if (node.group == NULL || node.listen == NULL)
        return "give `group router://HOST:PORT` and `listen HOST:PORT`";
    return NULL;
}

__attribute__((visibility("default")))
int RedisModule_OnLoad(RedisModuleCtx *ctx, RedisModuleString **argv, int argc) {
    if (redis_api_find(ctx) != REDISMODULE_OK) return REDISMODULE_ERR;
    RedisModule_SetModuleAttribs(ctx, "petasos", 1, REDISMODULE_APIVER_1);
    const char *wrong = read_options(argv, argc);
    if (wrong == NULL && petasos_abi_version() < 4) wrong = "libpetasos is older than version 4";
    if (wrong != NULL) {
        RedisModule_Log(ctx, "warning", "petasos: %s", wrong);
        return REDISMODULE_ERR;
    }
    if (RedisModule_CreateCommand(ctx, "petasos.status", status, "readonly fast", 0, 0, 0) !=
        REDISMODULE_OK)
        return REDISMODULE_ERR;
    RedisModule_SubscribeToServerEvent(ctx, RedisModuleEvent_EventLoop, on_event_loop);
    RedisModule_SubscribeToServerEvent(ctx, RedisModuleEvent_ReplicationRoleChanged, on_role);
    RedisModule_SubscribeToServerEvent(ctx, RedisModuleEvent_Shutdown, on_shutdown);
    return REDISMODULE_OK;
}

/* The endpoint has a thread, so the library cannot be unloaded. */
__attribute__((visibility("default")))
int RedisModule_OnUnload(RedisModuleCtx *ctx) {
    (void)ctx;
    return REDISMODULE_ERR;
}
