/* DPDK in terms that need none of its headers. Decisions are made in Rust. */
#ifndef PETASOS_DPDK_SHIM_H
#define PETASOS_DPDK_SHIM_H

#include <stddef.h>
#include <stdint.h>

/* The most frames that one call moves. */
#define PD_BURST_MAX 32

struct pd_pool;

/* One mbuf of one segment. */
struct pd_frame {
    void *mbuf;
    uint8_t *data;
    /* Bytes of the frame. */
    uint32_t length;
};

struct pd_port {
    uint8_t mac[6];
    uint16_t mtu;
    /* The most queues of either kind, and descriptors of a queue (0: no limit). */
    uint16_t queues_max;
    uint16_t rx_descriptors;
    uint16_t tx_descriptors;
};

struct pd_counters {
    uint64_t rx_missed;
    uint64_t rx_no_mbuf;
    uint64_t rx_errors;
    uint64_t tx_errors;
};

/* All that can fail return 0 or more, or a negative errno. */
const char *pd_version(void);
int pd_eal_init(int argc, char **argv);
int pd_port_by_name(const char *name);
int pd_probe(const char *devargs);
int pd_remove(const char *name);
int pd_port_info(uint16_t port, struct pd_port *info);
/* A pool of `count` mbufs with room for `room` bytes each; `*start` and `*length` tell where. */
struct pd_pool *pd_pool_create(const char *name, uint32_t count, uint16_t room, int socket,
                               int *error, uint8_t **start, size_t *length);
/* Frees the pool if nobody has any of it; returns whether. */
int pd_pool_free(struct pd_pool *pool);
int pd_port_start(uint16_t port, uint16_t mtu, struct pd_pool *pool, struct pd_port *wanted,
                  int set_mac);
void pd_port_close(uint16_t port);
int pd_link_up(uint16_t port);
int pd_counters(uint16_t port, struct pd_counters *counters);
/* Frames from elsewhere than `pool` come as copies; `*dropped` counts those that could not. */
uint16_t pd_receive(uint16_t port, struct pd_pool *pool, struct pd_frame *frames, uint16_t count,
                    uint32_t *dropped);
int pd_allocate(struct pd_pool *pool, struct pd_frame *frames, uint16_t count);
void pd_free(struct pd_frame *frames, uint16_t count);
/* Sends the first ones; those belong to the driver then. */
uint16_t pd_send(uint16_t port, struct pd_frame *frames, uint16_t count);

#endif
