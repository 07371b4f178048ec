/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_peer_report.h"

#include "btl_ib_help.h"
#include "btl_ib_modex.h"
#include "net_interfaces.h"

#include <errno.h>
#include <inttypes.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <stdlib.h>

/* Seven arguments of help texts that describe both ends: rank, host, device and address of ours;
 * rank, host and address of the peer. (tests/docs/check counts seven.) */
#define ENDS(ends)                                                                                 \
    (ends)->our_rank, opal_process_info.nodename, (ends)->device, (ends)->our_address,             \
        (ends)->rank, (ends)->host, (ends)->address

/* ---- diagnosis ---- */

/* True if `ip` is the address in "10.1.2.3:4567" or "[fd00::1]:4567", or without a port. */
static bool is_ip_of(const char *ip, const char *address)
{
    const char *text = address + (address[0] == '[');
    const size_t len = strlen(ip);

    return len > 0 && strncmp(ip, text, len) == 0
           && (text[len] == '\0' || text[len] == ']'
               || (text[len] == ':' && strchr(ip, ':') == NULL));
}

/* Returns a text that says where the host `by`, which sent an ICMP error, is: at our end, at the
 * peer's, or on the way; and whether it is a firewall. */
static const char *diagnosis_origin(const char *by, const char *ours, const char *theirs, int error)
{
    if (is_ip_of(by, theirs)) {
        return error == EACCES ? ": a firewall of that host" : ", that host itself";
    }
    if (is_ip_of(by, ours)) {
        return error == EHOSTUNREACH
                   ? ", this host: nobody in its network answers for that address (ARP)"
               : error == EACCES ? ": a firewall of this host"
                                 : ", this host itself";
    }
    return error == EACCES ? ": a firewall on the way" : ", a router or a firewall on the way";
}

/* Writes a sentence, without its full stop, that says what the network or this system reported; ""
 * if nothing. `ours` and `theirs` are the addresses of both ends, with or without a port. */
static void diagnosis_format(const btl_ib_diagnosis_t *diagnosis, const char *ours,
                             const char *theirs, char *out, size_t size)
{
    const char *what = diagnosis->said == ECONNREFUSED  ? "port unreachable"
                       : diagnosis->said == EACCES      ? "administratively prohibited"
                       : diagnosis->said == ENETUNREACH ? "network unreachable"
                                                        : "host unreachable";

    if (diagnosis->unsent != 0) {
        snprintf(out, size, "this host's own system refuses to send: %s (errno %d)",
                 strerror(diagnosis->unsent), diagnosis->unsent);
    } else if (diagnosis->said == 0) {
        out[0] = '\0';
    } else if (diagnosis->by[0] == '\0') {
        snprintf(out, size, "the network says: %s", what);
    } else {
        snprintf(out, size, "%s, says %s%s", what, diagnosis->by,
                 diagnosis_origin(diagnosis->by, ours, theirs, diagnosis->said));
    }
}

/* Writes how many datagrams were dropped because their source is not the published address. Returns
 * whether any were. */
static bool format_foreign(const btl_ib_diagnosis_t *diagnosis, const char *published, char *out,
                           size_t size)
{
    if (diagnosis->foreign > 0 && diagnosis->from[0] != '\0') {
        snprintf(out, size, "its datagrams come from %s,\nit published %s: dropped (%u)",
                 diagnosis->from, published, diagnosis->foreign);
    } else if (diagnosis->foreign > 0) {
        snprintf(out, size,
                 "its datagrams come from an address that it did not publish: dropped (%u)",
                 diagnosis->foreign);
    }
    return diagnosis->foreign > 0;
}

/* ---- advice ---- */

/* Lines of a help text. */
typedef struct advice {
    const char *step; /* what to do first */
    const char *more; /* what else it may be: below @details */
} advice_t;

#define UNANSWERED_STEP                                                                            \
    "let the firewalls of both hosts pass UDP (btl_ib_port_min and btl_ib_port_range\n"            \
    "choose the ports), or choose another network (btl_ib_if_include)."
#define UNANSWERED_MORE                                                                            \
    "The address may not be routed (ping), the process stopped (debugger, SIGSTOP, frozen\n"       \
    "cgroup), its host's address another one since the job began (DHCP), which it could not\n"     \
    "tell, or a router gives its datagrams another one (NAT)."
#define ENDED_STEP                                                                                 \
    "look at that rank's own output and exit status, and at the kernel's log of its\n"             \
    "host (out of memory?)."

/* True if the address in `text` is the broadcast address of that interface's network, by the
 * netmask that this host has for it. */
static bool is_broadcast_of(const struct ifaddrs *i, const char *text)
{
    struct sockaddr_in last = {.sin_family = AF_INET};
    char ip[INET6_ADDRSTRLEN];

    if (i->ifa_addr == NULL || i->ifa_addr->sa_family != AF_INET || i->ifa_netmask == NULL
        || btl_ib_ip_prefix(i->ifa_netmask) > 30) {
        return false;
    }
    last.sin_addr.s_addr =
        ((const struct sockaddr_in *) (const void *) i->ifa_addr)->sin_addr.s_addr
        | ~((const struct sockaddr_in *) (const void *) i->ifa_netmask)->sin_addr.s_addr;
    return is_ip_of(btl_ib_ip_text((const struct sockaddr *) &last, ip, sizeof(ip)), text);
}

/* Asks the system whether the address in `text` is the broadcast address of a network of this
 * host. */
static bool find_broadcast_here(const char *text)
{
    struct ifaddrs *all = NULL;

    if (btl_ib_net_addresses_get(&all, NULL) != 0) {
        return false;
    }
    const struct ifaddrs *i = all;
    while (i != NULL && !is_broadcast_of(i, text)) {
        i = i->ifa_next;
    }
    const bool found = i != NULL;
    free(all);
    return found;
}

/* Advice where a call of libibverbs or librdmacm is refused. */
static const char RDMA_STEP[] =
    "look at the device and its driver (the kernel's log, ibv_devinfo), and at what\n"
    "this process may have of it (ulimit -l, the limits of its cgroup: rdma.max).";

static bool is_rdma_call(const char *call)
{
    return call != NULL && (strncmp(call, "ibv_", 4) == 0 || strncmp(call, "rdma_", 5) == 0);
}

/* Returns what to do where the system refuses each datagram to `address` with an errno. */
static const char *unsent_step(int error, const char *address)
{
    switch (error) {
    case EACCES: /* also what sendmsg(2) says without SO_BROADCAST */
        if (find_broadcast_here(address)) {
            return "give both hosts the same netmask: for this host that address is one\n"
                   "of broadcasts, for the other host its own (ip -4 address).";
        }
        __attribute__((fallthrough));
    case EPERM:
        return "allow it in the firewall of this host, or take the route that prohibits it\n"
               "away (nft list ruleset, iptables -S OUTPUT, ip route get <address>); a filter of\n"
               "system calls has to allow sendmsg.";
    case ENOSYS:
        return "allow sendmsg in the filter of system calls (seccomp, a container's profile).";
    case ENETUNREACH:
    case EHOSTUNREACH:
    case EADDRNOTAVAIL:
    case EINVAL:
        return "give this host its route and address back (ip route get <address>, ip address).";
    case ENODEV:
    case ENXIO:
    case ENETDOWN:
        return "bring the interface up, or back (ip link).";
    case EBADF:
    case ENOTSOCK:
        return "let the application close only descriptors of its own (closefrom(), or a loop\n"
               "over close()).";
    default:
        return "look at the kernel's log, \"ip -s link\" and \"ip route get <address>\".";
    }
}

/* Writes what a transport says of datagrams that it does not send: the call and what its errno
 * means, or what came in its place (a peer that rejects connections). Returns the errno. */
static int refused_send_format(const btl_ib_refused_send_t *refused, char *out, size_t size)
{
    const bool named = refused->call != NULL && refused->call_error != 0;
    const int error = named ? refused->call_error : refused->error;

    snprintf(out, size, "%s%s%s", refused->call != NULL ? refused->call : "", named ? ": " : "",
             named || refused->call == NULL ? strerror(error) : "");
    return error;
}

/* Returns what to do about that. */
static const char *refused_send_step(const btl_ib_refused_send_t *refused, const char *address)
{
    return is_rdma_call(refused->call) ? RDMA_STEP
           : refused->call != NULL && refused->call_error == 0
               ? "look at what that process says of its device (btl_base_verbose 1)."
               : unsent_step(refused->error, address);
}

/* Writes what to do about a peer that never answered: `step`; before it, if unused addresses of
 * this host may lead to the peer, to choose one of these. `error` is the errno that the network or
 * this system reported; 0: none. */
static void format_step(const btl_ib_peer_reports_t *reports, int error, const char *step,
                        char *out, size_t size)
{
    if (reports->left_aside > 0 && (error == 0 || error == ENETUNREACH || error == EHOSTUNREACH)) {
        snprintf(out, size,
                 "name a network of both hosts in btl_ib_if_include: of this host %u addresses\n"
                 "are not used, as %d are the most.\nOr %s",
                 reports->left_aside, BTL_IB_RAILS_MAX, step);
    } else {
        snprintf(out, size, "%s", step);
    }
}

/* Advice for a peer whose datagrams come from an address that it did not publish. */
static const advice_t FOREIGN_ADVICE = {
    "let the router between the hosts leave addresses alone (ip route, no masquerade),\n"
    "or choose a network without it (btl_ib_if_include).",
    "It gives datagrams another address (NAT), or the host has another one since the job\n"
    "began (DHCP): what comes from there is not taken for the process's own."};

/* Returns advice by an errno that the network reported of a peer. */
static advice_t said_advice(int error)
{
    switch (error) {
    case EACCES:
        return (advice_t){
            "open the ports in that firewall (btl_ib_port_min and btl_ib_port_range choose\n"
            "them).",
            "btl_ib_if_include chooses another network."};
    case ECONNREFUSED:
        return (advice_t){
            "let the firewall of that host accept UDP (nft, iptables: reject).",
            "If there is none the process has ended, or closed descriptors that are not its own:\n"
            "see its output, its exit status and the kernel's log of its host (out of memory?)."};
    default:
        return (advice_t){
            "look whether the host is up and its address routed from here (ping, ip route get\n"
            "<address>, ip neigh).",
            "Its address may have changed since the job began (DHCP), which it could not tell.\n"
            "btl_ib_if_include chooses another network."};
    }
}

/* ---- the interface ---- */

/* Returns the first address of the device's interface that is of the device's family and not
 * link-local; NULL: there is none. */
static const struct sockaddr *find_other(const struct ifaddrs *all, const btl_ib_device_t *device)
{
    const struct ifaddrs *i = all;

    while (i != NULL
           && (i->ifa_addr == NULL || i->ifa_addr->sa_family != device->ip.ss_family
               || !btl_ib_interface_same(i->ifa_name, device->interface)
               || btl_ib_ip_link_local(i->ifa_addr))) {
        i = i->ifa_next;
    }
    return i != NULL ? i->ifa_addr : NULL;
}

static bool has_ip(const struct ifaddrs *all, const struct sockaddr *ip)
{
    const struct ifaddrs *i = all;

    while (i != NULL && (i->ifa_addr == NULL || !btl_ib_ip_same(i->ifa_addr, ip))) {
        i = i->ifa_next;
    }
    return i != NULL;
}

/* Writes in what state a device's interface and address are now. */
static void diagnosed_interface(const btl_ib_device_t *device, char *out, size_t size)
{
    const struct sockaddr *ip = (const struct sockaddr *) (const void *) &device->ip;
    struct ifreq request = {.ifr_flags = 0};
    struct ifaddrs *all = NULL;
    char now[INET6_ADDRSTRLEN];
    char before[INET6_ADDRSTRLEN];

    if (device->interface[0] == '\0'
        || btl_ib_interface_ask(device->interface, SIOCGIFFLAGS, &request) != NULL) {
        snprintf(out, size, "there is no interface %s any more",
                 device->interface[0] != '\0' ? device->interface : "of that device");
        return;
    }
    if ((request.ifr_flags & IFF_UP) == 0) {
        snprintf(out, size, "interface %s is down", device->interface);
        return;
    }
    if (btl_ib_net_addresses_get(&all, NULL) != 0) {
        snprintf(out, size, "interface %s is up", device->interface);
        return;
    }
    if (has_ip(all, ip)) {
        snprintf(out, size, "interface %s is up and has its address", device->interface);
    } else {
        const struct sockaddr *other = find_other(all, device);

        snprintf(out, size, "interface %s has no longer the address %s, now: %s", device->interface,
                 btl_ib_ip_text(ip, before, sizeof(before)),
                 other != NULL ? btl_ib_ip_text(other, now, sizeof(now)) : "none");
    }
    free(all);
}

/* ---- failures ---- */

void btl_ib_peer_reports_init(btl_ib_peer_reports_t *reports, uint32_t rank,
                              const btl_ib_params_t *params,
                              const struct mca_btl_base_module_t *limits,
                              const btl_ib_modex_t *self)
{
    *reports = (btl_ib_peer_reports_t){
        .rank = rank,
        .params = params,
        .limits = limits,
        .self = self,
    };
}

static const advice_t death_advice[] = {
    [BTL_IB_DEATH_REFUSED] = {ENDED_STEP,
                              "If it still runs, a firewall between the hosts rejects UDP."},
    [BTL_IB_DEATH_SILENCE] =
        {"look whether the host is up and reached (ping), and the process not stopped.",
         "If it only computed for long without calling MPI, raise btl_ib_silence_limit\n"
         "(seconds; 0 means for ever)."},
    [BTL_IB_DEATH_UNANSWERED] =
        {UNANSWERED_STEP, UNANSWERED_MORE
         "\n"
         "If the process is stopped btl_ib_connect_timeout says how long is waited (seconds; 0\n"
         "means for ever)."},
    [BTL_IB_DEATH_NO_PROGRESS] =
        {"see whether large datagrams pass (the MTU of a switch): ping -M do -s 1472.",
         "If the process only computed for long without calling MPI, raise\n"
         "btl_ib_silence_limit (seconds; 0 means for ever)."},
    [BTL_IB_DEATH_NO_TAG] =
        {"run the same Open MPI with the same --mca pml, btl and osc on all hosts.",
         "It does not use what this process sends to."},
    [BTL_IB_DEATH_ENDED] =
        {ENDED_STEP,
         "With ULFM (mpirun --with-ft ulfm) look also at what the other processes of this\n"
         "host say: if one gives a process up, all do."},
    [BTL_IB_DEATH_HOST_LOST] = {"look whether the host has lost its power or its network.",
                                "It was asked each btl_ib_keepalive seconds (0: never)."},
    [BTL_IB_DEATH_RESTARTED] =
        {"look why the earlier process ended: at that rank's own output, and the kernel's\n"
         "log of its host.",
         "It has its name, and other secrets."},
    [BTL_IB_DEATH_DEVICE] =
        {"look at the device, its cable and its port (the kernel's log, ip link,\n"
         "ibv_devinfo).",
         "A box above names the device's error."},
};

/* True if the network may be the cause. */
static bool is_of_network(btl_ib_death_t reason)
{
    return reason == BTL_IB_DEATH_SILENCE || reason == BTL_IB_DEATH_NO_PROGRESS
           || reason == BTL_IB_DEATH_UNANSWERED || reason == BTL_IB_DEATH_REFUSED
           || reason == BTL_IB_DEATH_HOST_LOST;
}

/* Returns the name of another BTL that could carry messages to other hosts; NULL: none. (It does
 * not take over by itself, as Open MPI gave the peers to ib alone.) */
static const char *find_other_btl(void)
{
    mca_btl_base_selected_module_t *each;

    OPAL_LIST_FOREACH(each, &mca_btl_base_modules_initialized, mca_btl_base_selected_module_t)
    {
        const char *name = each->btl_component->btl_version.mca_component_name;

        if (strcmp(name, "ib") != 0 && strcmp(name, "self") != 0
            && strcmp(name, BTL_IB_SHARED_MEMORY) != 0) {
            return name;
        }
    }
    return NULL;
}

/* Writes, as a line of its own, which BTL to use instead of ib; "" if no other was loaded. */
static void format_without_ib(char *out, size_t size)
{
    const char *other = find_other_btl();

    out[0] = '\0';
    if (other != NULL) {
        snprintf(out, size,
                 "\nOr leave ib out, without it \"%s\" carries this: --mca btl %s,%s,self.", other,
                 other, BTL_IB_SHARED_MEMORY);
    }
}

/*
 * Shows "peer lost". The reason and the advice are the engine's (`reason`), unless the network may
 * be the cause and something is known of it; then the first of these that applies:
 *
 *      nothing is sent: our own system,      what it said, and what to do about that
 *      or the peer's, refuses to
 *      an ICMP message or the like came     the engine's reason and the message; advice on that
 *      datagrams came, but not acceptable   the engine's reason and what came; advice on that
 *
 * A refused peer that never answered has a reason of its own: nobody was ever at its port.
 */
void btl_ib_report_peer_lost(const btl_ib_peer_reports_t *reports, const btl_ib_ends_t *ends,
                             btl_ib_death_t reason, const btl_ib_diagnosis_t *diagnosis,
                             const btl_ib_refused_send_t *refused)
{
    const char *why = btl_ib_death_string(reason);
    advice_t advice = death_advice[reason];
    char known[256];
    char came[320];
    char text[512];
    char step[512];
    char without_ib[256] = "";

    diagnosis_format(diagnosis, ends->our_address, ends->address, known, sizeof(known));
    if (is_of_network(reason)) {
        format_without_ib(without_ib, sizeof(without_ib));
    }
    if (reason == BTL_IB_DEATH_REFUSED && !diagnosis->answered) {
        why = "its host says that nobody is at that port";
        advice = said_advice(ECONNREFUSED);
    }
    if (is_of_network(reason) && known[0] != '\0') {
        if (diagnosis->unsent != 0) {
            why = known;
            advice.step = refused_send_step(refused, ends->address);
            if (refused->call != NULL) {
                (void) refused_send_format(refused, known, sizeof(known));
                snprintf(text, sizeof(text), "%s%s",
                         refused->call_error != 0 ? "this host's own system refuses a call:\n" : "",
                         known);
                why = text;
            }
        } else {
            snprintf(text, sizeof(text), "%s;\n%s",
                     reason == BTL_IB_DEATH_NO_PROGRESS ? "some data were never acknowledged" : why,
                     known);
            why = text;
            advice = reason == BTL_IB_DEATH_REFUSED ? advice : said_advice(diagnosis->said);
        }
    } else if (is_of_network(reason)
               && format_foreign(diagnosis, ends->address, came, sizeof(came))) {
        snprintf(text, sizeof(text), "%s;\n%s",
                 reason == BTL_IB_DEATH_SILENCE
                     ? "nothing was accepted from it for the silence limit"
                     : why,
                 came);
        why = text;
        advice = FOREIGN_ADVICE;
    }
    if (reason == BTL_IB_DEATH_UNANSWERED && diagnosis->foreign == 0) {
        format_step(reports, diagnosis->unsent != 0 ? diagnosis->unsent : diagnosis->said,
                    advice.step, step, sizeof(step));
        advice.step = step;
    }
    btl_ib_show_help("peer lost", why, ENDS(ends), advice.step, without_ib, advice.more);
}

void btl_ib_report_device_failed(const btl_ib_ends_t *ends, int error, uint32_t moved,
                                 uint32_t left)
{
    btl_ib_show_help("device failed", ends->our_rank, opal_process_info.nodename, ends->device,
                     ends->our_address, strerror(error), moved, left);
}

void btl_ib_report_call_refused(const btl_ib_ends_t *ends, const char *call, int error,
                                uint32_t moved, uint32_t left)
{
    btl_ib_show_help(
        "call refused", ends->our_rank, opal_process_info.nodename, ends->device, call,
        strerror(error), moved, left,
        is_rdma_call(call)
            ? RDMA_STEP
            : "allow the call in the filter of system calls (seccomp, the profile of a\n"
              "container, systemd's SystemCallFilter).");
}

void btl_ib_report_descriptors_closed(const btl_ib_ends_t *ends, int error)
{
    btl_ib_show_help("descriptors closed", ends->our_rank, opal_process_info.nodename, ends->device,
                     strerror(error), error);
}

/* ---- peers that do not answer ---- */

/* Records a host that is to be reported. Returns false if it is not to be: it was before, or
 * BTL_IB_REPORT_HOSTS were. */
static bool record_silent(btl_ib_peer_reports_t *reports, const char *host)
{
    for (uint32_t i = 0; i < reports->silent_count; ++i) {
        if (strcmp(reports->silent[i], host) == 0) {
            return false;
        }
    }
    if (reports->silent_count == BTL_IB_REPORT_HOSTS) {
        ++reports->silent_more;
        return false;
    }
    snprintf(reports->silent[reports->silent_count++], sizeof(reports->silent[0]), "%s", host);
    return true;
}

/* Returns advice for a peer that does not answer, by what is known of it; `other`: nothing is. */
static advice_t silent_advice(const btl_ib_diagnosis_t *diagnosis, bool reachable, advice_t other)
{
    static const advice_t stopped = {
        "continue that process: its host can be reached, so it is most likely stopped (by\n"
        "a debugger, SIGSTOP, or a frozen cgroup of a batch system or container).",
        "If it runs, its port may be closed by a firewall."};

    return diagnosis->said != 0     ? said_advice(diagnosis->said)
           : diagnosis->foreign > 0 ? FOREIGN_ADVICE
           : reachable              ? stopped
                                    : other;
}

/* Writes that this process waits longer if another process of the peer's host answers, so that the
 * peer is probably stopped. */
static void format_longer(const btl_ib_params_t *params, char *out, size_t size)
{
    if (params->silence_limit == 0) {
        snprintf(out, size, ", but not once\nanother process of that host answers.");
    } else {
        snprintf(out, size,
                 ", or %d s\n(btl_ib_silence_limit) once another process of that host answers.",
                 params->silence_limit);
    }
}

/* Writes how long this process waits for a peer that does not answer. */
static void format_end(const btl_ib_params_t *params, bool answers, bool reachable, char *end,
                       size_t size)
{
    if (!answers) {
        snprintf(end, size, "It may only compute, so this process goes on waiting for it.");
    } else if (params->connect_timeout == 0) {
        snprintf(end, size, "This process goes on waiting (btl_ib_connect_timeout is 0).");
    } else if (!reachable) {
        const int used = snprintf(end, size,
                                  "The job ends if that does not change within %d s of the first "
                                  "attempt\n(btl_ib_connect_timeout; 0 means never)",
                                  params->connect_timeout);
        format_longer(params, end + used, size - (size_t) used);
    } else if (params->silence_limit == 0) {
        snprintf(end, size, "This process goes on waiting (btl_ib_silence_limit is 0).");
    } else {
        snprintf(end, size,
                 "The job ends if that does not change within %d s (btl_ib_silence_limit; 0\n"
                 "means never).",
                 params->silence_limit);
    }
}

void btl_ib_report_unanswered(btl_ib_peer_reports_t *reports, const btl_ib_ends_t *ends, bool heard,
                              bool answers, bool reachable, const btl_ib_diagnosis_t *diagnosis)
{
    const btl_ib_params_t *params = reports->params;
    char ports[96] = "any that is free (btl_ib_port_min is not set)";
    char end[256];
    char without_ib[256];
    advice_t advice =
        silent_advice(diagnosis, reachable, (advice_t){UNANSWERED_STEP, UNANSWERED_MORE});
    char known[256];
    char came[320];
    char step[512];

    if (!record_silent(reports, ends->host)) {
        return;
    }
    if (params->port_min != 0) {
        snprintf(ports, sizeof(ports), "%d to %d (btl_ib_port_min, btl_ib_port_range)",
                 params->port_min, params->port_min + params->port_range - 1);
    }
    if (!heard && !reachable && diagnosis->foreign == 0) {
        format_step(reports, diagnosis->said, advice.step, step, sizeof(step));
        advice.step = step;
    }
    format_end(params, answers, reachable, end, sizeof(end));
    format_without_ib(without_ib, sizeof(without_ib));
    if (!format_foreign(diagnosis, ends->address, came, sizeof(came))) {
        snprintf(came, sizeof(came), "%s",
                 heard ? "what it sends arrives here, but not what is sent from here"
                       : "nothing that it sends has arrived here, either");
    }
    diagnosis_format(diagnosis, ends->our_address, ends->address, known, sizeof(known));
    btl_ib_show_help("never answered", came, ENDS(ends), advice.step, without_ib, end, advice.more,
                     known[0] != '\0' ? known : "none", ports);
}

/* Writes when a silent peer answered last, and when anything arrived from it. */
static void format_heard(const btl_ib_silence_t *silence, const btl_ib_diagnosis_t *diagnosis,
                         const char *published, char *out, size_t size)
{
    const int used = snprintf(out, size, "its last answer came %" PRIu64 " ms ago;\n",
                              (uint64_t) silence->answered_ago / 1000);

    if (!format_foreign(diagnosis, published, out + used, size - (size_t) used)) {
        snprintf(out + used, size - (size_t) used, "%s it, %" PRIu64 " ms ago",
                 silence->heard_ago < silence->asked_for ? "other datagrams come from"
                                                         : "nothing has come since from",
                 (uint64_t) silence->heard_ago / 1000);
    }
}

/* Advice for a peer that does not answer, though other datagrams from it arrive. */
static const advice_t FORGOTTEN = {
    "look whether a firewall, a router or a NAT has forgotten these ports (conntrack -L).",
    "Its process runs, so what is sent from here gets lost, or what it answers."};

/* Advice for a peer that does not answer, and of which nothing else is known. */
static const advice_t NO_HOST = {
    "look whether its host is up and can be reached (ping), and whether that process is\n"
    "stopped (debugger, SIGSTOP, frozen cgroup).",
    "A firewall may drop what goes between them, which it let pass before."};

void btl_ib_report_silent(btl_ib_peer_reports_t *reports, const btl_ib_ends_t *ends,
                          const char *ports, const btl_ib_silence_t *silence, bool answers,
                          bool reachable, const btl_ib_diagnosis_t *diagnosis)
{
    const bool heard_since = silence->heard_ago < silence->asked_for;
    char heard[384];
    char known[256];

    format_heard(silence, diagnosis, ends->address, heard, sizeof(heard));
    diagnosis_format(diagnosis, ends->our_address, ends->address, known, sizeof(known));
    if (!answers) {
        for (char *at = heard; (at = strchr(at, '\n')) != NULL;) { /* the log has one line */
            *at = ' ';
        }
        BTL_IB_VERBOSE(1,
                       "rank %s on host %s has not answered for %" PRIu64
                       " s: %s, asked %u times%s; %s. It "
                       "may only compute. Errors: %s",
                       ends->rank, ends->host, (uint64_t) silence->asked_for / 1000000, ports,
                       silence->questions, silence->others_tried ? ", by other ports, too" : "",
                       heard, known[0] != '\0' ? known : "none");
        return;
    }
    if (reports->stopped_count == BTL_IB_REPORT_HOSTS) {
        return;
    }
    ++reports->stopped_count;
    const advice_t advice =
        silent_advice(diagnosis, reachable && !heard_since, heard_since ? FORGOTTEN : NO_HOST);
    btl_ib_show_help("no answer", heard, ENDS(ends), advice.step, advice.more, ports,
                     silence->questions,
                     silence->others_tried ? ", other ports were tried, too" : "",
                     known[0] != '\0' ? known : "none");
}

void btl_ib_report_unsent(btl_ib_peer_reports_t *reports, const btl_ib_ends_t *ends,
                          const btl_ib_refused_send_t *refused, bool answered,
                          const btl_ib_device_t *device)
{
    const char *step = refused_send_step(refused, ends->address);
    char why[160];
    char interface[192];
    char first[512];
    const int error = refused_send_format(refused, why, sizeof(why));

    for (uint32_t i = 0; i < reports->unsent_count; ++i) {
        if (error == reports->unsent[i]) {
            return;
        }
    }
    if (reports->unsent_count == BTL_IB_REPORT_ERRORS) {
        return;
    }
    reports->unsent[reports->unsent_count++] = error;
    if (!answered) {
        format_step(reports, error, step, first, sizeof(first));
        step = first;
    }
    diagnosed_interface(device, interface, sizeof(interface));
    btl_ib_show_help("cannot send", why, error, interface, ENDS(ends), step);
}

void btl_ib_report_moved_unanswered(const btl_ib_ends_t *ends, const btl_ib_diagnosis_t *diagnosis)
{
    char known[256];

    diagnosis_format(diagnosis, ends->our_address, ends->address, known, sizeof(known));
    btl_ib_show_help("address changed", ENDS(ends), known[0] != '\0' ? known : "none");
}

void btl_ib_report_slow_rail(btl_ib_peer_reports_t *reports, const btl_ib_ends_t *ends,
                             uint32_t claimed, const char *better, const btl_ib_slow_rail_t *found)
{
    const uint64_t rate = found->bytes * 8 / found->time; /* Mbit/s */

    if (!reports->slow_found) {
        reports->slow_found = true;
        BTL_IB_SHOW_HELP("slow device", ENDS(ends), claimed, rate > 0 ? (unsigned) rate : 1,
                         (unsigned) (found->bytes / 1024), better,
                         (unsigned) (found->better_bytes / 1024),
                         (unsigned) (found->left_for / 1000000));
    }
}

void btl_ib_report_unanswered_rest(const btl_ib_peer_reports_t *reports)
{
    if (reports->silent_more > 0) {
        opal_output(0, "btl:ib: rank %u on host %s: %u processes of further hosts did not answer",
                    reports->rank, opal_process_info.nodename, reports->silent_more);
    }
}

/* ---- large datagrams ---- */

void btl_ib_report_black_hole(btl_ib_peer_reports_t *reports, const btl_ib_black_hole_t *hole)
{
    if (!reports->hole_found) {
        reports->hole_found = true;
        reports->hole_pending = true;
        reports->hole = *hole;
    }
}

void btl_ib_report_gso_lost(btl_ib_peer_reports_t *reports, const btl_ib_gso_loss_t *loss)
{
    if (!reports->gso_found) {
        reports->gso_found = true;
        reports->gso_pending = true;
        reports->gso = *loss;
    }
}

/* Writes the interface of a device, whose name is "udp/eth0", perhaps with a port or a rail behind
 * that. */
static void interface_of(const char *device, char *out, size_t size)
{
    const char *slash = strrchr(device, '/');
    const char *name = slash != NULL ? slash + 1 : device;

    snprintf(out, size, "%.*s", (int) strcspn(name, ": ,("), name);
}

void btl_ib_report_pending(btl_ib_peer_reports_t *reports)
{
    const btl_ib_black_hole_t *hole = &reports->hole;
    const btl_ib_gso_loss_t *gso = &reports->gso;
    char interface[64];

    if (reports->gso_pending) {
        reports->gso_pending = false;
        interface_of(gso->ends.device, interface, sizeof(interface));
        btl_ib_show_help("joined datagrams lost", gso->lost,
                         gso->refused ? "are refused by this host (ENOBUFS)"
                                      : "get lost on the way",
                         ENDS(&gso->ends), interface);
    }
    if (reports->hole_pending) {
        reports->hole_pending = false;
        btl_ib_show_help("large datagrams lost", hole->lost, hole->most, ENDS(&hole->ends),
                         hole->carries, hole->most, hole->lost);
    }
}

/* ---- peers that differ ---- */

enum { LIMITS, PROTECTION, NETWORK, ATOMICS, TRIED, VERSIONS };

/* Fills in both ranks of `ends`. Returns true at the first call for a kind of report. */
static bool note_kind(btl_ib_peer_reports_t *reports, unsigned kind, uint32_t rank,
                      btl_ib_ends_t *ends)
{
    const bool first = (reports->mismatches & 1u << kind) == 0;

    reports->mismatches |= 1u << kind;
    snprintf(ends->our_rank, sizeof(ends->our_rank), "%u", reports->rank);
    snprintf(ends->rank, sizeof(ends->rank), "%u", rank);
    return first;
}

/* Writes which release a process runs, and which versions it understands. */
static void describe_versions(const btl_ib_modex_t *modex, bool ours, char *out, size_t size)
{
    const unsigned version = ours ? BTL_IB_MODEX_VERSION : modex->version;
    const unsigned oldest = ours ? BTL_IB_MODEX_OLDEST : modex->oldest;
    int used = snprintf(out, size, "ib %s: descriptions %u to %u",
                        modex->release[0] != '\0' ? modex->release : "of an early version", oldest,
                        version);

    if (modex->wire.newest != 0) {
        (void) snprintf(out + used, size - (size_t) used, ", datagrams %u to %u",
                        modex->wire.oldest, modex->wire.newest);
    }
}

void btl_ib_report_versions_differ(btl_ib_peer_reports_t *reports, const btl_ib_modex_t *peer,
                                   uint32_t rank)
{
    btl_ib_ends_t ends;
    char our_versions[128], versions[128];

    if (note_kind(reports, VERSIONS, rank, &ends)) {
        describe_versions(reports->self, true, our_versions, sizeof(our_versions));
        describe_versions(peer, false, versions, sizeof(versions));
        btl_ib_show_help("versions differ", ends.our_rank, opal_process_info.nodename, our_versions,
                         ends.rank, peer->host[0] != '\0' ? peer->host : "that cannot be read",
                         versions);
    }
}

void btl_ib_report_limits_differ(btl_ib_peer_reports_t *reports, const btl_ib_modex_t *peer,
                                 uint32_t rank)
{
    const mca_btl_base_module_t *limits = reports->limits;
    const bool eager = limits->btl_eager_limit >= limits->btl_max_send_size;
    const uint32_t theirs =
        peer->message_max > BTL_IB_HEADER_ROOM ? peer->message_max - BTL_IB_HEADER_ROOM : 0;
    btl_ib_ends_t ends;

    if (note_kind(reports, LIMITS, rank, &ends)) {
        btl_ib_show_help("limits differ", ends.our_rank, opal_process_info.nodename,
                         limits->btl_eager_limit, limits->btl_max_send_size,
                         eager ? "btl_ib_eager_limit" : "btl_ib_max_send_size", ends.rank,
                         peer->host, theirs, btl_ib_param("max_send_size")->text,
                         btl_ib_param("eager_limit")->text);
    }
}

void btl_ib_report_protection_differs(btl_ib_peer_reports_t *reports, const btl_ib_modex_t *peer,
                                      uint32_t rank)
{
    const btl_ib_protection_kind_t ours = reports->self->protection;
    btl_ib_ends_t ends;

    if (note_kind(reports, PROTECTION, rank, &ends)) {
        btl_ib_show_help("protection differs", ends.our_rank, opal_process_info.nodename,
                         btl_ib_protection_ops(ours)->name, ends.rank, peer->host,
                         btl_ib_protection_ops(peer->protection)->name);
    }
}

/* Writes a rail by transport and address. */
static void describe_rail(const btl_ib_modex_rail_t *rail, char *out, size_t size)
{
    char address[INET6_ADDRSTRLEN];

    snprintf(out, size, "%s%s%s (%s)", rail->transport, rail->provider[0] != '\0' ? "/" : "",
             rail->provider, btl_ib_modex_ip_text(rail, address, sizeof(address)));
}

/* Returns a text with all rails of a process, malloced, as stacks may be short; NULL if memory is
 * short. */
static char *describe_rails(const btl_ib_modex_t *modex)
{
    const size_t size = 1536;
    size_t len = 0;
    char *out = calloc(1, size);

    for (uint32_t i = 0; out != NULL && i < modex->rail_count && len < size; ++i) {
        char rail[128];

        describe_rail(&modex->rails[i], rail, sizeof(rail));
        len += (size_t) snprintf(out + len, size - len, "%s%s", i > 0 ? ", " : "", rail);
    }
    return out;
}

void btl_ib_report_no_network(btl_ib_peer_reports_t *reports, const btl_ib_modex_t *peer,
                              uint32_t rank)
{
    btl_ib_ends_t ends;

    if (note_kind(reports, NETWORK, rank, &ends)) {
        char *ours = describe_rails(reports->self);
        char *theirs = describe_rails(peer);

        btl_ib_show_help("no common network", ends.our_rank, opal_process_info.nodename,
                         ours != NULL ? ours : "?", ends.rank, peer->host,
                         theirs != NULL ? theirs : "?", reports->not_used);
        free(ours);
        free(theirs);
    }
}

void btl_ib_report_tried(btl_ib_peer_reports_t *reports, uint32_t rank, const char *host,
                         const char *pairs)
{
    btl_ib_ends_t ends;

    if (note_kind(reports, TRIED, rank, &ends)) {
        btl_ib_show_help("also tried", ends.our_rank, opal_process_info.nodename, ends.rank, host,
                         pairs);
    }
}

/* Returns what executes atomics, as a text for people. */
static const char *atomics_string(btl_ib_atomics_t kind)
{
    switch (kind) {
    case BTL_IB_ATOMICS_PROCESSOR:
        return "processors";
    case BTL_IB_ATOMICS_DEVICE:
        return "devices only";
    default:
        return "devices, atomic for processors, too";
    }
}

void btl_ib_report_atomics_differ(btl_ib_peer_reports_t *reports, const btl_ib_modex_t *peer,
                                  uint32_t rank, uint32_t rail, const char *device,
                                  uint32_t remote_rail)
{
    const btl_ib_modex_rail_t *theirs = &peer->rails[remote_rail];
    char their_device[128];
    btl_ib_ends_t ends;

    if (note_kind(reports, ATOMICS, rank, &ends)) {
        describe_rail(theirs, their_device, sizeof(their_device));
        btl_ib_show_help("atomics differ", ends.our_rank, opal_process_info.nodename, device,
                         atomics_string(reports->self->rails[rail].atomics),
                         reports->params->atomics, ends.rank, peer->host, their_device,
                         atomics_string(theirs->atomics));
    }
}

/* ---- one-sided operations ---- */

void btl_ib_report_rejected(const btl_ib_ends_t *ends, const char *kind, size_t size,
                            int64_t offset, bool osc_may)
{
    char where[24], also[160] = "";

    snprintf(where, sizeof(where), "%" PRId64, offset);
    if (osc_may) {
        snprintf(also, sizeof(also),
                 "\nOr it is osc/rdma of Open MPI %s, which takes ranks for others on three\n"
                 "hosts and more (not from 4.1.5 on): --mca osc ^rdma tells.",
                 opal_version_string);
    }
    btl_ib_show_help("operation rejected", kind, size, where, ENDS(ends), also);
}

void btl_ib_report_atomic_lost(const btl_ib_ends_t *ends, uint64_t region, int64_t offset,
                               int error)
{
    char where[64];

    snprintf(where, sizeof(where), "%" PRIx64 ", offset %" PRId64, region, offset);
    btl_ib_show_help("atomic lost", where, strerror(error), ENDS(ends));
}
