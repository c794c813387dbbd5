#!/bin/sh
# Compiles the programs, to this folder or another. The objects are committed, so that users need no
# compiler; `cargo xtask ci programs` compares them with what this makes. Debian's clang 14 is the
# compiler: others make other instructions of it.
set -eu
to=$(realpath "${1:-$(dirname "$0")}")
cd "$(dirname "$0")"
for name in router reflector; do
    clang-14 -target bpfel -mcpu=v3 -O2 -Wall -Wextra -Werror -fno-stack-protector \
        -c "$name.bpf.c" -o "$to/$name.bpf.o"
done
