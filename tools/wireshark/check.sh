#!/usr/bin/env bash
# Checks petasos.lua: packs headers of known fields, lets tshark dissect them, and compares.
#
# The headers are packed here from the bit budgets of docs/spec/wire.md and docs/spec/route.md, by
# other code than the dissector's. With `--dump` the dissection is printed as text and not compared.
set -euo pipefail
cd "$(dirname "$0")"

for program in tshark text2pcap; do
    if ! command -v "$program" > /dev/null; then
        echo "dissector: $program is missing; install with: sudo apt-get install tshark" >&2
        exit 1
    fi
done

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
# tshark reads no settings of the user's, so that the result is the same everywhere.
export HOME=$folder XDG_CONFIG_HOME=$folder

# le64 WORD: the eight bytes of a word, in hexadecimal, least significant first.
le64() {
    local at
    for at in 0 8 16 24 32 40 48 56; do printf '%02x ' $((($1 >> at) & 255)); done
}

# word0 VERSION KIND FLAGS SESSION TAG
word0() { le64 $(($1 | $2 << 4 | $3 << 8 | $4 << 16 | $5 << 36)); }
# word1 REQUEST TRANSMISSION
word1() { le64 $(($1 | $2 << 40)); }
# client PACKET_INDEX MESSAGE_BYTES METHOD
client() { le64 $(($1 | $2 << 20 | $3 << 48)); }
# server ECHO VALUE CREDITS
server() { le64 $(($1 | $2 << 24 | $3 << 52)); }
# word3 POLICY PRIORITY FLAGS PORT CLIENT EPOCH: of a routing block; the port in network order.
word3() {
    le64 $(($1 | $2 << 4 | $3 << 8 | ($4 >> 8 | ($4 & 255) << 8) << 16 | $5 << 32 | $6 << 52))
}
# word6 PAIR TAG NUMBER_HIGH
word6() { le64 $(($1 | $2 << 20 | $3 << 48)); }
# word7 LIFETIME_US KEY_HASH
word7() { le64 $(($1 | $2 << 32)); }
# worker SESSION TAG WORKER: a worker block.
worker() { le64 $(($1 | $2 << 20 | $3 << 48)); }
# filler COUNT: that many bytes of payload.
filler() { printf 'ab %.0s' $(seq "$1"); }

expected=$folder/expected
dump=$folder/dump
capture=$folder/capture.pcap
: > "$expected"
: > "$dump"

# grouped COMMON OWN GROUP HEX…: one UDP payload, and what tshark must find in it: the fields that
# every packet has, those of its kind, and those of requests to groups.
grouped() {
    echo "$1;$2;$3" >> "$expected"
    shift 3
    echo "000000 $*" >> "$dump"
}

# packet COMMON OWN HEX…: the same without fields of requests to groups.
packet() {
    grouped "$1" "$2" "$no_group" "${@:3}"
}

fields=(
    _ws.col.Protocol petasos.version petasos.kind petasos.from_server
    petasos.flags.key_phase petasos.flags.ecn_echo petasos.flags.encoding
    petasos.flags.checksum petasos.flags.later
    petasos.session petasos.tag petasos.request petasos.transmission
    petasos.packet_index petasos.message_bytes petasos.method
    petasos.pull_start petasos.pull_end
    petasos.echo petasos.arrived petasos.reject_code petasos.value petasos.credits
    petasos.acked petasos.payload petasos.crc32c
    petasos.seal petasos.routed.policy petasos.routed.priority petasos.routed.claim
    petasos.routed.port petasos.routed.client petasos.routed.epoch petasos.routed.ipv4
    petasos.routed.ipv6 petasos.routed.pair petasos.routed.pair_tag petasos.routed.number
    petasos.routed.given petasos.routed.lifetime_us petasos.routed.key_hash
    petasos.worker petasos.worker.session petasos.worker.tag
    petasos.feedback.received petasos.feedback.settled petasos.feedback.bound
)
no_group=';;;;;;;;;;;;;;;;;;;;'

# Protocol version kind server, key ecn encoding crc later, session tag request transmission;
# then index bytes method, pull, echo arrived code value credits, acked payload crc; of groups seal,
# policy priority claim, port client epoch ipv4 ipv6, pair tag number, given lifetime hash, worker
# session tag, received settled bound.

# Every field of a client's packet at its greatest value but for a few low bits.
packet 'Petasos;1;1;0;0;0;2;0;0;1048574;0x0ffffffd;1099511627772;16777211' \
    '262138;268435448;65527;;;;;;;;;ababab;' \
    "$(word0 1 1 0x08 1048574 0x0ffffffd)$(word1 1099511627772 16777211)" \
    "$(client 262138 268435448 65527)$(filler 3)"
# An empty request.
packet 'Petasos;1;1;0;0;0;0;0;0;0;0x00000000;0;0' '0;0;0;;;;;;;;;;' \
    "$(word0 1 1 0 0 0)$(word1 0 0)$(client 0 0 0)"
packet 'Petasos;1;2;0;1;0;0;0;0;7;0x0000beef;8;9' ';;;32;64;;;;;;;;' \
    "$(word0 1 2 0x01 7 0xbeef)$(word1 8 9)$(client 32 64 0)"
packet 'Petasos;1;3;0;0;0;0;0;0;7;0x0000beef;8;10' ';;;;;;;;;;;;' \
    "$(word0 1 3 0 7 0xbeef)$(word1 8 10)$(client 0 0 0)"
# A response's first packet has the message's length, with the ECN echo and a checksum.
packet 'Petasos;1;8;1;0;1;0;1;0;3;0x0000beef;8;11' \
    '0;268435455;;;;16777214;;;;4095;;abababab;0x04030201' \
    "$(word0 1 8 0x12 3 0xbeef)$(word1 8 11)$(server 16777214 268435455 4095)" \
    "$(filler 4)01 02 03 04"
# A later one has its index.
packet 'Petasos;1;8;1;0;0;0;0;1;3;0x0000beef;8;12' '1048575;;;;;5;;;;32;;abab;' \
    "$(word0 1 8 0x20 3 0xbeef)$(word1 8 12)$(server 5 1048575 32)$(filler 2)"
# Bits 1, 2, 64 and 127 beyond packet 10.
packet 'Petasos;1;9;1;0;0;0;0;0;3;0x0000beef;8;13' ';;;;;6;10;;;16;11,12,74,137;;' \
    "$(word0 1 9 0 3 0xbeef)$(word1 8 13)$(server 6 10 16)" \
    "06 00 00 00 00 00 00 00 01 00 00 00 00 00 00 80"
packet 'Petasos;1;10;1;0;0;0;0;0;3;0x0000beef;8;14' ';;;;;7;;3;;8;;;' \
    "$(word0 1 10 0 3 0xbeef)$(word1 8 14)$(server 7 3 8)"
packet 'Petasos;1;11;1;0;0;0;0;0;3;0x0000beef;8;15' ';;;;;8;;;0;0;;;' \
    "$(word0 1 11 0 3 0xbeef)$(word1 8 15)$(server 8 0 0)"
after=';;;;;;' hash=0x55667788 seal=01010101010101010101010101010101
# A claim on its way to the router, to be answered at 10.1.2.3:8080.
grouped 'Petasos;1;5;0;0;0;2;0;0;332340;0x00beef01;8;14614546' ';3;61458;;;;;;;;;616263;' \
    ";2;9;1;8080;332340;2748;10.1.2.3;;541473;0x07654321;737893351442;0;287454020;$hash$after" \
    "$(word0 1 5 0x08 332340 0xbeef01)$(word1 8 14614546)$(client 0 3 61458)" \
    "$(word3 2 9 1 8080 332340 2748)00 00 00 00 00 00 00 00 00 00 ff ff 0a 01 02 03" \
    "$(word6 541473 0x07654321 0xabcd)$(word7 0x11223344 0x55667788)61 62 63"
# A sealed whole one on its way to a worker, without a limit, over IPv6.
grouped 'Petasos;1;5;0;0;0;0;1;0;524289;0x0000beef;8;7' ';2;1;;;;;;;;;abab;' \
    "$seal;0;0;0;1;3;5;;2001:db8::7;524295;0x00000002;7;1048575;4294967295;0x00000000$after" \
    "$(word0 1 5 0x10 524289 0xbeef)$(word1 8 7)$(client 1048575 2 1)" \
    "$(word3 0 0 0 1 3 5)20 01 0d b8 00 00 00 00 00 00 00 00 00 00 00 07" \
    "$(word6 524295 2 0)$(word7 0xffffffff 0)$(filler 2)" \
    "01 01 01 01 01 01 01 01 01 01 01 01 01 01 01 01"
# A probe.
grouped 'Petasos;1;5;0;0;0;0;0;0;524289;0x0000beef;0;0' ';0;0;;;;;;;;;;' \
    ";15;0;0;0;0;0;;::;0;0x00000000;0;9;0;0x00000000$after" \
    "$(word0 1 5 0 524289 0xbeef)$(word1 0 0)$(client 9 0 0)$(word3 15 0 0 0 0 0)" \
    "00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 $(word6 0 0 0)$(word7 0 0)"
# To a pair: a response, a later packet of it, a reject of the router, a ready.
grouped 'Petasos;1;8;1;0;0;0;0;0;524288;0x0000beef;8;11' '0;2;;;;7;;;;16;;abab;' \
    ';;;;;;;;;;;;;;;300;524289;0x0fffffff;;;' \
    "$(word0 1 8 0 524288 0xbeef)$(word1 8 11)$(server 7 2 16)$(worker 524289 0x0fffffff 300)" \
    "$(filler 2)"
packet 'Petasos;1;8;1;0;0;0;0;1;524288;0x0000beef;8;12' '1;;;;;7;;;;16;;abab;' \
    "$(word0 1 8 0x20 524288 0xbeef)$(word1 8 12)$(server 7 1 16)$(filler 2)"
grouped 'Petasos;1;10;1;0;0;0;0;0;524288;0x0000beef;8;13' ';;;;;7;;8;;0;;;' \
    ';;;;;;;;;;;;;;;0;0;0x00000000;;;' \
    "$(word0 1 10 0 524288 0xbeef)$(word1 8 13)$(server 7 8 0)$(worker 0 0 0)"
grouped 'Petasos;1;12;1;0;0;0;0;0;524288;0x0000beef;8;14' ';;;;;7;1;;;16;;;' \
    ';;;;;;;;;;;;;;;65535;524289;0x00000001;;;' \
    "$(word0 1 12 0 524288 0xbeef)$(word1 8 14)$(server 7 1 16)$(worker 524289 1 65535)"
grouped 'Petasos;1;13;1;0;0;0;0;0;3;0x0000beef;1099511627775;5' ';;;;;;;;;;;;' \
    ';;;;;;;;;;;;;;;;;;1048575;268435455;4095' \
    "$(word0 1 13 0 3 0xbeef)$(word1 1099511627775 5)$(server 1048575 268435455 4095)"
# What is not ours is left alone: another version, kind 0, a reserved flag, a ragged
# acknowledgement, an index beyond the message, packets cut short, and of groups a reserved flag, a
# message that is not there, a ready with a payload, and feedback with one.
others=(packet 'UDP;;;;;;;;;;;;' ';;;;;;;;;;;;')
"${others[@]}" "$(word0 2 1 0 7 1)$(word1 8 9)$(client 0 0 0)"
"${others[@]}" "$(word0 1 0 0 7 1)$(word1 8 9)$(client 0 0 0)"
"${others[@]}" "$(word0 1 1 0x40 7 1)$(word1 8 9)$(client 0 0 0)"
"${others[@]}" "$(word0 1 9 0 7 1)$(word1 8 9)$(server 6 10 16)$(filler 7)"
"${others[@]}" "$(word0 1 1 0 7 1)$(word1 8 9)$(client 5 100 0)$(filler 3)"
"${others[@]}" "$(word0 1 1 0 7 1)$(word1 8 9)"
block="$(word3 0 0 0 1 3 5)$(filler 16)$(word6 524295 2 0)$(word7 1 0)"
"${others[@]}" "$(word0 1 5 0 7 1)$(word1 8 9)$(client 0 0 0)$(filler 39)"
"${others[@]}" "$(word0 1 5 0 7 1)$(word1 8 9)$(client 0 0 0)${block:0:4}2 ${block:6}"
"${others[@]}" "$(word0 1 5 0 7 1)$(word1 8 9)$(client 0 3 0)$block$(filler 2)"
"${others[@]}" "$(word0 1 12 0 524288 1)$(word1 8 9)$(server 7 1 16)$(worker 1 1 1)$(filler 1)"
"${others[@]}" "$(word0 1 13 0 7 1)$(word1 8 9)$(server 7 1 16)$(filler 1)"

text2pcap -q -u 40001,40002 "$dump" "$capture" > "$folder/log" 2>&1 || {
    cat "$folder/log" >&2
    exit 1
}

dissect() {
    tshark -n -r "$capture" -X lua_script:petasos.lua "$@" 2> "$folder/log" || {
        cat "$folder/log" >&2
        exit 1
    }
}

# compare WHAT GOT WANTED: fails with the differing lines.
compare() {
    if ! diff -u --label wanted "$3" --label got "$2" >&2; then
        echo "dissector: $1 are not decoded as they should be" >&2
        cat "$folder/log" >&2
        exit 1
    fi
}

if [ "${1:-}" = --dump ]; then
    dissect -V -O petasos
    exit 0
fi

options=(-T fields -E separator=';' -E occurrence=a -E aggregator=,)
for field in "${fields[@]}"; do options+=(-e "$field"); done
dissect "${options[@]}" | sed 's/True/1/g; s/False/0/g' > "$folder/got"
compare "packets recognised by their shape" "$folder/got" "$expected"

# Told that the port is ours, it says what is wrong with each of the others.
dissect -d udp.port==40002,petasos -Y petasos.malformed -T fields -e frame.number \
    -e _ws.expert.message > "$folder/got"
printf '%s\t%s\n' 18 'version 2' 19 'kind 0 is not assigned' 20 'a reserved flag is set' \
    23 'shorter than a header' 24 'shorter than its parts' > "$expected.malformed"
compare "malformed packets" "$folder/got" "$expected.malformed"

echo "dissector: $(wc -l < "$expected") packets decoded as they should be"
