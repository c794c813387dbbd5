/*
 * The bytes of requests: messages of redis.proto, whose commands are RESP arrays of bulk strings.
 *
 * Everything here comes from the network. What is wrong is refused, and nothing is allocated for a
 * length before so many bytes are there.
 */

#ifndef PETASOS_REDIS_COMMANDS_H
#define PETASOS_REDIS_COMMANDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Bytes that are still to be read. */
typedef struct {
    const uint8_t *at;
    size_t left;
} unread_bytes;

/* Tag of field 1 of both messages, whose values are bytes. */
#define COMMAND_TAG (1 << 3 | 2)

/* The shortest argument, "$0\r\n\r\n". */
#define ARGUMENT_BYTES_MIN 6

/* The next command of a message; false if the message is wrong or at its end. */
static inline bool next_command(unread_bytes *message, unread_bytes *command) {
    if (message->left == 0 || *message->at != COMMAND_TAG) return false;
    uint64_t length = 0;
    size_t used = 1;
    for (unsigned shift = 0;; shift += 7) {
        if (used == message->left || shift > 28) return false;
        uint8_t byte = message->at[used++];
        length |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) break;
    }
    if (length > message->left - used) return false;
    command->at = message->at + used;
    command->left = (size_t)length;
    message->at += used + length;
    message->left -= used + length;
    return true;
}

/* Reads KIND, a number of at most 9 digits, and the end of a line. */
static inline bool read_count(unread_bytes *from, char kind, size_t *count) {
    size_t at = 1;
    if (from->left < 4 || from->at[0] != (uint8_t)kind) return false;
    for (*count = 0; at < from->left && from->at[at] != '\r'; at++) {
        uint8_t digit = (uint8_t)(from->at[at] - '0');
        if (digit > 9 || at > 9) return false;
        *count = *count * 10 + digit;
    }
    if (at == 1 || from->left - at < 2 || from->at[at + 1] != '\n') return false;
    from->at += at + 2;
    from->left -= at + 2;
    return true;
}

/* Begins a command: how many arguments it has, of which there is one at least. */
static inline bool read_arguments(unread_bytes *command, size_t *count) {
    return read_count(command, '*', count) && *count > 0 &&
           *count <= command->left / ARGUMENT_BYTES_MIN;
}

/* The next argument. */
static inline bool next_argument(unread_bytes *command, unread_bytes *argument) {
    size_t length;
    if (!read_count(command, '$', &length)) return false;
    if (command->left < 2 || length > command->left - 2) return false;
    if (memcmp(command->at + length, "\r\n", 2) != 0) return false;
    argument->at = command->at;
    argument->left = length;
    command->at += length + 2;
    command->left -= length + 2;
    return true;
}

/* Writes a message with one field of so many bytes before them. Returns where it begins; 11 bytes
 * must be free there. */
static inline uint8_t *wrap_replies(uint8_t *replies, size_t length) {
    uint8_t head[11] = {COMMAND_TAG};
    size_t used = 1;
    for (uint64_t left = length; used == 1 || left > 0; left >>= 7)
        head[used++] = (uint8_t)(left & 0x7f) | (left > 0x7f ? 0x80 : 0);
    memcpy(replies - used, head, used);
    return replies - used;
}

#endif
