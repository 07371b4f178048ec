/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/udp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "transports.h"
#include "udp_calls.h"
#include "udp_inside.h"
#include "unit.h"

udp_calls_t calls;

void forget_calls(void)
{
    memset(&calls, 0, sizeof(calls));
    calls.worst = INT32_MAX;
}

/* ---- instead of libc's ---- */

/* Set errno. Returns whether there is an error. */
static bool fails(int error)
{
    errno = error != 0 ? error : errno;
    return error != 0;
}

int setsockopt(int fd, int level, int option, const void *value, socklen_t len)
{
    const int small = (int) calls.small_buffers;

    if (level == SOL_IP && option == IP_RECVERR && fails(calls.option_error)) {
        return -1;
    }
    if (level == SOL_SOCKET && option == SO_REUSEPORT && fails(calls.reuse_error)) {
        return -1;
    }
    if (level == SOL_SOCKET && option == SO_RCVBUF && small != 0) {
        value = &small;
    }
    if (level == SOL_SOCKET && option == SO_BUSY_POLL) {
        if (calls.no_busy_poll) {
            errno = EPERM;
            return -1;
        }
        memcpy(&calls.busy_poll, value, sizeof(calls.busy_poll));
        return 0;
    }
    if (level == SOL_UDP
        && ((calls.no_gso && option == UDP_SEGMENT) || (calls.no_gro && option == UDP_GRO))) {
        errno = ENOPROTOOPT;
        return -1;
    }
    calls.joins = calls.joins || (level == SOL_UDP && option == UDP_GRO);
    return (int) syscall(SYS_setsockopt, fd, level, option, value, len);
}

int socket(int domain, int type, int protocol)
{
    return fails(calls.socket_error) ? -1 : (int) syscall(SYS_socket, domain, type, protocol);
}

int bind(int fd, const struct sockaddr *name, socklen_t len)
{
    return fails(calls.bind_error) ? -1 : (int) syscall(SYS_bind, fd, name, len);
}

int connect(int fd, const struct sockaddr *name, socklen_t len)
{
    calls.connects++;
    if (calls.at_connect != NULL) {
        calls.at_connect();
    }
    return fails(calls.connect_error) ? -1 : (int) syscall(SYS_connect, fd, name, len);
}

int epoll_ctl(int fd, int op, int of, struct epoll_event *event)
{
    return fails(calls.epoll_error) ? -1 : (int) syscall(SYS_epoll_ctl, fd, op, of, event);
}

int epoll_wait(int fd, struct epoll_event *events, int max, int timeout)
{
    calls.asks++;
    return (int) syscall(SYS_epoll_pwait, fd, events, max, timeout, NULL, 0);
}

#ifdef __GLIBC__
typedef int mmsg_flags_t;
#else /* musl */
typedef unsigned mmsg_flags_t;
#endif

/* Is this call to fail? */
static bool spoilt(const struct msghdr *first)
{
    if (calls.send_failures == 0 || (calls.joined_only && first->msg_controllen == 0)) {
        return false;
    }
    calls.send_failures--;
    errno = calls.send_error;
    return true;
}

static void count_sent(const struct msghdr *msg)
{
    uint32_t bytes = 0;

    for (size_t i = 0; i < (size_t) msg->msg_iovlen; i++) {
        bytes += (uint32_t) msg->msg_iov[i].iov_len;
    }
    calls.largest = bytes > calls.largest ? bytes : calls.largest;
    calls.messages++;
    calls.named += msg->msg_name != NULL;
    calls.joined += msg->msg_controllen != 0;
    calls.pieces += msg->msg_controllen != 0 ? (uint32_t) msg->msg_iovlen : 0;
}

ssize_t sendmsg(int fd, const struct msghdr *msg, int flags)
{
    const ssize_t rc = spoilt(msg) ? -1 : syscall(SYS_sendmsg, fd, msg, flags);

    if (rc >= 0) {
        calls.sends++;
        count_sent(msg);
    }
    return rc;
}

int sendmmsg(int fd, struct mmsghdr *msg, unsigned n, mmsg_flags_t flags)
{
    const int rc = fails(calls.mmsg_refused) || spoilt(&msg[0].msg_hdr)
                       ? -1
                       : (int) syscall(SYS_sendmmsg, fd, msg, n, flags);

    calls.sends += rc > 0;
    for (int i = 0; i < rc; i++) {
        count_sent(&msg[i].msg_hdr);
    }
    return rc;
}

static bool spoilt_recv(int flags)
{
    if (flags & MSG_ERRQUEUE) {
        return false;
    }
    calls.receives++;
    if (fails(calls.recv_refused)) {
        return true;
    }
    if (calls.recv_error == 0) {
        return false;
    }
    errno = calls.recv_error;
    calls.recv_error = 0;
    return true;
}

/* Say of a message that it came joined from datagrams of calls.joined_as bytes. */
static void claim(struct msghdr *msg, void *control)
{
    struct cmsghdr *c = control;

    *c = (struct cmsghdr){
        .cmsg_level = SOL_UDP,
        .cmsg_type = UDP_GRO,
        .cmsg_len = CMSG_LEN(sizeof(int)),
    };
    memcpy(CMSG_DATA(c), &calls.joined_as, sizeof(int));
    calls.joined_as = 0;
    msg->msg_control = control;
    msg->msg_controllen = CMSG_SPACE(sizeof(int));
}

ssize_t recvmsg(int fd, struct msghdr *msg, int flags)
{
    void *const control = msg->msg_control;
    const ssize_t rc = spoilt_recv(flags) ? -1 : syscall(SYS_recvmsg, fd, msg, flags);

    if (rc >= 0 && (flags & MSG_ERRQUEUE) == 0 && calls.joined_as != 0) {
        claim(msg, control);
    }
    return rc;
}

int recvmmsg(int fd, struct mmsghdr *msg, unsigned n, mmsg_flags_t flags, struct timespec *timeout)
{
    return fails(calls.mmsg_refused) || spoilt_recv((int) flags)
               ? -1
               : (int) syscall(SYS_recvmmsg, fd, msg, n, flags, timeout);
}

int clock_gettime(clockid_t clock, struct timespec *out)
{
    const uint64_t ns = clock == CLOCK_THREAD_CPUTIME_ID ? calls.cpu : calls.now;

    if (calls.now == 0) {
        return (int) syscall(SYS_clock_gettime, clock, out);
    }
    out->tv_sec = (time_t) (ns / 1000000000u);
    out->tv_nsec = (long) (ns % 1000000000u);
    return 0;
}

void *aligned_alloc(size_t alignment, size_t size)
{
    void *block = NULL;

    return !calls.no_memory && posix_memalign(&block, alignment, size) == 0 ? block : NULL;
}

/* ---- the log ---- */

static void hear(void *context, int level, const char *format, ...)
{
    const size_t used = strlen(calls.heard);
    va_list args;

    assert_ptr_equal(context, &calls);
    calls.worst = level < calls.worst ? level : calls.worst;
    va_start(args, format);
    (void) vsnprintf(calls.heard + used, sizeof(calls.heard) - used, format, args);
    va_end(args);
    strncat(calls.heard, "\n", sizeof(calls.heard) - strlen(calls.heard) - 1);
}

btl_ib_open_params_t heard_params(void)
{
    return (btl_ib_open_params_t){.log = {.print = hear, .context = &calls}};
}

btl_ib_open_params_t two_lanes(uint32_t connected_max)
{
    btl_ib_open_params_t params = heard_params();

    params.bulk_lane = true;
    params.connected_max = connected_max;
    return params;
}

btl_ib_transport_t *open_at(const char *ip, btl_ib_open_params_t params)
{
    btl_ib_device_t device = *bed.device;
    btl_ib_transport_t *t = NULL;

    device.prefix_bits = 16;
    assert_int_equal(
        inet_pton(AF_INET, ip, &((struct sockaddr_in *) (void *) &device.ip)->sin_addr), 1);
    assert_int_equal(bed.type->open(&device, &params, &t), 0);
    return t;
}

void make_connected(btl_ib_transport_t *t, btl_ib_addr_t to, btl_ib_transport_t *peer)
{
    for (int i = 0; i < UDP_CONNECT_AFTER; i++) {
        (void) assert_reaches(t, to, peer, 100);
    }
}

void need_udp(sa_family_t family)
{
    forget_calls();
    (void) free_devices(NULL);
    find_device("udp", NULL, family);
    if (bed.device_count < 0) {
        print_message("skipped: no list of network interfaces: %s\n", strerror(-bed.device_count));
    } else if (bed.device == NULL) {
        print_message("skipped: no loopback interface with an IPv%d address\n",
                      family == AF_INET ? 4 : 6);
    } else {
        return;
    }
    skip();
}
