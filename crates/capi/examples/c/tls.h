/* `--tls AUTHORITIES CERTIFICATE KEY PEER` before a program's other arguments: three files in PEM,
 * and the name that the other end must have in its certificate. */

#ifndef TLS_H
#define TLS_H

#include <string.h>

#include "petasos.h"

/* Takes the option out of the arguments. The options to be used, or null. */
static const petasos_tls_options *take_tls(int *count, char ***arguments,
                                           petasos_tls_options *tls) {
    if (*count < 6 || strcmp((*arguments)[1], "--tls") != 0) return NULL;
    *tls = (petasos_tls_options){.struct_bytes = sizeof *tls,
                                 .authorities_file = (*arguments)[2],
                                 .certificate_file = (*arguments)[3],
                                 .key_file = (*arguments)[4],
                                 .peer_name = (*arguments)[5]};
    (*arguments)[5] = (*arguments)[0];
    *arguments += 5;
    *count -= 5;
    return tls;
}

#endif
