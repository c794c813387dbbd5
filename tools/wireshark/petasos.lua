-- Wireshark dissector for the Petasos wire protocol, version 1 (docs/spec/wire.md).
--
-- Use: tshark -X lua_script:petasos.lua …, or copy it into Wireshark's folder of personal Lua
-- plugins. UDP packets are recognised by their shape; where that fails, "Decode As… Petasos".
--
-- A header is three little-endian words of 64 bits, fields from the least significant bit up:
--   word 0            version:4  kind:4  flags:8  session:20  tag:28
--   word 1            request:40  transmission:24
--   word 2, client    packet_index:20  message_bytes:28  method:16
--   word 2, server    echo:24  value:28  credits:12
--
-- Requests to groups (docs/spec/route.md): a first packet has five words more, and the first answer
-- to a pair one. A session whose index has bit 19 set is taken for a pair.
--   word 3, routed    policy:4  priority:4  flags:8  port:16  client:20  epoch:12
--   words 4, 5        address
--   word 6            pair:20  pair_tag:28  number_high:16
--   word 7            lifetime_us:32  key_hash:32
--   word 3, answer    session:20  tag:28  worker:16
--
-- Only arithmetic is used on fields, no bit library: which one there is depends on Wireshark's
-- version. Halves of words and the fields fit a double without loss.

local HEADER_BYTES = 24
local VERSION = 1
local PAYLOAD_BYTES_MIN = 1024
local BITMAP_BYTES_MAX = 128
local CHECKSUM_BYTES = 4
local SEAL_BYTES = 16
local ROUTING_BLOCK_BYTES = 40
local WORKER_BLOCK_BYTES = 8
local CLAIM_BYTES_MAX = 64
local PAIR_BIT = 2 ^ 19
local GIVEN_NUMBERS = 2 ^ 20
local NO_LIMIT = 2 ^ 32 - 1

local REQUEST, PULL, CANCEL, DONE, ROUTED = 1, 2, 3, 4, 5
local RESPONSE, ACK, REJECT, RESET, READY, FEEDBACK = 8, 9, 10, 11, 12, 13
local PROBE = 15

local KINDS = {
    [1] = "Request", [2] = "Pull", [3] = "Cancel", [4] = "Done", [5] = "Routed",
    [6] = "ClientStream", [7] = "ClientWindow", [8] = "Response", [9] = "Ack",
    [10] = "Reject", [11] = "Reset", [12] = "Ready", [13] = "Feedback",
    [14] = "ServerStream", [15] = "ServerWindow",
}
local ENCODINGS = { [0] = "opaque", [1] = "native", [2] = "protobuf", [3] = "reserved" }
local REJECT_CODES = {
    [1] = "unknown method", [2] = "too large", [3] = "overloaded", [4] = "draining",
    [5] = "handler failed", [6] = "declined", [7] = "again", [8] = "queue full",
    [9] = "expired", [10] = "no worker", [11] = "unknown policy",
}
local POLICIES = { [0] = "any", [1] = "primary", [2] = "hash", [PROBE] = "probe" }

local petasos = Proto("petasos", "Petasos RPC")

local f = {
    version = ProtoField.uint8("petasos.version", "Version"),
    kind = ProtoField.uint8("petasos.kind", "Kind", base.DEC, KINDS),
    from_server = ProtoField.bool("petasos.from_server", "From the server"),
    flags = ProtoField.uint8("petasos.flags", "Flags", base.HEX),
    key_phase = ProtoField.bool("petasos.flags.key_phase", "Key phase", 8, nil, 0x01),
    ecn_echo = ProtoField.bool("petasos.flags.ecn_echo", "ECN echo", 8, nil, 0x02),
    encoding = ProtoField.uint8("petasos.flags.encoding", "Encoding", base.DEC, ENCODINGS, 0x0c),
    checksum = ProtoField.bool("petasos.flags.checksum", "CRC32C follows", 8, nil, 0x10),
    later = ProtoField.bool("petasos.flags.later", "Not the first of its response", 8, nil, 0x20),
    reserved = ProtoField.uint8("petasos.flags.reserved", "Reserved", base.DEC, nil, 0xc0),
    session = ProtoField.uint32("petasos.session", "Session"),
    tag = ProtoField.uint32("petasos.tag", "Session tag", base.HEX),
    request = ProtoField.uint64("petasos.request", "Request number"),
    transmission = ProtoField.uint32("petasos.transmission", "Transmission number"),
    packet_index = ProtoField.uint32("petasos.packet_index", "Packet index"),
    message_bytes = ProtoField.uint32("petasos.message_bytes", "Message length in bytes"),
    method = ProtoField.uint16("petasos.method", "Method"),
    pull_start = ProtoField.uint32("petasos.pull_start", "First packet pulled"),
    pull_end = ProtoField.uint32("petasos.pull_end", "One past the last packet pulled"),
    word2 = ProtoField.uint64("petasos.word2", "Fields that this kind does not use", base.HEX),
    echo = ProtoField.uint32("petasos.echo", "Echoed transmission number"),
    arrived = ProtoField.uint32("petasos.arrived", "Packets arrived without a gap"),
    reject_code = ProtoField.uint32("petasos.reject_code", "Code", base.DEC, REJECT_CODES),
    value = ProtoField.uint32("petasos.value", "Value"),
    credits = ProtoField.uint32("petasos.credits", "Credits granted"),
    bitmap = ProtoField.bytes("petasos.ack_bitmap", "Arrived beyond the gap"),
    acked = ProtoField.uint32("petasos.acked", "Arrived packet"),
    payload = ProtoField.bytes("petasos.payload", "Payload"),
    crc32c = ProtoField.uint32("petasos.crc32c", "CRC32C", base.HEX),
    seal = ProtoField.bytes("petasos.seal", "Tag of the AEAD"),
    policy = ProtoField.uint8("petasos.routed.policy", "Policy", base.DEC, POLICIES),
    priority = ProtoField.uint8("petasos.routed.priority", "Priority"),
    routed_flags = ProtoField.uint8("petasos.routed.flags", "Flags of the block", base.HEX),
    claim = ProtoField.bool("petasos.routed.claim", "Claim", 8, nil, 0x01),
    reply_port = ProtoField.uint16("petasos.routed.port", "Port for answers"),
    client = ProtoField.uint32("petasos.routed.client", "Client"),
    epoch = ProtoField.uint16("petasos.routed.epoch", "Epoch"),
    reply_ipv4 = ProtoField.ipv4("petasos.routed.ipv4", "Address for answers"),
    reply_ipv6 = ProtoField.ipv6("petasos.routed.ipv6", "Address for answers"),
    pair = ProtoField.uint32("petasos.routed.pair", "Pair"),
    pair_tag = ProtoField.uint32("petasos.routed.pair_tag", "Tag of the pair", base.HEX),
    number = ProtoField.uint64("petasos.routed.number", "Number of the first packet"),
    given = ProtoField.uint32("petasos.routed.given", "Given number"),
    lifetime = ProtoField.uint32("petasos.routed.lifetime_us", "Time left in microseconds"),
    key_hash = ProtoField.uint32("petasos.routed.key_hash", "CRC32C of the key", base.HEX),
    worker = ProtoField.uint16("petasos.worker", "Worker"),
    worker_session = ProtoField.uint32("petasos.worker.session", "The worker's session"),
    worker_tag = ProtoField.uint32("petasos.worker.tag", "Tag of the worker's session", base.HEX),
    received = ProtoField.uint32("petasos.feedback.received", "Highest given number received"),
    failed = ProtoField.uint32("petasos.feedback.failed", "Requests failed since the last one"),
    settled = ProtoField.uint32("petasos.feedback.settled", "Given numbers settled"),
    bound = ProtoField.uint32("petasos.feedback.bound", "Requests taken at a time"),
}
petasos.fields = f

local malformed = ProtoExpert.new("petasos.malformed", "Not a Petasos packet",
    expert.group.MALFORMED, expert.severity.ERROR)
petasos.experts = { malformed }

-- `width` bits of `number` from bit `shift` on.
local function bits(number, shift, width)
    return math.floor(number / 2 ^ shift) % 2 ^ width
end

-- Bytes between the header and the payload.
local function block_bytes(kind, session, later)
    if kind == ROUTED then return ROUTING_BLOCK_BYTES end
    local has_worker = kind == READY or kind == REJECT or kind == RESPONSE and not later
    if has_worker and session >= PAIR_BIT then return WORKER_BLOCK_BYTES end
    return 0
end

-- The header's fields, from at least HEADER_BYTES bytes.
local function parse(buffer)
    local low0, high0 = buffer(0, 4):le_uint(), buffer(4, 4):le_uint()
    local low2, high2 = buffer(16, 4):le_uint(), buffer(20, 4):le_uint()
    local kind = bits(low0, 4, 4)
    local flags = bits(low0, 8, 8)
    local session = bits(low0, 16, 16) + bits(high0, 0, 4) * 2 ^ 16
    local later = bits(flags, 5, 1) == 1
    local block = block_bytes(kind, session, later)
    -- Groups have no CRC32C.
    local trailer = bits(flags, 4, 1) * (block > 0 and SEAL_BYTES or CHECKSUM_BYTES)
    return {
        version = bits(low0, 0, 4),
        kind = kind,
        from_server = kind >= 8,
        reserved = bits(flags, 6, 2),
        flags = flags,
        later = later,
        block = block,
        trailer = trailer,
        payload = buffer:len() - HEADER_BYTES - block - trailer,
        session = session,
        tag = bits(high0, 4, 28),
        packet_index = bits(low2, 0, 20),
        message_bytes = bits(low2, 20, 12) + bits(high2, 0, 16) * 2 ^ 12,
        method = bits(high2, 16, 16),
        transmission = buffer(13, 3):le_uint(),
        echo = bits(low2, 0, 24),
        value = bits(low2, 24, 8) + bits(high2, 0, 20) * 2 ^ 8,
        credits = bits(high2, 20, 12),
    }
end

-- Why the header is refused, as wire's `Packet::parse` would, or nil.
local function refusal(header)
    if header.version ~= VERSION then return "version " .. header.version end
    if header.kind == 0 then return "kind 0 is not assigned" end
    if header.reserved ~= 0 then return "a reserved flag is set" end
    if header.payload < 0 then
        return header.block > 0 and "shorter than its parts" or "no room for the checksum"
    end
    return nil
end

-- The fields of a routing block, from at least HEADER_BYTES + ROUTING_BLOCK_BYTES bytes.
local function parse_routed(buffer)
    local low3, high3 = buffer(24, 4):le_uint(), buffer(28, 4):le_uint()
    local low6, high6 = buffer(48, 4):le_uint(), buffer(52, 4):le_uint()
    local mapped = buffer(32, 8):uint64() == UInt64(0) and buffer(40, 4):uint() == 0xffff
    return {
        policy = bits(low3, 0, 4),
        priority = bits(low3, 4, 4),
        claim = bits(low3, 8, 1) == 1,
        reserved = bits(low3, 9, 7),
        client = bits(high3, 0, 20),
        epoch = bits(high3, 20, 12),
        mapped = mapped,
        pair = bits(low6, 0, 20),
        pair_tag = bits(low6, 20, 12) + bits(high6, 0, 16) * 2 ^ 12,
        number_high = bits(high6, 16, 16),
        lifetime = buffer(56, 4):le_uint(),
    }
end

-- Whether a first packet is one by RT1, RT2 and RT4 of the specification.
local function is_plausible_routed(header, routed)
    local carried = header.message_bytes
    if routed.claim then carried = math.min(carried, CLAIM_BYTES_MAX) end
    local ecn_echo = bits(header.flags, 1, 1)
    return routed.reserved == 0 and ecn_echo == 0 and not header.later
        and header.payload >= carried
end

-- Whether the fields agree with each other. By chance, few other packets' would.
local function is_plausible(header, buffer)
    local kind, payload = header.kind, header.payload
    if kind == REQUEST then
        local start = header.packet_index * PAYLOAD_BYTES_MIN
        return start + payload <= header.message_bytes
    elseif kind == PULL then
        return payload == 0 and header.packet_index <= header.message_bytes
    elseif kind == RESPONSE then
        return header.later and header.value > 0 and payload > 0
            or not header.later and payload <= header.value
    elseif kind == ACK then
        return payload % 8 == 0 and payload <= BITMAP_BYTES_MAX
    elseif kind == ROUTED then
        return is_plausible_routed(header, parse_routed(buffer))
    elseif kind == READY then
        return header.block > 0 and header.value <= 1 and payload == 0
    elseif kind == FEEDBACK then
        return header.flags == 0 and payload == 0
    end
    local bare = kind == CANCEL or kind == DONE or kind == REJECT or kind == RESET
    return bare and payload == 0
end

local function add_flags(tree, buffer)
    local flags = tree:add(f.flags, buffer(1, 1))
    for _, field in ipairs({ f.key_phase, f.ecn_echo, f.encoding, f.checksum, f.later,
        f.reserved }) do
        flags:add(field, buffer(1, 1))
    end
end

-- Adds the fields of word 2 as a client fills them; returns a summary.
local function add_client(tree, buffer, header)
    local kind = header.kind
    if kind == ROUTED then
        tree:add(f.given, buffer(16, 3), header.packet_index)
        tree:add(f.message_bytes, buffer(18, 4), header.message_bytes)
        tree:add(f.method, buffer(22, 2), header.method)
        return string.format("method %d, a message of %d bytes", header.method,
            header.message_bytes)
    elseif kind == REQUEST then
        tree:add(f.packet_index, buffer(16, 3), header.packet_index)
        tree:add(f.message_bytes, buffer(18, 4), header.message_bytes)
        tree:add(f.method, buffer(22, 2), header.method)
        return string.format("method %d, packet %d of a message of %d bytes",
            header.method, header.packet_index, header.message_bytes)
    elseif kind == PULL then
        tree:add(f.pull_start, buffer(16, 3), header.packet_index)
        tree:add(f.pull_end, buffer(18, 4), header.message_bytes)
        return string.format("packets %d to %d", header.packet_index, header.message_bytes - 1)
    end
    tree:add(f.word2, buffer(16, 8), buffer(16, 8):le_uint64())
    return ""
end

-- Adds the fields of word 2 as a server fills them; returns a summary.
local function add_server(tree, buffer, header)
    local kind, value, range = header.kind, header.value, buffer(19, 4)
    local summary
    if kind == FEEDBACK then
        tree:add(f.received, buffer(16, 3), header.echo % GIVEN_NUMBERS)
        tree:add(f.failed, buffer(18, 1), math.floor(header.echo / GIVEN_NUMBERS))
        tree:add(f.settled, range, value)
        tree:add(f.bound, buffer(22, 2), header.credits)
        return string.format("%d settled, takes %d", value, header.credits)
    end
    tree:add(f.echo, buffer(16, 3), header.echo)
    if kind == RESPONSE and header.later then
        tree:add(f.packet_index, range, value)
        summary = string.format("packet %d", value)
    elseif kind == RESPONSE then
        tree:add(f.packet_index, range, 0):set_generated()
        tree:add(f.message_bytes, range, value)
        summary = string.format("packet 0 of a message of %d bytes", value)
    elseif kind == ACK then
        tree:add(f.arrived, range, value)
        summary = string.format("%d arrived", value)
    elseif kind == REJECT then
        tree:add(f.reject_code, range, value)
        summary = REJECT_CODES[value] or string.format("code %d", value)
    elseif kind == READY then
        tree:add(f.arrived, range, value)
        summary = value == 0 and "send the request" or "the request runs"
    else
        tree:add(f.value, range, value)
        summary = ""
    end
    tree:add(f.credits, buffer(22, 2), header.credits)
    return summary
end

-- Bit i of an acknowledgement's payload says that packet `first + i` has arrived.
local function add_bitmap(tree, range, first)
    local bitmap = tree:add(f.bitmap, range)
    for at = 0, range:len() - 1 do
        local byte = range(at, 1):uint()
        for bit = 0, 7 do
            if bits(byte, bit, 1) == 1 then
                bitmap:add(f.acked, range(at, 1), first + at * 8 + bit)
            end
        end
    end
end

-- Adds the block that a router reads; returns a summary.
local function add_routed(tree, buffer, header)
    local routed = parse_routed(buffer)
    tree:add(f.policy, buffer(24, 1), routed.policy)
    tree:add(f.priority, buffer(24, 1), routed.priority)
    tree:add(f.routed_flags, buffer(25, 1)):add(f.claim, buffer(25, 1))
    tree:add(f.reply_port, buffer(26, 2))
    tree:add(f.client, buffer(28, 3), routed.client)
    tree:add(f.epoch, buffer(30, 2), routed.epoch)
    if routed.mapped then
        tree:add(f.reply_ipv4, buffer(44, 4))
    else
        tree:add(f.reply_ipv6, buffer(32, 16))
    end
    tree:add(f.pair, buffer(48, 3), routed.pair)
    tree:add(f.pair_tag, buffer(50, 4), routed.pair_tag)
    local number = UInt64(routed.number_high) * UInt64(2 ^ 24) + UInt64(header.transmission)
    tree:add(f.number, buffer(54, 2), number)
    local lifetime = tree:add(f.lifetime, buffer(56, 4), routed.lifetime)
    if routed.lifetime == NO_LIMIT then lifetime:append_text(" (no limit)") end
    tree:add_le(f.key_hash, buffer(60, 4))
    local what = routed.policy == PROBE and "probe" or routed.claim and "claim" or "whole"
    return string.format("%s, client %d, pair %d", what, routed.client, routed.pair)
end

-- Adds the block that says who answers a pair; returns a summary.
local function add_worker(tree, buffer)
    local low, high = buffer(24, 4):le_uint(), buffer(28, 4):le_uint()
    local session, worker = bits(low, 0, 20), bits(high, 16, 16)
    tree:add(f.worker_session, buffer(24, 3), session)
    tree:add(f.worker_tag, buffer(26, 4), bits(low, 20, 12) + bits(high, 0, 16) * 2 ^ 12)
    tree:add(f.worker, buffer(30, 2), worker)
    return worker == 0 and "the router" or string.format("worker %d, session %d", worker, session)
end

local function add_block(tree, buffer, header)
    if header.kind == ROUTED then return add_routed(tree, buffer, header) end
    return header.block > 0 and add_worker(tree, buffer) or ""
end

local function add_rest(tree, buffer, header)
    local start = HEADER_BYTES + header.block
    if header.payload > 0 then
        local range = buffer(start, header.payload)
        if header.kind == ACK then
            add_bitmap(tree, range, header.value)
        else
            tree:add(f.payload, range)
        end
    end
    if header.trailer == SEAL_BYTES then
        tree:add(f.seal, buffer(start + header.payload, SEAL_BYTES))
    elseif header.trailer > 0 then
        tree:add_le(f.crc32c, buffer(start + header.payload, CHECKSUM_BYTES))
    end
end

function petasos.dissector(buffer, pinfo, root)
    pinfo.cols.protocol = "Petasos"
    local tree = root:add(petasos, buffer())
    if buffer:len() < HEADER_BYTES then
        tree:add_proto_expert_info(malformed, "shorter than a header")
        return buffer:len()
    end
    local header = parse(buffer)
    tree:add(f.version, buffer(0, 1), header.version)
    tree:add(f.kind, buffer(0, 1), header.kind)
    tree:add(f.from_server, buffer(0, 1), header.from_server):set_generated()
    add_flags(tree, buffer)
    tree:add(f.session, buffer(2, 3), header.session)
    tree:add(f.tag, buffer(4, 4), header.tag)
    tree:add(f.request, buffer(8, 5), buffer(8, 5):le_uint64())
    tree:add(f.transmission, buffer(13, 3), header.transmission)
    local refused = refusal(header)
    if refused then
        tree:add_proto_expert_info(malformed, refused)
        pinfo.cols.info = "malformed: " .. refused
        return buffer:len()
    end
    local add_word2 = header.from_server and add_server or add_client
    local summary = add_word2(tree, buffer, header)
    local block = add_block(tree, buffer, header)
    add_rest(tree, buffer, header)
    local about = string.format("%s, session %d, request %s", KINDS[header.kind],
        header.session, tostring(buffer(8, 5):le_uint64()))
    if summary ~= "" then about = about .. ": " .. summary end
    if block ~= "" then about = about .. ", " .. block end
    pinfo.cols.info = about
    tree:append_text(", " .. about)
    return buffer:len()
end

local function heuristic(buffer, pinfo, root)
    if buffer:len() < HEADER_BYTES then return false end
    local header = parse(buffer)
    if refusal(header) or not is_plausible(header, buffer) then return false end
    petasos.dissector(buffer, pinfo, root)
    return true
end

petasos:register_heuristic("udp", heuristic)
DissectorTable.get("udp.port"):add_for_decode_as(petasos)
