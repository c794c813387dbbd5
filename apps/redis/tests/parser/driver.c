/* Gives what the module reads from messages: for each, which is a length in 4 bytes and so many
 * bytes, a line with its commands. Compiled with sanitizers, which end it at the first fault. */

#include <stdio.h>
#include <stdlib.h>

#include "commands.h"

static void say(unread_bytes command) {
    size_t count;
    unread_bytes argument;
    if (!read_arguments(&command, &count)) {
        printf(" -");
        return;
    }
    printf(" %zu", count);
    for (size_t at = 0; at < count; at++) {
        if (!next_argument(&command, &argument)) {
            printf(",-");
            return;
        }
        printf(",");
        for (size_t byte = 0; byte < argument.left; byte++) printf("%02x", argument.at[byte]);
    }
    if (command.left > 0) printf(",+");
}

int main(void) {
    uint32_t length;
    while (fread(&length, sizeof length, 1, stdin) == 1) {
        /* Of exactly this size, so that what is read beyond is found. */
        uint8_t *bytes = malloc(length ? length : 1);
        if (bytes == NULL || fread(bytes, 1, length, stdin) != length) return 1;
        unread_bytes message = {bytes, length}, command;
        while (next_command(&message, &command)) say(command);
        printf(message.left > 0 ? " wrong\n" : "\n");
        free(bytes);
        uint8_t room[16 + 4] = {0};
        uint8_t *head = wrap_replies(room + 16, length);
        uint64_t said = 0;
        for (uint8_t *at = head + 1; at < room + 16; at++)
            said |= (uint64_t)(*at & 0x7f) << 7 * (at - head - 1);
        if (head < room || *head != COMMAND_TAG || said != length) return 2;
    }
    return 0;
}
