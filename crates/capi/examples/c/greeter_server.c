/* A greeter, which callers find at two ports, one for Petasos and one for gRPC.
 *
 *     greeter_server greeter.proto 127.0.0.1:7000 127.0.0.1:7001
 *     greeter_server --tls ca.pem cert.pem key.pem PEER greeter.proto 127.0.0.1:7000 127.0.0.1:7001
 *     greeter_server greeter.proto 127.0.0.1:0 127.0.0.1:0 router://127.0.0.1:7002
 *
 * With a fourth argument it joins a group of greeters, whose router gives it calls as well. Prints
 * both ports, and serves until its standard input ends. This thread waits for that; another
 * takes the calls.
 */

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "message.h"
#include "petasos.h"
#include "tls.h"

/* Says what failed. */
static int failed(const char *what, petasos_code code) {
    petasos_slice message = petasos_status_message(petasos_last_error());
    fprintf(stderr, "%s: code %d: %.*s\n", what, (int)code, (int)message.length,
            (const char *)message.data);
    return 1;
}

static petasos_code finish(petasos_call *call, petasos_code code, const char *message) {
    const uint8_t *text = (const uint8_t *)message;
    return petasos_call_finish(call, code, text, strlen(message), NULL, 0, NULL);
}

/* Answers each name with a greeting; a method with one request has one of them. */
static petasos_code greet(petasos_call *call) {
    petasos_bytes request = {0};
    petasos_code code;
    while ((code = petasos_call_receive(call, -1, &request)) == PETASOS_OK) {
        char name[TEXT_BYTES_MAX + 1], text[TEXT_BYTES_MAX + 8];
        text_decode(request.data, request.length, name);
        petasos_bytes_free(&request);
        if (!name[0]) return finish(call, PETASOS_INVALID_ARGUMENT, "nobody is named");
        snprintf(text, sizeof text, "Hello, %s", name);
        text_message response = text_encode(text);
        code = petasos_call_send(call, response.bytes, response.length, -1);
        if (code != PETASOS_OK) return code;
    }
    return code == PETASOS_END ? finish(call, PETASOS_OK, "") : code;
}

/* Takes calls until the server ends. Larger programs have several such threads, or use
 * petasos_server_poll_accept and an event loop. */
static void *take_calls(void *argument) {
    petasos_server *server = argument;
    petasos_call *call;
    while (petasos_server_accept(server, -1, &call) == PETASOS_OK) {
        petasos_code code = greet(call);
        if (code != PETASOS_OK) failed("a call", code);
        petasos_call_free(call);
    }
    return NULL;
}

/* Serves until the standard input ends. */
static int serve(petasos_server *server) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, take_calls, server) != 0) return 1;
    printf("%u %u\n", petasos_server_port(server), petasos_server_grpc_port(server));
    fflush(stdout);
    while (getchar() != EOF) continue;
    petasos_code code = petasos_server_drain(server, 1000000);
    pthread_join(thread, NULL);
    return code == PETASOS_OK ? 0 : failed("draining", code);
}

int main(int count, char **arguments) {
    petasos_tls_options tls;
    const petasos_tls_options *secured = take_tls(&count, &arguments, &tls);
    if (count != 4 && count != 5) {
        fprintf(stderr,
                "usage: %s [--tls AUTHORITIES CERTIFICATE KEY PEER] "
                "PROTO ADDRESS GRPC_ADDRESS [GROUP]\n",
                arguments[0]);
        return 2;
    }
    /* The file is found in the directory that it is in. */
    char *slash = strrchr(arguments[1], '/');
    const char *file = slash ? slash + 1 : arguments[1], *folder = slash ? arguments[1] : ".";
    if (slash) *slash = 0;
    petasos_server_options options = {.struct_bytes = sizeof options,
                                      .listen = arguments[2],
                                      .grpc_listen = arguments[3],
                                      .tls = secured};
    const petasos_join_options join = {.struct_bytes = sizeof join, .target = arguments[4]};
    const petasos_join_options *joins[] = {&join};
    if (count == 5) {
        options.joins = joins;
        options.join_count = 1;
    }
    petasos_bytes descriptors = {0};
    petasos_service *service = NULL;
    petasos_server *server = NULL;
    petasos_code code = petasos_compile(&file, 1, &folder, 1, &descriptors);
    if (code == PETASOS_OK) {
        code = petasos_service_described(descriptors.data, descriptors.length, "hello.Greeter",
                                         &service);
    }
    if (code == PETASOS_OK) {
        const petasos_service *services[] = {service};
        code = petasos_server_start(services, 1, &options, &server);
    }
    int result = code == PETASOS_OK ? serve(server) : failed("starting", code);
    petasos_server_free(server);
    petasos_service_free(service);
    petasos_bytes_free(&descriptors);
    return result;
}
