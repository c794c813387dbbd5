#include "shim.h"

#include <errno.h>
#include <string.h>

#include <rte_bus.h>
#include <rte_dev.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>
#include <rte_version.h>

static struct rte_mempool *mempool(struct pd_pool *pool) { return (struct rte_mempool *)pool; }

const char *pd_version(void) { return rte_version(); }

int pd_eal_init(int argc, char **argv) {
    return rte_eal_init(argc, argv) < 0 ? -(rte_errno ? rte_errno : EINVAL) : 0;
}

int pd_port_by_name(const char *name) {
    uint16_t port;
    int code = rte_eth_dev_get_port_by_name(name, &port);
    return code < 0 ? code : port;
}

int pd_probe(const char *devargs) { return rte_dev_probe(devargs); }

int pd_remove(const char *name) { return rte_eal_hotplug_remove("vdev", name); }

int pd_port_info(uint16_t port, struct pd_port *info) {
    struct rte_eth_dev_info device;
    struct rte_ether_addr mac;
    int code = rte_eth_dev_info_get(port, &device);
    if (code == 0) code = rte_eth_macaddr_get(port, &mac);
    if (code == 0) code = rte_eth_dev_get_mtu(port, &info->mtu);
    if (code < 0) return code;
    memcpy(info->mac, mac.addr_bytes, 6);
    info->queues_max = RTE_MIN(device.max_rx_queues, device.max_tx_queues);
    info->rx_descriptors = device.rx_desc_lim.nb_max;
    info->tx_descriptors = device.tx_desc_lim.nb_max;
    return 0;
}

struct extent {
    uint8_t *start, *end;
};

static void extend(struct rte_mempool *pool, void *opaque, struct rte_mempool_memhdr *chunk,
                   unsigned index) {
    struct extent *extent = opaque;
    uint8_t *start = chunk->addr, *end = start + chunk->len;
    (void)pool;
    extent->start = index == 0 ? start : RTE_MIN(extent->start, start);
    extent->end = index == 0 ? end : RTE_MAX(extent->end, end);
}

struct pd_pool *pd_pool_create(const char *name, uint32_t count, uint16_t room, int socket,
                               int *error, uint8_t **start, size_t *length) {
    struct extent extent = {0};
    struct rte_mempool *pool =
        rte_pktmbuf_pool_create(name, count, 0, 0, room + RTE_PKTMBUF_HEADROOM, socket);
    if (pool == NULL) {
        *error = -rte_errno;
        return NULL;
    }
    rte_mempool_mem_iter(pool, extend, &extent);
    *start = extent.start;
    *length = extent.end - extent.start;
    return (struct pd_pool *)pool;
}

int pd_pool_free(struct pd_pool *pool) {
    if (!rte_mempool_full(mempool(pool))) return 0;
    rte_mempool_free(mempool(pool));
    return 1;
}

int pd_port_start(uint16_t port, uint16_t mtu, struct pd_pool *pool, struct pd_port *wanted,
                  int set_mac) {
    struct rte_eth_conf conf = {0};
    struct rte_ether_addr mac;
    int socket = rte_eth_dev_socket_id(port), code;
    conf.rxmode.mtu = mtu;
    code = rte_eth_dev_configure(port, 1, 1, &conf);
    if (code == 0)
        code = rte_eth_dev_adjust_nb_rx_tx_desc(port, &wanted->rx_descriptors,
                                                &wanted->tx_descriptors);
    if (code == 0)
        code = rte_eth_rx_queue_setup(port, 0, wanted->rx_descriptors, socket, NULL, mempool(pool));
    if (code == 0) code = rte_eth_tx_queue_setup(port, 0, wanted->tx_descriptors, socket, NULL);
    if (code == 0) code = rte_eth_dev_start(port);
    if (code < 0) return code;
    memcpy(mac.addr_bytes, wanted->mac, 6);
    /* A device that cannot filter for the address is told to take all frames. */
    if (set_mac && rte_eth_dev_default_mac_addr_set(port, &mac) < 0)
        rte_eth_promiscuous_enable(port);
    /* IPv6 asks by groups. Devices without a filter refuse, and need not be told. */
    rte_eth_allmulticast_enable(port);
    return 0;
}

void pd_port_close(uint16_t port) {
    rte_eth_dev_stop(port);
    rte_eth_dev_close(port);
}

int pd_link_up(uint16_t port) {
    struct rte_eth_link link = {0};
    int code = rte_eth_link_get_nowait(port, &link);
    return code < 0 ? code : link.link_status == RTE_ETH_LINK_UP;
}

int pd_counters(uint16_t port, struct pd_counters *counters) {
    struct rte_eth_stats stats;
    int code = rte_eth_stats_get(port, &stats);
    if (code < 0) return code;
    counters->rx_missed = stats.imissed;
    counters->rx_no_mbuf = stats.rx_nombuf;
    counters->rx_errors = stats.ierrors;
    counters->tx_errors = stats.oerrors;
    return 0;
}

static void describe(struct pd_frame *frame, struct rte_mbuf *mbuf) {
    frame->mbuf = mbuf;
    frame->data = rte_pktmbuf_mtod(mbuf, uint8_t *);
    frame->length = rte_pktmbuf_data_len(mbuf);
}

uint16_t pd_receive(uint16_t port, struct pd_pool *pool, struct pd_frame *frames, uint16_t count,
                    uint32_t *dropped) {
    struct rte_mbuf *mbufs[PD_BURST_MAX];
    uint16_t received = rte_eth_rx_burst(port, 0, mbufs, RTE_MIN(count, PD_BURST_MAX));
    uint16_t kept = 0;
    for (uint16_t at = 0; at < received; at++) {
        struct rte_mbuf *mbuf = mbufs[at];
        if (unlikely(mbuf->pool != mempool(pool) || mbuf->nb_segs != 1)) {
            /* It lies elsewhere or in pieces: fits an mbuf of ours, or is of no use. */
            struct rte_mbuf *copy = rte_pktmbuf_copy(mbuf, mempool(pool), 0, UINT32_MAX);
            rte_pktmbuf_free(mbuf);
            if (copy != NULL && copy->nb_segs != 1) {
                rte_pktmbuf_free(copy);
                copy = NULL;
            }
            if (copy == NULL) {
                ++*dropped;
                continue;
            }
            mbuf = copy;
        }
        describe(&frames[kept++], mbuf);
    }
    return kept;
}

int pd_allocate(struct pd_pool *pool, struct pd_frame *frames, uint16_t count) {
    struct rte_mbuf *mbufs[PD_BURST_MAX];
    int code = rte_pktmbuf_alloc_bulk(mempool(pool), mbufs, RTE_MIN(count, PD_BURST_MAX));
    for (uint16_t at = 0; code == 0 && at < count; at++) describe(&frames[at], mbufs[at]);
    return code;
}

void pd_free(struct pd_frame *frames, uint16_t count) {
    struct rte_mbuf *mbufs[PD_BURST_MAX];
    for (uint16_t at = 0; at < count; at++) mbufs[at] = frames[at].mbuf;
    rte_pktmbuf_free_bulk(mbufs, count);
}

uint16_t pd_send(uint16_t port, struct pd_frame *frames, uint16_t count) {
    struct rte_mbuf *mbufs[PD_BURST_MAX];
    for (uint16_t at = 0; at < count; at++) {
        mbufs[at] = frames[at].mbuf;
        mbufs[at]->data_len = frames[at].length;
        mbufs[at]->pkt_len = frames[at].length;
    }
    return rte_eth_tx_burst(port, 0, mbufs, count);
}
