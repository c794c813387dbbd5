/* Symbols for what libfabric's headers define inline. Nothing is decided here. */
#ifndef PETASOS_FABRIC_SHIM_H
#define PETASOS_FABRIC_SHIM_H

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>

uint32_t pf_api_version(void);
struct fi_info *pf_allocinfo(void);
char *pf_strdup(const char *text);
int pf_close(struct fid *fid);
int pf_domain(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain);
int pf_cq_open(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **cq);
int pf_av_open(struct fid_domain *domain, struct fi_av_attr *attr, struct fid_av **av);
int pf_endpoint(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep);
int pf_ep_bind(struct fid_ep *ep, struct fid *fid, uint64_t flags);
int pf_enable(struct fid_ep *ep);
int pf_getname(struct fid_ep *ep, void *address, size_t *length);
int pf_av_insert(struct fid_av *av, const void *address, fi_addr_t *peer);
int pf_av_remove(struct fid_av *av, fi_addr_t peer);
int pf_mr_reg(struct fid_domain *domain, const void *memory, size_t length, struct fid_mr **mr);
void *pf_mr_desc(struct fid_mr *mr);
ssize_t pf_recv(struct fid_ep *ep, void *memory, size_t length, void *desc, void *context);
ssize_t pf_send(struct fid_ep *ep, const void *memory, size_t length, void *desc, fi_addr_t peer,
                void *context, uint64_t flags);
ssize_t pf_inject(struct fid_ep *ep, const void *memory, size_t length, fi_addr_t peer);
ssize_t pf_cq_read(struct fid_cq *cq, struct fi_cq_msg_entry *entries, size_t count);
ssize_t pf_cq_readfrom(struct fid_cq *cq, struct fi_cq_msg_entry *entries, size_t count,
                       fi_addr_t *sources);
ssize_t pf_cq_readerr(struct fid_cq *cq, struct fi_cq_err_entry *entry);
int pf_cq_descriptor(struct fid_cq *cq, int *fd);
int pf_trywait(struct fid_fabric *fabric, struct fid_cq *cq);

#endif
