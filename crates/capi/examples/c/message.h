/* The two messages of greeter.proto, which have one text each. Larger programs take nanopb, upb or
 * protobuf-c for this. */

#ifndef GREETER_MESSAGE_H
#define GREETER_MESSAGE_H

#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Longest text. */
#define TEXT_BYTES_MAX 100

/* A message in protobuf's encoding: field 1, a text. */
typedef struct {
    uint8_t bytes[2 + TEXT_BYTES_MAX];
    size_t length;
} text_message;

static inline text_message text_encode(const char *text) {
    text_message message;
    size_t length = strlen(text);
    if (length > TEXT_BYTES_MAX) length = TEXT_BYTES_MAX;
    message.bytes[0] = 1 << 3 | 2;
    message.bytes[1] = (uint8_t)length;
    memcpy(message.bytes + 2, text, length);
    message.length = 2 + length;
    return message;
}

/* Copies the text of a message, with a zero at its end. */
static inline void text_decode(const uint8_t *bytes, size_t length, char text[TEXT_BYTES_MAX + 1]) {
    text[0] = 0;
    if (length < 2 || bytes[0] != (1 << 3 | 2)) return;
    if (bytes[1] > TEXT_BYTES_MAX || (size_t)bytes[1] + 2 > length) return;
    memcpy(text, bytes + 2, bytes[1]);
    text[bytes[1]] = 0;
}

#endif
