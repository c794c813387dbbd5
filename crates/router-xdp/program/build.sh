#!/bin/sh
# Compiles the program. The object is committed, so that users need no compiler; `cargo xtask ci
# programs` compares its instructions with what this makes. Debian's clang 14 is the compiler:
# others make other instructions of it.
set -eu
cd "$(dirname "$0")"
clang-14 -target bpfel -mcpu=v3 -O2 -Wall -Wextra -Werror -fno-stack-protector \
    -c router.bpf.c -o "${1:-router.bpf.o}"
