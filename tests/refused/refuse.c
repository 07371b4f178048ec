/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * A library for LD_PRELOAD with which the system refuses calls of the component ib
 * (mca_btl_ib.so), as filters of system calls, containers, other kernels and limits do. The same
 * calls of anybody else, as of Open MPI's own TCP, pass.
 *
 * REFUSE="CALL/OPTION/ERRNO[/AFTER] ...": CALL fails with ERRNO, a number, if what it is for matches
 * OPTION, a shell pattern in which a comma stands for a slash of a path: the name of an option, of
 * a flag or of a control message, a path; "-": calls of that name have none. The first AFTER (0) of
 * a process pass.
 * REFUSE_SAYS=FILE: a line "called CALL OPTION", and where it applies "refused CALL OPTION", is
 * added for the first call of each kind that the component makes.
 */

#define _GNU_SOURCE

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <ifaddrs.h>
#include <link.h>
#include <linux/membarrier.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

enum { TEXT = 160, KINDS = 256, RULES = 8 };

/* ---- who calls ---- */

static uintptr_t first, bytes; /* of the component, once it has called */

static int find_end(struct dl_phdr_info *info, size_t size, void *context)
{
    (void) size;
    if (info->dlpi_addr != (uintptr_t) context) {
        return 0;
    }
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const uintptr_t end = info->dlpi_phdr[i].p_vaddr + info->dlpi_phdr[i].p_memsz;
        bytes = info->dlpi_phdr[i].p_type == PT_LOAD && end > bytes ? end : bytes;
    }
    return 1;
}

/* True if an address to which a call returns is one of the component's. */
static bool is_of_ib(const void *caller)
{
    Dl_info info;

    if (first == 0 && dladdr(caller, &info) != 0 && info.dli_fname != NULL
        && strstr(info.dli_fname, "mca_btl_ib.so") != NULL) {
        (void) dl_iterate_phdr(find_end, info.dli_fbase);
        first = (uintptr_t) info.dli_fbase;
    }
    return first != 0 && (uintptr_t) caller - first < bytes;
}

/* ---- what is refused ---- */

typedef struct rule {
    char call[32], option[TEXT];
    int error;
    long after;
    long seen;
} rule_t;

static struct {
    pthread_mutex_t mutex;
    rule_t rule[RULES];
    int rules;
    char said[KINDS][TEXT];
    int kinds;
} state = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* Returns what stands behind a function of ours: the system's, or that of a library that the
 * component has loaded for itself. */
static void *next(const char *name)
{
    void *library = strncmp(name, "fi_", 3) == 0 ? dlopen("libfabric.so.1", RTLD_LAZY | RTLD_NOLOAD)
                                                 : RTLD_NEXT;
    void *found = dlsym(library, name);

    if (found == NULL) {
        fprintf(stderr, "refuse: no function %s\n", name);
        abort();
    }
    return found;
}

/* Adds a line to the file, unless it is there already. */
static void say(const char *what, const char *call, const char *option)
{
    static int (*real_open)(const char *, int, ...);
    const char *path = getenv("REFUSE_SAYS");
    char line[TEXT];

    snprintf(line, sizeof(line), "%s %s %s\n", what, call, option);
    for (int i = 0; i < state.kinds; i++) {
        if (strcmp(state.said[i], line) == 0) {
            return;
        }
    }
    if (path == NULL || state.kinds == KINDS) {
        return;
    }
    memcpy(state.said[state.kinds++], line, sizeof(line));
    real_open = real_open != NULL ? real_open : (int (*)(const char *, int, ...)) next("open");
    const int fd = real_open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, line, strlen(line)) < 0) {
        fprintf(stderr, "refuse: cannot write %s\n", path);
    }
    if (fd >= 0) {
        close(fd);
    }
}

__attribute__((constructor)) static void read_rules(void)
{
    const char *text = getenv("REFUSE");
    int used = 0;

    for (; text != NULL && state.rules < RULES; text += used) {
        rule_t *rule = &state.rule[state.rules];
        if (sscanf(text, " %31[^/]/%159[^/]/%d%n", rule->call, rule->option, &rule->error, &used)
            != 3) {
            break;
        }
        text += used;
        used = 0;
        (void) sscanf(text, "/%ld%n", &rule->after, &used);
        for (char *c = rule->option; (c = strchr(c, ',')) != NULL;) {
            *c = '/';
        }
        state.rules++;
    }
}

/* Returns the errno with which a call of the component is refused, or 0. */
static int refuse(const char *call, const char *option)
{
    int error = 0;

    pthread_mutex_lock(&state.mutex);
    say("called", call, option);
    for (int i = 0; i < state.rules && error == 0; i++) {
        rule_t *rule = &state.rule[i];
        if (strcmp(rule->call, call) == 0 && fnmatch(rule->option, option, 0) == 0
            && rule->seen++ >= rule->after) {
            error = rule->error;
            say("refused", call, option);
        }
    }
    pthread_mutex_unlock(&state.mutex);
    return error;
}

/* Makes a call with those parameters that stands before the system's. If it is refused it returns
 * `failed`, in which `error` is the errno. */
#define STAND_IN(type, name, parameters, arguments, option, failed)                                \
    type name parameters                                                                           \
    {                                                                                              \
        static type(*real) parameters;                                                             \
        const int error = is_of_ib(__builtin_return_address(0)) ? refuse(#name, (option)) : 0;     \
        if (error != 0) {                                                                          \
            errno = error;                                                                         \
            return (failed);                                                                       \
        }                                                                                          \
        if (real == NULL) {                                                                        \
            real = (type(*) parameters) next(#name);                                               \
        }                                                                                          \
        return real arguments;                                                                     \
    }

/* ---- names of what a call is for ---- */

typedef struct name {
    long level, number;
    const char *text;
} name_t;

#define NAME(level, number)                                                                        \
    {                                                                                              \
        level, number, #number                                                                     \
    }

static const char *find_name(const name_t *names, size_t count, long level, long number)
{
    static _Thread_local char text[TEXT];

    for (size_t i = 0; i < count; i++) {
        if (names[i].level == level && names[i].number == number) {
            return names[i].text;
        }
    }
    snprintf(text, sizeof(text), "%ld:%ld", level, number);
    return text;
}

#define FIND(names, level, number)                                                                 \
    find_name(names, sizeof(names) / sizeof((names)[0]), level, number)

static const name_t options[] = {
    NAME(SOL_SOCKET, SO_RCVBUF),
    NAME(SOL_SOCKET, SO_SNDBUF),
    NAME(SOL_SOCKET, SO_RXQ_OVFL),
    NAME(SOL_SOCKET, SO_PEEK_OFF),
    NAME(SOL_SOCKET, SO_REUSEPORT),
    NAME(SOL_SOCKET, SO_PRIORITY),
    NAME(SOL_SOCKET, SO_BUSY_POLL),
    NAME(SOL_SOCKET, SO_PREFER_BUSY_POLL),
    NAME(SOL_SOCKET, SO_BUSY_POLL_BUDGET),
    NAME(SOL_SOCKET, SO_ATTACH_FILTER),
    NAME(SOL_UDP, UDP_GRO),
    NAME(SOL_UDP, UDP_SEGMENT),
    NAME(SOL_IP, IP_RECVERR),
    NAME(SOL_IP, IP_MTU_DISCOVER),
    NAME(SOL_IP, IP_MTU),
    NAME(SOL_IP, IP_TOS),
    NAME(SOL_IP, IP_RECVTOS),
    NAME(SOL_IP, IP_BIND_ADDRESS_NO_PORT),
    NAME(SOL_IPV6, IPV6_RECVERR),
    NAME(SOL_IPV6, IPV6_V6ONLY),
    NAME(SOL_IPV6, IPV6_MTU_DISCOVER),
    NAME(SOL_IPV6, IPV6_MTU),
    NAME(SOL_IPV6, IPV6_TCLASS),
    NAME(SOL_IPV6, IPV6_RECVTCLASS),
};

static const char *option_name(int level, int option)
{
    return FIND(options, level, option);
}

static const char *question_name(unsigned long request)
{
    static const name_t questions[] = {
        NAME(0, SIOCGIFMTU),  NAME(0, SIOCGIFFLAGS),   NAME(0, SIOCGIFCONF),
        NAME(0, SIOCETHTOOL), NAME(0, SIOCGIFNETMASK),
    };

    return FIND(questions, 0, (long) request);
}

static const char *family_name(int family)
{
    static const name_t families[] = {NAME(0, AF_INET), NAME(0, AF_INET6), NAME(0, AF_NETLINK)};

    return FIND(families, 0, family);
}

/* Returns the name of the first control message that is no other's, "plain" if there is none. */
static const char *control_name(const struct msghdr *msg)
{
    const struct cmsghdr *control = CMSG_FIRSTHDR(msg);

    return control == NULL ? "plain" : option_name(control->cmsg_level, control->cmsg_type);
}

static const char *flag_name(int flags)
{
    return flags & MSG_ERRQUEUE ? "MSG_ERRQUEUE"
           : flags & MSG_PEEK   ? "MSG_PEEK"
           : flags & MSG_TRUNC  ? "MSG_TRUNC"
                                : "plain";
}

static const char *verb_name(int verb)
{
    static const name_t verbs[] = {NAME(0, EPOLL_CTL_ADD), NAME(0, EPOLL_CTL_DEL)};

    return FIND(verbs, 0, verb);
}

/* Returns a path in which "N" stands for each part that is a number. */
static const char *path_name(const char *path)
{
    static _Thread_local char text[TEXT];
    size_t len = 0;

    while (*path != '\0' && len + 2 < sizeof(text)) {
        const size_t part = strcspn(path, "/");
        if (part > 0 && strspn(path, "0123456789") == part) {
            text[len++] = 'N';
        } else {
            const size_t most = part < sizeof(text) - 2 - len ? part : sizeof(text) - 2 - len;
            memcpy(text + len, path, most);
            len += most;
        }
        path += part;
        if (*path == '/') {
            text[len++] = *path++;
        }
    }
    text[len] = '\0';
    return text;
}

/* ---- the network ---- */

STAND_IN(int, socket, (int family, int type, int protocol), (family, type, protocol),
         family_name(family), -1)
STAND_IN(int, bind, (int fd, const struct sockaddr *name, socklen_t len), (fd, name, len), "-", -1)
STAND_IN(int, connect, (int fd, const struct sockaddr *name, socklen_t len), (fd, name, len), "-",
         -1)
STAND_IN(int, getsockname, (int fd, struct sockaddr *name, socklen_t *len), (fd, name, len), "-",
         -1)
STAND_IN(int, setsockopt, (int fd, int level, int option, const void *value, socklen_t len),
         (fd, level, option, value, len), option_name(level, option), -1)
STAND_IN(int, getsockopt, (int fd, int level, int option, void *value, socklen_t *len),
         (fd, level, option, value, len), option_name(level, option), -1)
STAND_IN(ssize_t, send, (int fd, const void *data, size_t size, int flags), (fd, data, size, flags),
         "-", -1)
STAND_IN(ssize_t, recv, (int fd, void *data, size_t size, int flags), (fd, data, size, flags), "-",
         -1)
STAND_IN(ssize_t, sendmsg, (int fd, const struct msghdr *msg, int flags), (fd, msg, flags),
         control_name(msg), -1)
STAND_IN(int, sendmmsg, (int fd, struct mmsghdr *msg, unsigned count, int flags),
         (fd, msg, count, flags), control_name(&msg->msg_hdr), -1)
STAND_IN(ssize_t, recvmsg, (int fd, struct msghdr *msg, int flags), (fd, msg, flags),
         flag_name(flags), -1)
STAND_IN(int, recvmmsg,
         (int fd, struct mmsghdr *msg, unsigned count, int flags, struct timespec *most),
         (fd, msg, count, flags, most), flag_name(flags), -1)
STAND_IN(int, getifaddrs, (struct ifaddrs * *all), (all), "-", -1)
STAND_IN(unsigned, if_nametoindex, (const char *name), (name), "-", 0)
STAND_IN(char *, if_indextoname, (unsigned index, char name[IF_NAMESIZE]), (index, name), "-", NULL)

int ioctl(int fd, unsigned long request, ...)
{
    static int (*real)(int, unsigned long, ...);
    va_list list;

    va_start(list, request);
    void *argument = va_arg(list, void *);
    va_end(list);
    const int error =
        is_of_ib(__builtin_return_address(0)) ? refuse("ioctl", question_name(request)) : 0;
    if (error != 0) {
        errno = error;
        return -1;
    }
    if (real == NULL) {
        real = (int (*)(int, unsigned long, ...)) next("ioctl");
    }
    return real(fd, request, argument);
}

/* ---- waiting ---- */

STAND_IN(int, epoll_create1, (int flags), (flags), "-", -1)
STAND_IN(int, epoll_ctl, (int set, int verb, int fd, struct epoll_event *event),
         (set, verb, fd, event), verb_name(verb), -1)
STAND_IN(int, epoll_wait, (int set, struct epoll_event *events, int count, int most),
         (set, events, count, most), "-", -1)
STAND_IN(int, eventfd, (unsigned count, int flags), (count, flags), "-", -1)
STAND_IN(int, poll, (struct pollfd * fd, nfds_t count, int most), (fd, count, most), "-", -1)
STAND_IN(int, ppoll,
         (struct pollfd * fd, nfds_t count, const struct timespec *most, const sigset_t *mask),
         (fd, count, most, mask), "-", -1)

/* ---- threads ---- */

STAND_IN(int, pthread_create,
         (pthread_t * thread, const pthread_attr_t *attr, void *(*run)(void *), void *context),
         (thread, attr, run, context), "-", error)
STAND_IN(int, pthread_getcpuclockid, (pthread_t thread, clockid_t *clock), (thread, clock), "-",
         error)
STAND_IN(int, pthread_setname_np, (pthread_t thread, const char *name), (thread, name), "-", error)
STAND_IN(int, sched_yield, (void), (), "-", -1)

int prctl(int option, ...)
{
    static int (*real)(int, ...);
    va_list list;

    va_start(list, option);
    const unsigned long argument = va_arg(list, unsigned long);
    va_end(list);
    const int error =
        is_of_ib(__builtin_return_address(0))
            ? refuse("prctl", option == PR_SET_NAME ? "PR_SET_NAME" : "PR_SET_TIMERSLACK")
            : 0;
    if (error != 0) {
        errno = error;
        return -1;
    }
    if (real == NULL) {
        real = (int (*)(int, ...)) next("prctl");
    }
    return real(option, argument, 0UL, 0UL, 0UL);
}

/* The calls that have no function of their own. */
long syscall(long number, ...)
{
    static const name_t barriers[] = {
        NAME(0, MEMBARRIER_CMD_QUERY),
        NAME(0, MEMBARRIER_CMD_PRIVATE_EXPEDITED),
        NAME(0, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED),
    };
    static long (*real)(long, ...);
    long argument[6];
    va_list list;

    va_start(list, number);
    for (int i = 0; i < 6; i++) {
        argument[i] = va_arg(list, long);
    }
    va_end(list);
    const int error = number == SYS_membarrier && is_of_ib(__builtin_return_address(0))
                          ? refuse("membarrier", FIND(barriers, 0, argument[0]))
                          : 0;
    if (error != 0) {
        errno = error;
        return -1;
    }
    if (real == NULL) {
        real = (long (*)(long, ...)) next("syscall");
    }
    return real(number, argument[0], argument[1], argument[2], argument[3], argument[4],
                argument[5]);
}

/* ---- memory, files and the rest ---- */

STAND_IN(void *, mmap, (void *at, size_t size, int protection, int flags, int fd, off_t offset),
         (at, size, protection, flags, fd, offset), fd < 0 ? "memory" : "file", MAP_FAILED)
STAND_IN(FILE *, fopen, (const char *path, const char *mode), (path, mode), path_name(path), NULL)
STAND_IN(DIR *, opendir, (const char *path), (path), path_name(path), NULL)
STAND_IN(ssize_t, readlink, (const char *path, char *out, size_t size), (path, out, size),
         path_name(path), -1)
STAND_IN(int, stat, (const char *path, struct stat *out), (path, out), path_name(path), -1)
STAND_IN(int, access, (const char *path, int mode), (path, mode), path_name(path), -1)
STAND_IN(ssize_t, getrandom, (void *out, size_t size, unsigned flags), (out, size, flags), "-", -1)
STAND_IN(int, uname, (struct utsname * name), (name), "-", -1)
STAND_IN(int, getrlimit, (__rlimit_resource_t resource, struct rlimit *limit), (resource, limit),
         "-", -1)

int open(const char *path, int flags, ...)
{
    static int (*real)(const char *, int, ...);
    va_list list;

    va_start(list, flags);
    const unsigned mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(list, unsigned) : 0;
    va_end(list);
    const int error = is_of_ib(__builtin_return_address(0)) ? refuse("open", path_name(path)) : 0;
    if (error != 0) {
        errno = error;
        return -1;
    }
    if (real == NULL) {
        real = (int (*)(const char *, int, ...)) next("open");
    }
    return real(path, flags, mode);
}

/* ---- libfabric ---- */

struct fi_info;
struct fi_fabric_attr;
struct fid_fabric;

STAND_IN(int, fi_getinfo,
         (uint32_t version, const char *node, const char *service, uint64_t flags,
          const struct fi_info *hints, struct fi_info **info),
         (version, node, service, flags, hints, info), "-", -error)
STAND_IN(int, fi_fabric, (struct fi_fabric_attr * attr, struct fid_fabric **fabric, void *context),
         (attr, fabric, context), "-", -error)
