/*
 * Lets RDMA programs yield the CPU where they poll a completion queue in vain, so that virtual time passes: for UCX, whose loops are long.
 *
 *     gcc -O2 -shared -fPIC -o verbs_waits.so examples/verbs_waits.c -ldl
 *     LD_PRELOAD=$PWD/verbs_waits.so UCX_UD_VERBS_ETH_DGID_CHECK=n UCX_TLS=rc,self UCX_NET_DEVICES=rxe0:1 UCX_IB_GID_INDEX=1 ucx_perftest ...
 *
 * A queue that is empty twice, and no other that had something in between: then the program waits.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <sched.h>
#include <stdlib.h>
static int (*original)(struct ibv_cq *, int, struct ibv_wc *);
static __thread struct ibv_cq *empty;
static int poll_cq(struct ibv_cq *cq, int most, struct ibv_wc *wc)
{
	int found = original(cq, most, wc);
	if (found)
		empty = NULL;
	else if (!empty)
		empty = cq;
	else if (empty == cq)
		sched_yield();
	return found;
}
struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	static struct ibv_context *(*open_device)(struct ibv_device *);
	struct ibv_context *context;
	if (!open_device)
		open_device = dlvsym(dlopen("libibverbs.so.1", RTLD_LAZY), "ibv_open_device", "IBVERBS_1.1");
	context = open_device(device);
	if (context && context->ops.poll_cq != poll_cq) {
		original = context->ops.poll_cq;
		context->ops.poll_cq = poll_cq;
	}
	return context;
}
