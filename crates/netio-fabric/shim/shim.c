#define _GNU_SOURCE

#include "shim.h"

#include <dlfcn.h>
#include <signal.h>
#include <string.h>

uint32_t pf_api_version(void) {
    /* What the calls below mean is fixed by the version of the headers. */
    return FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION);
}

struct fi_info *pf_allocinfo(void) { return fi_allocinfo(); }

char *pf_strdup(const char *text) { return strdup(text); }

int pf_close(struct fid *fid) { return fi_close(fid); }

int pf_domain(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain) {
    return fi_domain(fabric, info, domain, NULL);
}

int pf_cq_open(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **cq) {
    return fi_cq_open(domain, attr, cq, NULL);
}

int pf_av_open(struct fid_domain *domain, struct fi_av_attr *attr, struct fid_av **av) {
    return fi_av_open(domain, attr, av, NULL);
}

int pf_endpoint(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep) {
    return fi_endpoint(domain, info, ep, NULL);
}

int pf_ep_bind(struct fid_ep *ep, struct fid *fid, uint64_t flags) {
    return fi_ep_bind(ep, fid, flags);
}

int pf_enable(struct fid_ep *ep) { return fi_enable(ep); }

int pf_getname(struct fid_ep *ep, void *address, size_t *length) {
    return fi_getname(&ep->fid, address, length);
}

int pf_av_insert(struct fid_av *av, const void *address, fi_addr_t *peer) {
    return fi_av_insert(av, address, 1, peer, 0, NULL);
}

int pf_av_remove(struct fid_av *av, fi_addr_t peer) { return fi_av_remove(av, &peer, 1, 0); }

int pf_mr_reg(struct fid_domain *domain, const void *memory, size_t length, struct fid_mr **mr) {
    return fi_mr_reg(domain, memory, length, FI_SEND | FI_RECV, 0, 0, 0, mr, NULL);
}

void *pf_mr_desc(struct fid_mr *mr) { return fi_mr_desc(mr); }

ssize_t pf_recv(struct fid_ep *ep, void *memory, size_t length, void *desc, void *context) {
    return fi_recv(ep, memory, length, desc, FI_ADDR_UNSPEC, context);
}

ssize_t pf_send(struct fid_ep *ep, const void *memory, size_t length, void *desc, fi_addr_t peer,
                void *context, uint64_t flags) {
    struct iovec iov = {.iov_base = (void *)memory, .iov_len = length};
    struct fi_msg msg = {
        .msg_iov = &iov, .desc = &desc, .iov_count = 1, .addr = peer, .context = context};
    return fi_sendmsg(ep, &msg, flags);
}

ssize_t pf_inject(struct fid_ep *ep, const void *memory, size_t length, fi_addr_t peer) {
    return fi_inject(ep, memory, length, peer);
}

ssize_t pf_cq_read(struct fid_cq *cq, struct fi_cq_msg_entry *entries, size_t count) {
    return fi_cq_read(cq, entries, count);
}

ssize_t pf_cq_readfrom(struct fid_cq *cq, struct fi_cq_msg_entry *entries, size_t count,
                       fi_addr_t *sources) {
    return fi_cq_readfrom(cq, entries, count, sources);
}

ssize_t pf_cq_readerr(struct fid_cq *cq, struct fi_cq_err_entry *entry) {
    return fi_cq_readerr(cq, entry, 0);
}

int pf_cq_descriptor(struct fid_cq *cq, int *fd) { return fi_control(&cq->fid, FI_GETWAIT, fd); }

int pf_trywait(struct fid_fabric *fabric, struct fid_cq *cq) {
    struct fid *fid = &cq->fid;
    return fi_trywait(fabric, &fid, 1);
}

/*
 * libinfinipath, which libfabric may be linked with for the sake of one provider, takes signals
 * when it is loaded, to print a trace and exit. Whoever catches SIGTERM afterwards and calls the
 * handler before, as is good manners, would be ended by that. Constructors of the program run after
 * those of its libraries, so this gives the signals back before anybody has asked for them.
 */
__attribute__((constructor)) static void pf_give_signals_back(void) {
    static const int taken[] = {SIGSEGV, SIGBUS, SIGILL, SIGABRT, SIGINT, SIGTERM};
    for (size_t at = 0; at < sizeof taken / sizeof *taken; at++) {
        struct sigaction action;
        Dl_info owner;
        if (sigaction(taken[at], NULL, &action) != 0) continue;
        if (action.sa_handler == SIG_DFL || action.sa_handler == SIG_IGN) continue;
        if (dladdr((void *)action.sa_handler, &owner) == 0 || owner.dli_fname == NULL) continue;
        if (strstr(owner.dli_fname, "libinfinipath.so") == NULL) continue;
        signal(taken[at], SIG_DFL);
    }
}
