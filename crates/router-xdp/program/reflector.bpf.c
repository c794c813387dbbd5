// What a router in the kernel is measured beside: a program that sends each datagram for an address
// back to where it came from, from there, and decides nothing. Datagrams as short as feedback are
// dropped, as the router drops them. Everything else is passed on.
//
// Addresses and ports change places, so the checksum of UDP stays right.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#define SECTION(name) __attribute__((section(name), used))

struct xdp_md {
	u32 data, data_end, data_meta, ingress_ifindex, rx_queue_index, egress_ifindex;
};

enum { XDP_DROP = 1, XDP_PASS = 2, XDP_TX = 3 };
enum { MAP_ARRAY = 2, MAP_MMAPABLE = 1 << 10 };

static void *(*const map_lookup)(void *map, const void *key) = (void *)1;

struct map_definition {
	u32 kind, key_bytes, value_bytes, entries_max, flags;
};

// One word: address and port, as in packets, in bits 0 to 31 and 32 to 47.
struct map_definition SECTION("maps") target = { MAP_ARRAY, 4, 8, 1, MAP_MMAPABLE };

struct frame {
	u8 to[6], from[6];
	u16 type;
	u8 version, tos;
	u16 total, id, fragment;
	u8 ttl, protocol;
	u16 ip_sum;
	u16 source[2], destination[2];
	u16 source_port, destination_port, udp_bytes, udp_sum;
};

#define FEEDBACK_BYTES (42 + 24)

SECTION("xdp") int reflect(struct xdp_md *xdp)
{
	u32 zero = 0;
	struct frame *f = (void *)(long)xdp->data;
	u64 *wanted = map_lookup(&target, &zero);
	void *end = (void *)(long)xdp->data_end;
	if (!wanted || (void *)(f + 1) > end)
		return XDP_PASS;
	u32 source = *(u32 *)f->source, destination = *(u32 *)f->destination;
	u16 port = f->destination_port;
	if (f->type != 0x0008 || f->version != 0x45 || f->protocol != 17 ||
	    ((u64)destination | (u64)port << 32) != *wanted)
		return XDP_PASS;
	if (end - (void *)f == FEEDBACK_BYTES)
		return XDP_DROP;
	u32 to = *(u32 *)f->to;
	u16 to_end = *(u16 *)(f->to + 4);
	*(u32 *)f->to = *(u32 *)f->from;
	*(u16 *)(f->to + 4) = *(u16 *)(f->from + 4);
	*(u32 *)f->from = to;
	*(u16 *)(f->from + 4) = to_end;
	*(u32 *)f->source = destination;
	*(u32 *)f->destination = source;
	f->destination_port = f->source_port;
	f->source_port = port;
	return XDP_TX;
}
