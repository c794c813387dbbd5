/* Calls a greeter.
 *
 *     greeter_client petasos://127.0.0.1:7000 NAME…
 *     greeter_client grpc://127.0.0.1:7001 NAME…
 *     greeter_client --tls ca.pem cert.pem key.pem PEER grpcs://127.0.0.1:7001 NAME…
 *     greeter_client --proto greeter.proto petasos://127.0.0.1:7000 NAME…
 *     greeter_client router://127.0.0.1:7002 NAME…
 *
 * Without `--proto`, the service is known by the names of its methods. With it, the file describes
 * the service, as the managed service of the host (PETASOS_SERVICE) needs it. A `router://` target
 * is a group of greeters: its router gives those who have the same name to the same one.
 */

#include <stdbool.h>
#include <stdlib.h>

#include "message.h"
#include "petasos.h"
#include "tls.h"

#define SECOND_US 1000000

/* Says what failed. */
static int failed(const char *what, petasos_code code) {
    petasos_slice message = petasos_status_message(petasos_last_error());
    fprintf(stderr, "%s: code %d: %.*s\n", what, (int)code, (int)message.length,
            (const char *)message.data);
    return 1;
}

/* Prints the next greeting; PETASOS_END behind the last. */
static petasos_code print_next(petasos_call *call) {
    petasos_bytes message = {0};
    char text[TEXT_BYTES_MAX + 1];
    petasos_code code = petasos_call_receive(call, -1, &message);
    if (code != PETASOS_OK) return code;
    text_decode(message.data, message.length, text);
    printf("%s\n", text);
    petasos_bytes_free(&message);
    return PETASOS_OK;
}

/* One request, one response. */
static int greet(const petasos_client *client, const char *name) {
    petasos_call *call;
    text_message request = text_encode(name);
    const petasos_routing routing = {.struct_bytes = sizeof routing,
                                     .policy = PETASOS_ROUTE_KEY,
                                     .key = (const uint8_t *)name,
                                     .key_length = strlen(name)};
    petasos_code code = petasos_call_start_routed(client, "Greet", request.bytes, request.length,
                                                  5 * SECOND_US, NULL, &routing, &call);
    if (code != PETASOS_OK) return failed("Greet", code);
    code = print_next(call);
    if (code == PETASOS_OK) code = petasos_call_receive(call, -1, &(petasos_bytes){0});
    int result = code == PETASOS_END ? 0 : failed("Greet", code);
    petasos_call_free(call);
    return result;
}

/* Streams both ways. */
static int greet_all(const petasos_client *client, char **names, int count) {
    petasos_call *call;
    petasos_code code = petasos_call_start(client, "GreetAll", NULL, 0, 5 * SECOND_US, NULL, &call);
    if (code != PETASOS_OK) return failed("GreetAll", code);
    for (int at = 0; at < count && code == PETASOS_OK; at++) {
        text_message request = text_encode(names[at]);
        code = petasos_call_send(call, request.bytes, request.length, -1);
        if (code == PETASOS_OK) code = print_next(call);
    }
    if (code == PETASOS_OK) code = petasos_call_close_send(call);
    if (code == PETASOS_OK) code = print_next(call);
    int result = code == PETASOS_END ? 0 : failed("GreetAll", code);
    petasos_call_free(call);
    return result;
}

/* The service as names describe it. */
static petasos_code named(petasos_service **service) {
    const petasos_method methods[] = {{"Greet", PETASOS_UNARY},
                                      {"GreetAll", PETASOS_BIDIRECTIONAL}};
    return petasos_service_named("hello.Greeter", methods, 2, service);
}

/* The service as a file in the working directory or below it describes it. */
static petasos_code described(const char *file, petasos_service **service) {
    const char *folder = ".";
    petasos_bytes descriptors = {0};
    petasos_code code = petasos_compile(&file, 1, &folder, 1, &descriptors);
    if (code == PETASOS_OK) {
        code = petasos_service_described(descriptors.data, descriptors.length, "hello.Greeter",
                                         service);
    }
    petasos_bytes_free(&descriptors);
    return code;
}

int main(int count, char **arguments) {
    petasos_tls_options tls;
    const petasos_channel_options options = {.struct_bytes = sizeof options,
                                             .tls = take_tls(&count, &arguments, &tls)};
    const char *file = NULL;
    if (count > 2 && strcmp(arguments[1], "--proto") == 0) {
        file = arguments[2];
        arguments += 2;
        count -= 2;
    }
    if (count < 3) {
        fprintf(stderr, "usage: greeter_client [--tls AUTHORITIES CERTIFICATE KEY PEER] "
                        "[--proto FILE] TARGET NAME...\n");
        return 2;
    }
    petasos_service *service = NULL;
    petasos_channel *channel = NULL;
    petasos_client *client = NULL;
    petasos_code code = file ? described(file, &service) : named(&service);
    if (code == PETASOS_OK) code = petasos_channel_connect(arguments[1], &options, &channel);
    if (code == PETASOS_OK) code = petasos_client_new(channel, service, &client);
    int result = code == PETASOS_OK ? 0 : failed(arguments[1], code);
    if (result == 0) result = greet(client, arguments[2]);
    if (result == 0) result = greet_all(client, arguments + 2, count - 2);
    petasos_client_free(client);
    petasos_channel_free(channel);
    petasos_service_free(service);
    return result;
}
