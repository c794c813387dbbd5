// The part of a router that runs in the kernel (ADR 46): an XDP program that gives first packets to
// workers and hears feedback (docs/spec/route.md). What it does not understand, or may not decide,
// it passes to the kernel, whose socket the router's process reads.
//
// `layout.rs` has the other half of every number here. Integers of packets are little-endian, and
// the program is compiled for little-endian machines only.
//
// Invariants:
// - a packet that is passed on is unchanged, and has changed nothing: its number is not taken yet;
// - counters only rise, and each change is one compare-and-exchange, so that the process, which has
//   the same memory, may give numbers at any time (RT19), and no lock is held when it dies;
// - nothing is sent but to the address of a worker that the process has put into the table;
// - what this program knows is decided by it alone, and what it does not know goes to the program
//   of the process before, if that is still there (ADR 47).

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long s64;

#define SECTION(name) __attribute__((section(name), used))
#define INLINE static inline __attribute__((always_inline))

// ---- What the kernel offers (linux/bpf.h) ----

struct xdp_md {
	u32 data, data_end, data_meta, ingress_ifindex, rx_queue_index, egress_ifindex;
};

enum { XDP_DROP = 1, XDP_PASS = 2, XDP_TX = 3 };
enum { MAP_ARRAY = 2, MAP_PROGRAMS = 3, MAP_PERCPU_ARRAY = 6, MAP_QUEUE = 22 };
enum { MAP_MMAPABLE = 1 << 10 };

static void *(*const map_lookup)(void *map, const void *key) = (void *)1;
static u64 (*const time_ns)(void) = (void *)5;
static u32 (*const random_u32)(void) = (void *)7;
static u32 (*const processor)(void) = (void *)8;
static long (*const tail_call)(struct xdp_md *xdp, void *programs, u32 at) = (void *)12;
static long (*const adjust_tail)(struct xdp_md *xdp, int delta) = (void *)65;
static long (*const map_push)(void *map, const void *value, u64 flags) = (void *)87;
static long (*const map_pop)(void *map, void *value) = (void *)88;
static long (*const load_bytes)(struct xdp_md *xdp, u32 at, void *to, u32 len) = (void *)189;
static long (*const store_bytes)(struct xdp_md *xdp, u32 at, void *from, u32 len) = (void *)190;

struct map_definition {
	u32 kind, key_bytes, value_bytes, entries_max, flags;
};

// ---- What the process shares (layout.rs) ----

#define WORKERS 64
// Twice as many numbers as are remembered: a word is only taken for another row when all of its
// numbers are too old.
#define WINDOW_WORDS 64
#define PROCESSORS 64
// The longest frame that is parked; longer ones are passed on.
#define PARKED_BYTES 1536

struct worker {
	// 0: nothing is given. Bits 0 to 15 the most it may have, 16 to 31 what a request weighs there.
	u64 limit;
	// How many numbers were given.
	u64 given;
	// The newest feedback: bits 0 to 27 settled, 28 to 39 n, 40 to 63 its transmission.
	u64 told;
	// The highest number that it has, as far as it has told.
	u64 received;
	// Address and port, as in packets: bits 0 to 31 and 32 to 47.
	u64 address;
	// The Ethernet address that its feedback comes from; bit 48 set once it is known.
	u64 neighbour;
	// Word 0 of what it is given, but for the lowest 16 bits.
	u64 named;
	// Word 0 of its feedback, and the secret bits.
	u64 mark, secret;
	// Its own place.
	u64 place;
	u64 spare[6];
};

struct table {
	// Bit 0: decide. Bit 1: checksums of UDP are not complete, and are not heeded. Bit 2: the process
	// is gone. Bit 3: and frames cannot grow here, so that nothing is parked or taken from there.
	u64 mode;
	// Of first packets and feedback; as a worker's.
	u64 address;
	// Bits 0 to 15 the newest, 16 to 31 the one before; 0xffff is none.
	u64 epochs;
	// Bits 0 to 15 the most bytes behind the first 64, 16 to 31 those of a seal.
	u64 form;
	// Places of workers that are in use: all below.
	u64 workers;
	// The most that is parked.
	u64 parked_max;
	// Something waits in the process: everything goes there.
	u64 above;
	// The process sleeps: it gets the next packet, which wakes it.
	u64 asleep;
	// A request may be parked so many nanoseconds.
	u64 age_max;
	// How many are parked.
	u64 parked;
	u64 spare[6];
	struct worker worker[WORKERS];
};

struct client {
	// Word 0 of its first packets without flags; 0: nobody.
	u64 mark;
	u64 address;
	// The highest number that was taken.
	u64 highest;
	u64 spare;
	// Of number N, word N / 32 % 64: bits 32 to 63 N / 2048, bits 0 to 31 which of 32 are taken.
	u64 window[WINDOW_WORDS];
};

struct counts {
	// First packets: given at once, parked, given after that, handed back. Feedback that was heard.
	u64 given, parked, unparked, returned, feedback;
	// First packets of which the number was taken and nothing came: others were faster each time.
	u64 contended;
	// Of all that came: what was not passed on, and what was sent.
	u64 taken, sent;
};

struct parked {
	u64 arrived;
	u64 len;
	u8 bytes[PARKED_BYTES];
};

struct map_definition SECTION("maps") tables = {
	MAP_ARRAY, 4, sizeof(struct table), 1, MAP_MMAPABLE,
};
struct map_definition SECTION("maps") clients = {
	MAP_ARRAY, 4, sizeof(struct client), 1, MAP_MMAPABLE,
};
struct map_definition SECTION("maps") counters = {
	MAP_ARRAY, 4, sizeof(struct counts), PROCESSORS, MAP_MMAPABLE,
};
struct map_definition SECTION("maps") queue = {
	MAP_QUEUE, 0, sizeof(struct parked), 1, 0,
};
// Frames that nobody may have any more: the process rejects them.
struct map_definition SECTION("maps") returned = {
	MAP_QUEUE, 0, sizeof(struct parked), 1, 0,
};
// The program of the process before, if it is still there. The kernel takes it away when no process
// has this map any more.
struct map_definition SECTION("maps") earlier = {
	MAP_PROGRAMS, 4, 4, 1, 0,
};
struct map_definition SECTION("maps") scratch = {
	MAP_PERCPU_ARRAY, 4, sizeof(struct parked), 1, 0,
};

// ---- Packets ----

struct frame {
	u8 to[6], from[6];
	u16 type;
	u8 version, tos;
	u16 total, id, fragment;
	u8 ttl, protocol;
	u16 ip_sum;
	u16 source[2], destination[2];
	u16 source_port, destination_port, udp_bytes, udp_sum;
	// The header of the protocol, and for first packets the routing block.
	u16 words[32];
};

// Frames are not aligned, and the machines that this is for do not mind: each is one load.
#define WORD(f, at) (((u64 *)(f)->words)[at])
#define SOURCE(f) (*(u32 *)(f)->source)
#define DESTINATION(f) (*(u32 *)(f)->destination)

#define HEADERS 42
#define FIRST_BYTES 64
#define MODE_ON 1
#define MODE_PARTIAL 2
#define MODE_ALONE 4
#define MODE_DIRECT 8
// Version 1, and the kind.
#define FORM_ROUTED 0x51
#define FORM_FEEDBACK 0xd1
// All but key phase and encoding.
#define FLAGS_COMPARED 0xf200
#define FLAG_CHECKSUM 0x1000
#define BLOCK_CLAIM 0x100
// Policy, priority and reserved flags, all of which are 0 in what is decided here.
#define BLOCK_PLAIN 0xfeff
#define NO_LIMIT 0xffffffffull
#define SECRET_MASK ((1ull << 40) - 1)
// In place of a verdict: the frame, which has PARKED_BYTES, is for a request that is parked.
#define UNPARK 16
// In place of a verdict: not of this program's members.
#define UNKNOWN 17
// Parked requests that are looked at for one frame.
#define UNPARKED_MAX 4
#define FEEDBACK_BYTES (HEADERS + 24)
#define SETTLED_MASK ((1ull << 28) - 1)
#define INDEX_MASK ((1ull << 20) - 1)
#define SEQUENCES (1u << 24)
// Says to the verifier what the compiler knows and would leave out.
#define AS_LENGTH(len) asm volatile("%0 &= 2047" : "+r"(len))
#define CAS(at, old, new) __sync_bool_compare_and_swap(at, old, new)

INLINE u16 swap16(u16 x)
{
	return __builtin_bswap16(x);
}

// Sums of 16-bit words in the order of memory, unfolded.
INLINE u64 sum32(u32 x)
{
	return (u64)(x & 0xffff) + (x >> 16);
}

INLINE u64 sum64(u64 x)
{
	return sum32((u32)x) + sum32((u32)(x >> 32));
}

INLINE u16 fold(u64 sum)
{
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return (u16)sum;
}

INLINE u64 address_of(u32 ip, u16 port)
{
	return (u64)ip | (u64)port << 32;
}

// Word 0 to 9 of the IP header, whose sum is 0xffff if it is right.
INLINE u16 ip_sum(const struct frame *f)
{
	const u16 *half = (const u16 *)&f->version;
	u64 sum = 0;
#pragma unroll
	for (int i = 0; i < 10; i++)
		sum += half[i];
	return fold(sum);
}

INLINE void count(u64 *counter)
{
	// Of this processor only: nobody else writes it.
	*counter += 1;
}

// ---- Clients ----

// Takes a number for the first and only time (RT3).
INLINE int take_number(struct client *c, u64 number)
{
	u64 highest = c->highest;
	if (number + 1024 <= highest)
		return 0;
	u64 *word = &c->window[(number >> 5) & (WINDOW_WORDS - 1)];
	u64 row = number >> 11, bit = 1ull << (number & 31);
#pragma unroll
	for (int i = 0; i < 3; i++) {
		u64 old = *(volatile u64 *)word;
		if (old >> 32 > row || (old >> 32 == row && old & bit))
			return 0;
		u64 new = (old >> 32 == row ? old : row << 32) | bit;
		if (CAS(word, old, new)) {
			// A lower one that overtakes another's only lets older numbers be new a little longer;
			// each is still taken once.
			if (number > highest)
				c->highest = number;
			return 1;
		}
	}
	return 0;
}

// ---- Workers ----

INLINE u64 outstanding(u64 given, u64 told)
{
	return (given - told) & SETTLED_MASK;
}

// All ones if a is less than b, else 0. Both are far below 2^63.
INLINE u64 if_less(u64 a, u64 b)
{
	return (u64)((s64)(a - b) >> 63);
}

// All ones if a worker has a free slot: the process's limit, and what it has announced since.
INLINE u64 if_free(u64 load, u64 limit, u64 told)
{
	return if_less(load, limit & 0xffff) & if_less(load, told >> 28 & 0xfff);
}

// Whom a request goes to: who has the least, at random among equals. WORKERS if all are full.
//
// Without branches, and with the place in the lowest bits of what is compared, as a number that the
// verifier does not know: it would otherwise follow all ways through the loop.
INLINE u32 choose(struct table *t)
{
	u64 best = ~0ull, random = random_u32();
#pragma clang loop unroll(disable)
	for (u32 i = 0; i < WORKERS; i++) {
		if (i >= t->workers)
			break;
		struct worker *w = &t->worker[i];
		u64 limit = *(volatile u64 *)&w->limit, told = *(volatile u64 *)&w->told;
		u64 load = outstanding(*(volatile u64 *)&w->given, told);
		u64 is_free = if_free(load, limit, told) & (0 - (w->neighbour >> 48));
		random = random * 6364136223846793005ull + 1442695040888963407ull;
		u64 key = (load + 1) * (limit >> 16) << 22 | (random >> 48 << 6) |
			  (w->place & (WORKERS - 1)) | ~is_free;
		if (key < best)
			best = key;
	}
	return best == ~0ull ? WORKERS : best & (WORKERS - 1);
}

// Takes a worker's next number while it has a slot. 0 if it has none (numbers begin with 1).
INLINE u64 give(struct worker *w)
{
	u64 limit = *(volatile u64 *)&w->limit;
#pragma unroll
	for (int i = 0; i < 3; i++) {
		// What is settled only grows: a value that was read before the exchange is on the safe side.
		u64 told = *(volatile u64 *)&w->told, given = *(volatile u64 *)&w->given;
		if (!if_free(outstanding(given, told), limit, told))
			return 0;
		if (CAS(&w->given, given, given + 1))
			return given + 1;
	}
	return 0;
}

// Makes a first packet one for a worker (RT1). The frame has the headers and the first 64 bytes.
INLINE void send_to(struct table *t, struct worker *w, struct frame *f, u64 number, u64 lifetime)
{
	u64 old[3] = { WORD(f, 0), WORD(f, 2), WORD(f, 7) };
	WORD(f, 0) = (old[0] & 0xffff) | w->named;
	WORD(f, 2) = (old[1] & ~INDEX_MASK) | (number & INDEX_MASK);
	WORD(f, 7) = (old[2] & ~0xffffffffull) | lifetime;
	u64 address = w->address;
	u32 source = SOURCE(f), destination = DESTINATION(f);
	u16 ports = f->source_port;
	if (t->mode & MODE_PARTIAL) {
		f->udp_sum = 0;
	} else if (f->udp_sum) {
		// RFC 1624: what goes is subtracted, what comes is added.
		u64 sum = (u16)~f->udp_sum;
		sum += sum64(~old[0]) + sum64(~old[1]) + sum64(~old[2]);
		sum += sum32(~source) + sum32(~destination) + (u16)~ports + (u16)~f->destination_port;
		sum += sum64(WORD(f, 0)) + sum64(WORD(f, 2)) + sum64(WORD(f, 7));
		sum += sum32((u32)t->address) + sum32((u32)address);
		sum += (u16)(t->address >> 32) + (u16)(address >> 32);
		u16 folded = (u16)~fold(sum);
		f->udp_sum = folded ? folded : 0xffff;
	}
	SOURCE(f) = (u32)t->address;
	f->source_port = (u16)(t->address >> 32);
	DESTINATION(f) = (u32)address;
	f->destination_port = (u16)(address >> 32);
	f->ttl = 64;
	f->ip_sum = 0;
	f->ip_sum = (u16)~ip_sum(f);
	u64 neighbour = w->neighbour;
	*(u32 *)f->from = *(u32 *)f->to;
	*(u16 *)(f->from + 4) = *(u16 *)(f->to + 4);
	*(u32 *)f->to = (u32)neighbour;
	*(u16 *)(f->to + 4) = (u16)(neighbour >> 32);
}

// The Ethernet address in the order of memory, below bit 48.
INLINE u64 ethernet(const u8 *bytes)
{
	return *(u32 *)bytes | (u64) * (u16 *)(bytes + 4) << 32;
}

// ---- First packets ----

// Whether the form is right, and nobody else has to judge (RT1 to RT6, RT24).
INLINE int is_plain(struct table *t, struct frame *f, u32 payload)
{
	u64 word0 = WORD(f, 0), word2 = WORD(f, 2), word3 = WORD(f, 3);
	u32 seal = t->form >> 16 & 0xffff, body_max = t->form & 0xffff;
	u32 carried = word2 >> 20 & SETTLED_MASK;
	if (word3 & BLOCK_CLAIM && carried > 64)
		carried = 64;
	if (payload < FIRST_BYTES + seal)
		return 0;
	u32 body = payload - FIRST_BYTES - seal;
	u64 epoch = word3 >> 52, flags = seal ? FLAG_CHECKSUM : 0;
	return (word0 & FLAGS_COMPARED) == flags && body <= body_max && body >= carried &&
	       !(word2 & INDEX_MASK) && (word0 >> 16 & INDEX_MASK) == (word3 >> 32 & INDEX_MASK) &&
	       !(word3 & BLOCK_PLAIN) && (u32)WORD(f, 7) != 0 &&
	       (epoch == (t->epochs & 0xffff) || epoch == (t->epochs >> 16 & 0xffff));
}

// Whether it comes from the client, and wants its answers there (RT26).
INLINE int is_from(struct client *c, struct frame *f)
{
	u64 mapped = (u64)SOURCE(f) << 32 | 0xffff0000;
	return c->mark && c->mark == (WORD(f, 0) & ~0xff00ull) &&
	       c->address == address_of(SOURCE(f), f->source_port) && WORD(f, 4) == 0 &&
	       WORD(f, 5) == mapped && (u16)(WORD(f, 3) >> 16) == f->source_port;
}

// Whether the process wants the next packet as it is, since it sleeps.
INLINE int wakes(struct table *t)
{
	if (!t->asleep || t->mode & MODE_ALONE)
		return 0;
	t->asleep = 0;
	return 1;
}

// What is left of the time of a request that was parked; 0: none.
INLINE u64 lifetime_after(u64 lifetime, u64 waited_ns)
{
	u64 waited = waited_ns / 1000;
	if (lifetime == NO_LIMIT)
		return lifetime;
	return lifetime > waited ? lifetime - waited : 0;
}

// Puts the request that has waited longest into this frame, whose own content is lost, and sends
// it. With nothing to send, the frame is dropped.
INLINE int unpark(struct xdp_md *xdp, struct table *t, struct counts *n)
{
	u32 zero = 0;
	struct parked *s = map_lookup(&scratch, &zero);
	if (!s)
		return XDP_DROP;
#pragma clang loop unroll(disable)
	for (int i = 0; i < UNPARKED_MAX; i++) {
		u32 best = choose(t);
		if (best >= WORKERS || map_pop(&queue, s))
			return XDP_DROP;
		__sync_fetch_and_add(&t->parked, -1ull);
		u64 waited = time_ns() - s->arrived;
		u64 lifetime = lifetime_after((u32)WORD((struct frame *)s->bytes, 7), waited);
		// The client may be gone, and its number another's.
		u64 mark = WORD((struct frame *)s->bytes, 0) & ~0xff00ull;
		u32 name = mark >> 16 & INDEX_MASK;
		struct client *c = map_lookup(&clients, &name);
		int is_right = c && c->mark == mark && waited < t->age_max && lifetime;
		u64 number = is_right ? give(&t->worker[best]) : 0;
		u64 len = s->len;
		AS_LENGTH(len);
		if (!number || len < HEADERS + FIRST_BYTES || len > PARKED_BYTES) {
			count(&n->returned);
			map_push(&returned, s, 0);
			continue;
		}
		// From here on the number is given: what fails is a hole, which the worker writes off.
		if (store_bytes(xdp, 0, s->bytes, len) || adjust_tail(xdp, (int)len - PARKED_BYTES))
			return XDP_DROP;
		struct frame *f = (void *)(long)xdp->data;
		if ((void *)(f + 1) > (void *)(long)xdp->data_end || best >= WORKERS)
			return XDP_DROP;
		send_to(t, &t->worker[best], f, number, lifetime);
		count(&n->unparked);
		return XDP_TX;
	}
	return XDP_DROP;
}

// Lets a request wait. If a worker is free after all, who has waited longest goes.
INLINE int park(struct xdp_md *xdp, struct table *t, struct counts *n, struct client *c,
		u64 number, u64 len, u32 best)
{
	u32 zero = 0;
	struct parked *s = map_lookup(&scratch, &zero);
	if (!s || len > PARKED_BYTES || t->parked >= t->parked_max || t->mode & MODE_DIRECT)
		return XDP_PASS;
	AS_LENGTH(len);
	if (len < HEADERS + FIRST_BYTES || len > PARKED_BYTES)
		return XDP_PASS;
	if (load_bytes(xdp, 0, s->bytes, len))
		return XDP_PASS;
	s->arrived = time_ns();
	s->len = len;
	if (!take_number(c, number))
		return XDP_PASS;
	__sync_fetch_and_add(&t->parked, 1);
	if (map_push(&queue, s, 0)) {
		// Others have filled it meanwhile.
		__sync_fetch_and_add(&t->parked, -1ull);
		count(&n->contended);
		return XDP_DROP;
	}
	count(&n->parked);
	if (best >= WORKERS || adjust_tail(xdp, PARKED_BYTES - (int)len))
		return XDP_DROP;
	return UNPARK;
}

INLINE int on_first(struct xdp_md *xdp, struct table *t, struct counts *n, struct frame *f,
		    u32 payload)
{
	if (!is_plain(t, f, payload))
		return UNKNOWN;
	u32 name = WORD(f, 3) >> 32 & INDEX_MASK;
	struct client *c = map_lookup(&clients, &name);
	if (!c || !is_from(c, f))
		return UNKNOWN;
	if (wakes(t) || (t->above && !(t->mode & MODE_ALONE)))
		return XDP_PASS;
	u64 number = WORD(f, 1) >> 40 | WORD(f, 6) >> 48 << 24;
	u64 lifetime = (u32)WORD(f, 7);
	u32 best = choose(t);
	if (best >= WORKERS || (t->parked && !(t->mode & MODE_DIRECT)))
		return park(xdp, t, n, c, number, payload + HEADERS, best);
	if (!take_number(c, number))
		return XDP_PASS;
	u64 given = give(&t->worker[best]);
	if (!given) {
		count(&n->contended);
		return XDP_DROP;
	}
	send_to(t, &t->worker[best], f, given, lifetime);
	count(&n->given);
	return XDP_TX;
}

// ---- Feedback ----

// Whether the checksum is right: of the whole datagram, which has no more than the header.
INLINE int is_whole(struct frame *f)
{
	u64 sum = sum32(SOURCE(f)) + sum32(DESTINATION(f)) + swap16(f->protocol) + f->udp_bytes;
	sum += f->source_port + f->destination_port + f->udp_bytes + f->udp_sum;
	sum += sum64(WORD(f, 0)) + sum64(WORD(f, 1)) + sum64(WORD(f, 2));
	return !f->udp_sum || fold(sum) == 0xffff;
}

// Heeds what a worker tells, if it is newer than the newest and can be (RT22). -1: not.
INLINE s64 learn(struct worker *w, u64 word1, u64 word2)
{
	u64 settled = word2 >> 24 & SETTLED_MASK, bound = word2 >> 52, sequence = word1 >> 40;
	u64 news_told = settled | bound << 28 | sequence << 40;
	// Read before `given`: what is settled is never more than what was given by then.
	u64 told = *(volatile u64 *)&w->told, received = *(volatile u64 *)&w->received;
	u64 given = *(volatile u64 *)&w->given;
	u32 ahead = (sequence - (told >> 40)) & (SEQUENCES - 1);
	u64 above = (given - word2) & INDEX_MASK, news = (settled - told) & SETTLED_MASK;
	if (ahead - 1 >= SEQUENCES / 2 - 1 || word2 & 0xf00000 || above > given)
		return -1;
	if (news + above > outstanding(given, told) || given - above < received)
		return -1;
	// Who tells something else at the same time, on another processor, is heard by the process.
	if (!CAS(&w->told, told, news_told))
		return -1;
	w->received = given - above;
	return news;
}

INLINE int on_feedback(struct xdp_md *xdp, struct table *t, struct counts *n, struct frame *f)
{
	u32 place = WORD(f, 0) >> 16 & INDEX_MASK;
	if (place >= WORKERS)
		return UNKNOWN;
	struct worker *w = &t->worker[place];
	if (w->mark != WORD(f, 0) || !w->mark || w->secret != (WORD(f, 1) & SECRET_MASK) ||
	    w->address != address_of(SOURCE(f), f->source_port))
		return UNKNOWN;
	if (wakes(t))
		return XDP_PASS;
	if (!(t->mode & MODE_PARTIAL) && !is_whole(f))
		return XDP_PASS;
	u64 from = ethernet(f->from) | 1ull << 48;
	// A worker that gets nothing at present is the process's concern.
	if (!w->limit) {
		if (!w->neighbour)
			w->neighbour = from;
		return XDP_PASS;
	}
	s64 news = learn(w, WORD(f, 1), WORD(f, 2));
	if (news < 0)
		return XDP_PASS;
	if (w->neighbour != from)
		w->neighbour = from;
	count(&n->feedback);
	// More than one may go, and this is one frame: the process, which it wakes, sends the rest. If
	// it is gone, they go with the next packets.
	u64 parked = t->parked;
	if ((t->above || (parked > 1 && news > 1)) && !(t->mode & MODE_ALONE))
		return XDP_PASS;
	if (!parked || t->mode & MODE_DIRECT)
		return XDP_DROP;
	// There is no way back from a pop: room first.
	if (adjust_tail(xdp, PARKED_BYTES - FEEDBACK_BYTES))
		return XDP_PASS;
	return UNPARK;
}

INLINE int decide(struct xdp_md *xdp, struct table *t, struct counts *n)
{
	struct frame *f = (void *)(long)xdp->data;
	void *end = (void *)(long)xdp->data_end;
	if ((void *)f + FEEDBACK_BYTES > end)
		return XDP_PASS;
	u32 len = (u32)(end - (void *)f), total = swap16(f->total);
	if (f->type != swap16(0x0800) || f->version != 0x45 || f->protocol != 17)
		return XDP_PASS;
	if (!(t->mode & MODE_ON) || address_of(DESTINATION(f), f->destination_port) != t->address)
		return UNKNOWN;
	if (f->fragment & swap16(0x3fff) || total + 14 != len ||
	    swap16(f->udp_bytes) + 20 != total || ip_sum(f) != 0xffff)
		return XDP_PASS;
	u32 form = (u8)WORD(f, 0);
	if (form == FORM_FEEDBACK && len == FEEDBACK_BYTES)
		return on_feedback(xdp, t, n, f);
	if (form != FORM_ROUTED || (void *)(f + 1) > end)
		return XDP_PASS;
	return on_first(xdp, t, n, f, len - HEADERS);
}

SECTION("xdp") int router(struct xdp_md *xdp)
{
	u32 zero = 0, cpu = processor() & (PROCESSORS - 1);
	struct table *t = map_lookup(&tables, &zero);
	struct counts *n = map_lookup(&counters, &cpu);
	if (!t || !n)
		return XDP_PASS;
	int verdict = decide(xdp, t, n);
	if (verdict == UNPARK)
		verdict = unpark(xdp, t, n);
	if (verdict == UNKNOWN) {
		// It comes back if nobody is there.
		tail_call(xdp, &earlier, 0);
		return XDP_PASS;
	}
	if (verdict != XDP_PASS)
		count(&n->taken);
	if (verdict == XDP_TX)
		count(&n->sent);
	return verdict;
}
