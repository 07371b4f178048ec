/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "net_interfaces.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <linux/ethtool.h>
#include <linux/if_link.h>
#include <linux/if_tun.h>
#include <linux/rtnetlink.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netpacket/packet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>
#include <dirent.h>
#include <stddef.h>

/* ---- interfaces ---- */

enum { LINK_MODES_MAX = 127 }; /* words of a bitmap of ethtool_link_settings, at most */

const uint8_t *btl_ib_ip_bytes(const struct sockaddr *address, size_t *len)
{
    if (address->sa_family == AF_INET) {
        *len = sizeof(struct in_addr);
        return (const uint8_t *) &((const struct sockaddr_in *) (const void *) address)->sin_addr;
    }
    if (address->sa_family == AF_INET6) {
        *len = sizeof(struct in6_addr);
        return (const uint8_t *) &((const struct sockaddr_in6 *) (const void *) address)->sin6_addr;
    }
    *len = 0;
    return NULL;
}

bool btl_ib_ip_same(const struct sockaddr *a, const struct sockaddr *b)
{
    size_t len;
    size_t other;
    const uint8_t *bytes = btl_ib_ip_bytes(a, &len);
    const uint8_t *others = btl_ib_ip_bytes(b, &other);

    return len > 0 && len == other && memcmp(bytes, others, len) == 0;
}

bool btl_ib_ip_same_bits(const uint8_t *a, const uint8_t *b, unsigned bits)
{
    const unsigned whole = bits / 8;
    const unsigned rest = bits % 8;

    return memcmp(a, b, whole) == 0 && (rest == 0 || (a[whole] ^ b[whole]) >> (8 - rest) == 0);
}

const char *btl_ib_ip_text(const struct sockaddr *address, char *out, size_t len)
{
    size_t size;
    const uint8_t *bytes = btl_ib_ip_bytes(address, &size);

    if (bytes == NULL || inet_ntop(address->sa_family, bytes, out, (socklen_t) len) == NULL) {
        snprintf(out, len, "none");
    }
    return out;
}

const char *btl_ib_ip_port_text(const struct sockaddr *address, char *out, size_t len)
{
    const bool v4 = address->sa_family == AF_INET;
    /* IPv6 has the port at the same place */
    const in_port_t port = ((const struct sockaddr_in *) (const void *) address)->sin_port;
    char ip[INET6_ADDRSTRLEN];

    snprintf(out, len, v4 ? "%s:%u" : "[%s]:%u", btl_ib_ip_text(address, ip, sizeof(ip)),
             ntohs(port));
    return out;
}

uint8_t btl_ib_ip_prefix(const struct sockaddr *mask)
{
    size_t len;
    const uint8_t *bytes = btl_ib_ip_bytes(mask, &len);
    unsigned bits = 0;

    for (size_t i = 0; i < len; i++) {
        bits += (unsigned) __builtin_popcount(bytes[i]);
    }
    return (uint8_t) bits;
}

bool btl_ib_ip_loopback(const struct sockaddr *address)
{
    size_t len;
    const uint8_t *bytes = btl_ib_ip_bytes(address, &len);

    return len == sizeof(struct in_addr)
               ? bytes[0] == 127
               : len == sizeof(struct in6_addr)
                     && IN6_IS_ADDR_LOOPBACK((const struct in6_addr *) (const void *) bytes);
}

bool btl_ib_ip_link_local4(const struct sockaddr *address)
{
    size_t len;
    const uint8_t *bytes = btl_ib_ip_bytes(address, &len);

    return len == sizeof(struct in_addr) && bytes[0] == 169 && bytes[1] == 254;
}

int btl_ib_interface_name_len(const char *label)
{
    const int most = (int) strcspn(label, ":");
    char name[IF_NAMESIZE];
    int len = most;

    do {
        snprintf(name, sizeof(name), "%.*s", len, label);
    } while (if_nametoindex(name) == 0 && --len > 0);
    return len > 0 ? len : most;
}

const char *btl_ib_interface_ask(const char *interface, unsigned long question,
                                 struct ifreq *request)
{
    const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    if (fd < 0) {
        return "socket";
    }
    snprintf(request->ifr_name, sizeof(request->ifr_name), "%.*s", IFNAMSIZ - 1, interface);
    const int error = ioctl(fd, question, request) == 0 ? 0 : errno;
    (void) close(fd);
    errno = error;
    return error != 0 ? "ioctl" : NULL;
}

/* Flags of linux/if.h, which cannot be included beside net/if.h. */
enum { LOWER_UP = 1 << 16, DORMANT = 1 << 17 };

const char *btl_ib_interface_why_not(unsigned flags)
{
    if (!(flags & IFF_UP)) {
        return "it is down";
    }
    return (flags & IFF_RUNNING) || (flags & (LOWER_UP | DORMANT)) == LOWER_UP
               ? NULL
               : "it has no carrier";
}

/* Asks twice (ETHTOOL_GLINKSETTINGS): the first answer says how long the driver's bitmaps are, the
 * second one fills them in. */
uint32_t btl_ib_interface_speed(const char *interface)
{
    struct ethtool_link_settings *link =
        calloc(1, sizeof(*link) + 3 * LINK_MODES_MAX * sizeof(uint32_t));
    struct ifreq request = {.ifr_data = (char *) link};
    uint32_t speed = 0;

    if (link == NULL) {
        return 0;
    }
    link->cmd = ETHTOOL_GLINKSETTINGS;
    if (btl_ib_interface_ask(interface, SIOCETHTOOL, &request) == NULL
        && link->link_mode_masks_nwords < 0) {
        const int words = -link->link_mode_masks_nwords;
        *link = (struct ethtool_link_settings){
            .cmd = ETHTOOL_GLINKSETTINGS,
            .link_mode_masks_nwords = (int8_t) words,
        };
        if (btl_ib_interface_ask(interface, SIOCETHTOOL, &request) == NULL
            && link->speed != (uint32_t) SPEED_UNKNOWN) {
            speed = link->speed;
        }
    }
    free(link);
    return speed;
}

/* ---- dumps of rtnetlink(7) ---- */

enum {
    ANSWER = 32 * 1024, /* bytes of the kernel's longest datagram */
};

/* A question for all objects of a kind (links, addresses). */
typedef struct dump {
    uint16_t ask;    /* RTM_GETLINK... */
    uint16_t answer; /* RTM_NEWLINK... */
    uint8_t family;
    size_t head; /* bytes of what follows the netlink header (struct ifinfomsg...) */
    int (*take)(void *to, const struct nlmsghdr *message); /* returns 0 or a negative errno */
    void *to;
} dump_t;

/* Returns the attribute of that type; NULL: there is none, which attribute_u32() etc. read as 0 or
 * "". */
static const struct rtattr *attribute_find(const void *first, size_t len, int type)
{
    const struct rtattr *a = first;
    int left = (int) len;

    while (RTA_OK(a, left) && (a->rta_type & NLA_TYPE_MASK) != type) {
        const int size = (int) RTA_ALIGN(a->rta_len);
        a = (const struct rtattr *) ((const char *) a + size);
        left -= size;
    }
    return RTA_OK(a, left) ? a : NULL;
}

static const struct rtattr *attribute_find_nested(const struct rtattr *nest, int type)
{
    return nest == NULL ? NULL : attribute_find(RTA_DATA(nest), RTA_PAYLOAD(nest), type);
}

static uint32_t attribute_u32(const struct rtattr *attribute)
{
    uint32_t value = 0;

    if (attribute != NULL && RTA_PAYLOAD(attribute) >= sizeof(value)) {
        memcpy(&value, RTA_DATA(attribute), sizeof(value));
    }
    return value;
}

static uint8_t attribute_u8(const struct rtattr *attribute)
{
    return attribute != NULL && RTA_PAYLOAD(attribute) >= 1 ? *(const uint8_t *) RTA_DATA(attribute)
                                                            : 0;
}

/* Copies a text to `out`, which is all zero. */
static void attribute_text(const struct rtattr *attribute, char *out, size_t size)
{
    if (attribute != NULL) {
        const size_t len = strnlen(RTA_DATA(attribute), RTA_PAYLOAD(attribute));
        memcpy(out, RTA_DATA(attribute), len < size ? len : size - 1);
    }
}

/* Does what NLMSG_OK() does, which compares signed with unsigned numbers. */
static bool message_is_whole(const struct nlmsghdr *m, int left)
{
    return left >= (int) sizeof(*m) && m->nlmsg_len >= sizeof(*m)
           && m->nlmsg_len <= (uint32_t) left;
}

/* Takes the objects of a datagram. Returns 1 if more datagrams follow, 0 after the last one, or a
 * negative errno. */
static int dump_take(const dump_t *dump, const void *answer, size_t size)
{
    const struct nlmsghdr *m = answer;
    int left = (int) size;
    int rc = 1;

    while (message_is_whole(m, left) && rc == 1) {
        const int length = (int) NLMSG_ALIGN(m->nlmsg_len);

        if (m->nlmsg_type == NLMSG_DONE) {
            return 0;
        }
        if (m->nlmsg_type == NLMSG_ERROR) {
            const struct nlmsgerr *error = NLMSG_DATA(m);

            return error->error < 0 ? error->error : -EPROTO;
        }
        if (m->nlmsg_type == dump->answer && m->nlmsg_len >= NLMSG_LENGTH(dump->head)
            && dump->take(dump->to, m) != 0) {
            rc = -ENOMEM;
        }
        m = (const struct nlmsghdr *) ((const char *) m + length);
        left -= length;
    }
    return rc;
}

static int dump_ask(int fd, const dump_t *dump)
{
    const struct {
        struct nlmsghdr head;
        union {
            struct ifinfomsg link;
            struct ifaddrmsg address;
        } body;
    } request = {
        .head = {.nlmsg_len = (uint32_t) NLMSG_LENGTH(dump->head),
                 .nlmsg_type = dump->ask,
                 .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP},
        .body = {.link = {.ifi_family = dump->family}}, /* both begin with the family */
    };

    return send(fd, &request, request.head.nlmsg_len, 0) == (ssize_t) request.head.nlmsg_len
               ? 1
               : -errno;
}

/* Asks the kernel, and hands all objects of its answer to `take`. Returns 0 or a negative errno. */
static int dump_read(const dump_t *dump)
{
    const int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    void *answer = malloc(ANSWER);
    int rc = fd < 0 ? -errno : answer == NULL ? -ENOMEM : dump_ask(fd, dump);

    while (rc == 1) {
        const ssize_t size = recv(fd, answer, ANSWER, 0);

        if (size > 0) {
            rc = dump_take(dump, answer, (size_t) size);
        } else if (size == 0 || errno != EINTR) {
            rc = size == 0 ? -EPROTO : -errno;
        }
    }
    free(answer);
    if (fd >= 0) {
        (void) close(fd);
    }
    return rc;
}

/* ---- addresses ---- */

enum {
    ADDRESS_DIGITS = 32,   /* of an address in /proc/self/net/if_inet6 */
    INET6_LINE_FIELDS = 5, /* fields of a line of that file that are used */
    HARDWARE_MAX = 24,     /* bytes of a hardware address in getifaddrs() */
};

typedef union ip {
    struct sockaddr any; /* AF_UNSPEC: none */
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    uint8_t hardware[offsetof(struct sockaddr_ll, sll_addr) + HARDWARE_MAX];
} address_t;

typedef struct own_address {
    struct ifaddrs entry; /* the first, so that the first of a list can be freed */
    address_t address;
    address_t mask;
    char name[IF_NAMESIZE];
} own_address_t;

/* A list in the making. */
typedef struct list {
    own_address_t *own;
    size_t count;
} list_t;

/* Returns an interface's flags as getifaddrs() has them. SIOCGIFFLAGS gives the low 16 bits only,
 * so LOWER_UP is asked for separately. An interface that cannot be asked is gone meanwhile, and
 * counts as down. */
static unsigned interface_flags(const char *name)
{
    struct ethtool_value carrier = {.cmd = ETHTOOL_GLINK};
    struct ifreq request = {.ifr_flags = 0};

    if (btl_ib_interface_ask(name, SIOCGIFFLAGS, &request) != NULL) {
        return 0;
    }
    const unsigned flags = (unsigned short) request.ifr_flags;
    request = (struct ifreq){.ifr_data = (char *) &carrier};
    return !(flags & IFF_RUNNING) && btl_ib_interface_ask(name, SIOCETHTOOL, &request) == NULL
                   && carrier.data != 0
               ? flags | LOWER_UP
               : flags;
}

static address_t address_copy(const struct sockaddr *from)
{
    const sa_family_t family = from != NULL ? from->sa_family : AF_UNSPEC;
    address_t to = {.v6 = {.sin6_family = AF_UNSPEC}};
    size_t len = family == AF_INET ? sizeof(to.v4) : family == AF_INET6 ? sizeof(to.v6) : 0;

    if (family == AF_PACKET) { /* IPoIB's is longer than the structure */
        len = ((const struct sockaddr_ll *) (const void *) from)->sll_halen;
        len = offsetof(struct sockaddr_ll, sll_addr) + (len < HARDWARE_MAX ? len : HARDWARE_MAX);
    }
    if (len > 0) {
        memcpy(&to, from, len);
    }
    return to;
}

static int list_append(list_t *list, const char *name, unsigned flags, const address_t *address,
                       const address_t *mask)
{
    own_address_t *own = realloc(list->own, (list->count + 1) * sizeof(*own));

    if (own == NULL) {
        return -ENOMEM;
    }
    list->own = own;
    own += list->count++;
    *own = (own_address_t){.entry = {.ifa_flags = flags}, .address = *address, .mask = *mask};
    snprintf(own->name, sizeof(own->name), "%s", name);
    return 0;
}

/* ---- IPv4 ---- */

/* Appends an address of IPv4. The question for the mask contains the address, by which the kernel
 * finds the right one if an interface has several (devinet_ioctl). */
static int list_append_v4(list_t *list, const struct ifreq *found)
{
    struct ifreq request = *found;
    address_t address = {.v4 = {.sin_family = AF_UNSPEC}};
    address_t mask = {.v4 = {.sin_family = AF_INET}};

    memcpy(&address.v4, &found->ifr_addr, sizeof(address.v4));
    if (btl_ib_interface_ask(found->ifr_name, SIOCGIFNETMASK, &request) == NULL) {
        memcpy(&mask.v4, &request.ifr_netmask, sizeof(mask.v4));
    }
    return list_append(list, found->ifr_name, interface_flags(found->ifr_name), &address, &mask);
}

/* Lists the addresses of IPv4. The first answer says how long the second is. */
static int list_v4(list_t *list)
{
    const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct ifconf answer = {.ifc_req = NULL};
    int rc = fd < 0 || ioctl(fd, SIOCGIFCONF, &answer) != 0 ? -errno : 0;
    struct ifreq *found = calloc(1, (size_t) answer.ifc_len + 1);

    answer.ifc_req = found;
    if (rc == 0) {
        rc = found == NULL ? -ENOMEM : ioctl(fd, SIOCGIFCONF, &answer) != 0 ? -errno : 0;
    }
    for (size_t i = 0; rc == 0 && i < (size_t) answer.ifc_len / sizeof(*found); i++) {
        rc = list_append_v4(list, &found[i]);
    }
    free(found);
    if (fd >= 0) {
        (void) close(fd);
    }
    return rc;
}

/* ---- IPv6 ---- */

/* Reads a line of if_inet6: in hexadecimal digits the address, the index of its interface, the bits
 * of its prefix, its scope and flags; then the interface's name. Returns false if it is
 * malformed. */
static bool inet6_read(const char *line, btl_ib_inet6_t *inet6)
{
    char digits[ADDRESS_DIGITS + 1];

    if (sscanf(line, "%32[0-9a-f] %x %x %*x %x %15s", digits, &inet6->index, &inet6->prefix_bits,
               &inet6->flags, inet6->name)
            != INET6_LINE_FIELDS
        || strlen(digits) != ADDRESS_DIGITS || inet6->prefix_bits > 128) {
        return false;
    }
    for (unsigned i = 0; i < sizeof(struct in6_addr); i++) {
        (void) sscanf(digits + 2 * i, "%2hhx", &inet6->ip.s6_addr[i]);
    }
    return true;
}

/* Reads the addresses of this process's own network namespace ("self"). */
int btl_ib_net_inet6_get(btl_ib_inet6_t **list, size_t *count)
{
    FILE *file = fopen("/proc/self/net/if_inet6", "re");
    char line[128];
    int rc = 0;

    *list = NULL;
    *count = 0;
    while (file != NULL && rc == 0 && fgets(line, sizeof(line), file) != NULL) {
        btl_ib_inet6_t inet6;
        btl_ib_inet6_t *more;

        if (!inet6_read(line, &inet6)) {
            continue;
        }
        more = realloc(*list, (*count + 1) * sizeof(*more));
        if (more == NULL) {
            rc = -ENOMEM;
        } else {
            *list = more;
            more[(*count)++] = inet6;
        }
    }
    if (file != NULL) {
        (void) fclose(file);
    }
    return rc;
}

static int list_append_v6(list_t *list, const btl_ib_inet6_t *inet6)
{
    address_t address = {.v6 = {.sin6_family = AF_INET6, .sin6_addr = inet6->ip}};
    address_t mask = {.v6 = {.sin6_family = AF_INET6}};

    for (unsigned i = 0; i < inet6->prefix_bits; i++) {
        mask.v6.sin6_addr.s6_addr[i / 8] |= (uint8_t) (0x80 >> i % 8);
    }
    if (btl_ib_ip_link_local(&address.any)) {
        address.v6.sin6_scope_id = inet6->index;
    }
    return list_append(list, inet6->name, interface_flags(inet6->name), &address, &mask);
}

static int list_v6(list_t *list)
{
    btl_ib_inet6_t *found;
    size_t count;
    int rc = btl_ib_net_inet6_get(&found, &count);

    for (size_t i = 0; rc == 0 && i < count; i++) {
        rc = list_append_v6(list, &found[i]);
    }
    free(found);
    return rc;
}

/* ---- labels ---- */

/* The interface that has an address of IPv4. */
typedef struct owner {
    struct in_addr ip;
    unsigned index; /* of its interface; 0: none has it */
} owner_t;

static int owner_take(void *to, const struct nlmsghdr *message)
{
    const struct ifaddrmsg *found = NLMSG_DATA(message);
    const struct rtattr *local = attribute_find(IFA_RTA(found), IFA_PAYLOAD(message), IFA_LOCAL);
    owner_t *owner = to;

    if (local != NULL && attribute_u32(local) == owner->ip.s_addr) {
        owner->index = found->ifa_index;
    }
    return 0;
}

/* True if a label begins with the name of an interface in the list. (Entries of other families than
 * IPv4 have the interface's name.) */
static bool has_name_of_interface(const struct ifaddrs *all, const char *label)
{
    const struct ifaddrs *i = all;

    while (i != NULL
           && ((i->ifa_addr != NULL && i->ifa_addr->sa_family == AF_INET)
               || strncmp(label, i->ifa_name, strlen(i->ifa_name)) != 0)) {
        i = i->ifa_next;
    }
    return i != NULL;
}

/* Writes the name of the interface that has an address of IPv4 to `name`, if the kernel knows it;
 * else leaves `name` alone. */
static void address_interface(const struct ifaddrs *i, char name[IF_NAMESIZE],
                              const btl_ib_log_t *log)
{
    owner_t owner = {.ip = ((const struct sockaddr_in *) (const void *) i->ifa_addr)->sin_addr};
    const dump_t dump = {.ask = RTM_GETADDR,
                         .family = AF_INET,
                         .answer = RTM_NEWADDR,
                         .head = sizeof(struct ifaddrmsg),
                         .take = owner_take,
                         .to = &owner};
    char ip[INET6_ADDRSTRLEN];

    if (dump_read(&dump) == 0 && if_indextoname(owner.index, name) != NULL && log != NULL
        && log->print != NULL) {
        log->print(log->context, 10, "%s, labelled %s, is an address of the interface %s",
                   btl_ib_ip_text(i->ifa_addr, ip, sizeof(ip)), i->ifa_name, name);
    }
}

/* ---- lists of addresses ---- */

static int list_by_netlink(list_t *list, const btl_ib_log_t *log)
{
    struct ifaddrs *all;
    int rc = getifaddrs(&all) != 0 ? -errno : 0;

    if (rc != 0) {
        return rc;
    }
    for (const struct ifaddrs *i = all; i != NULL && rc == 0; i = i->ifa_next) {
        const address_t address = address_copy(i->ifa_addr);
        const address_t mask = address_copy(i->ifa_netmask);
        char name[IF_NAMESIZE];

        snprintf(name, sizeof(name), "%s", i->ifa_name);
        if (address.any.sa_family == AF_INET && !has_name_of_interface(all, i->ifa_name)) {
            address_interface(i, name, log);
        }
        rc = list_append(list, name, i->ifa_flags, &address, &mask);
    }
    freeifaddrs(all);
    return rc;
}

int btl_ib_net_addresses_get(struct ifaddrs **all, const btl_ib_log_t *log)
{
    list_t list = {.count = 0};
    const int error = list_by_netlink(&list, log);

    *all = NULL;
    if (error != 0) {
        free(list.own);
        list = (list_t){.count = 0};
        if (list_v4(&list) != 0 || list_v6(&list) != 0) {
            free(list.own);
            return error;
        }
        if (log != NULL && log->print != NULL) {
            log->print(log->context, 10,
                       "interfaces cannot be listed by netlink (%s): by SIOCGIFCONF and if_inet6",
                       strerror(-error));
        }
    }
    for (size_t i = list.count; i > 0; i--) {
        own_address_t *own = &list.own[i - 1];

        own->entry.ifa_next = *all;
        own->entry.ifa_name = own->name;
        own->entry.ifa_addr = own->address.any.sa_family != AF_UNSPEC ? &own->address.any : NULL;
        own->entry.ifa_netmask = own->mask.any.sa_family != AF_UNSPEC ? &own->mask.any : NULL;
        *all = &own->entry;
    }
    return 0;
}

/* ---- interfaces that cannot lead off this host ---- */

/* A network interface of this namespace. Indexes are those of the kernel; 0: none. */
typedef struct link {
    uint32_t index;
    uint32_t master; /* the bridge, bond... that it is a member of */
    uint32_t lower;  /* the other end of a veth; the link that a vlan, macvlan... is on */
    bool
        lower_elsewhere; /* `lower` is in another network namespace: the index means nothing here */
    bool tap;            /* kind "tun": Ethernet frames, not IP packets */
    bool vnet_hdr;       /* kind "tun": with virtio's header, as virtual machines have it */
    char name[IF_NAMESIZE];
    char kind[16]; /* "bridge", "veth"...; "": hardware, mostly */
    bool seen;     /* visited by the search for a path off the host */
} link_t;

/* All zero: none. */
typedef struct links {
    link_t *link; /* malloced */
    size_t count;
} links_t;

static link_t *links_find(const links_t *links, uint32_t index)
{
    for (size_t i = 0; i < links->count; i++) {
        if (index != 0 && links->link[i].index == index) {
            return &links->link[i];
        }
    }
    return NULL;
}

/* True if a link is of one of `kinds`, which have a space before and after each. */
static bool link_is_one_of(const link_t *link, const char *kinds)
{
    char kind[sizeof(link->kind) + 2];

    snprintf(kind, sizeof(kind), " %s ", link->kind);
    return link->kind[0] != '\0' && strstr(kinds, kind) != NULL;
}

static bool link_is_pair(const link_t *link)
{
    return link_is_one_of(link, " veth netkit ");
}

static const char *why_host_only(const links_t *links, link_t *link);

/* Returns why a veth cannot lead off the host, or NULL. With both ends here it does if the other
 * end is a member of a bridge that does. */
static const char *why_host_only_pair(const links_t *links, const link_t *link)
{
    const link_t *peer = link->lower_elsewhere ? NULL : links_find(links, link->lower);
    link_t *master = peer == NULL ? NULL : links_find(links, peer->master);

    return peer == NULL || (master != NULL && why_host_only(links, master) == NULL)
               ? NULL
               : "both of its ends (veth) are on this host";
}

/* Returns why a bridge cannot lead off the host, or NULL if one of its members does. Taps, and
 * veths with an end in another namespace, do not count: they lead to guests and containers. */
static const char *why_host_only_bridge(const links_t *links, const link_t *bridge)
{
    for (size_t i = 0; i < links->count; i++) {
        link_t *member = &links->link[i];
        const bool guest =
            strcmp(member->kind, "tun") == 0 || (link_is_pair(member) && member->lower_elsewhere);

        if (member->master == bridge->index && !guest && why_host_only(links, member) == NULL) {
            return NULL;
        }
    }
    return "it is a bridge of containers or virtual machines: no member leads off this host";
}

/* True for an interface of VirtualBox or VMware: the kernel has no kind for them, but their names
 * are fixed. */
static bool link_is_vm_network(const link_t *link)
{
    return link->kind[0] == '\0'
           && (strncmp(link->name, "vboxnet", 7) == 0 || strncmp(link->name, "vmnet", 5) == 0);
}

/* Returns why a link cannot lead off this host, or NULL. Follows links of which it is made. */
static const char *why_host_only(const links_t *links, link_t *link)
{
    if (link->seen) {
        return "it leads back to itself";
    }
    link->seen = true;
    if (strcmp(link->kind, "bridge") == 0) {
        return why_host_only_bridge(links, link);
    }
    if (link_is_pair(link)) {
        return why_host_only_pair(links, link);
    }
    if (link_is_one_of(link, " dummy ifb ")) {
        return "it is a dummy interface";
    }
    /* Virtual machines have taps with virtio's header. VPNs have taps without it, or tuns with
     * it. */
    if ((link->tap && link->vnet_hdr) || link_is_vm_network(link)) {
        return "it is a network of virtual machines on this host";
    }
    link_t *lower = link->lower_elsewhere ? NULL : links_find(links, link->lower);
    return link_is_one_of(link, " vlan macvlan macvtap ipvlan ipvtap ") && lower != NULL
                   && why_host_only(links, lower) != NULL
               ? "it is on an interface that does not lead off this host"
               : NULL;
}

/*
 * Returns why the interface `name` cannot lead off this host, a literal such as "it is a dummy
 * interface"; NULL if it may, or is not known.
 */
static const char *links_host_only(const links_t *links, const char *name)
{
    for (size_t i = 0; i < links->count; i++) {
        links->link[i].seen = false;
    }
    for (size_t i = 0; i < links->count; i++) {
        if (strcmp(links->link[i].name, name) == 0) {
            return why_host_only(links, &links->link[i]);
        }
    }
    return NULL;
}

/* ---- links of this namespace ---- */

static void link_parse(link_t *link, const void *first, size_t len)
{
    const struct rtattr *info = attribute_find(first, len, IFLA_LINKINFO);
    const struct rtattr *data = attribute_find_nested(info, IFLA_INFO_DATA);

    attribute_text(attribute_find(first, len, IFLA_IFNAME), link->name, sizeof(link->name));
    attribute_text(attribute_find_nested(info, IFLA_INFO_KIND), link->kind, sizeof(link->kind));
    link->master = attribute_u32(attribute_find(first, len, IFLA_MASTER));
    link->lower = attribute_u32(attribute_find(first, len, IFLA_LINK));
    link->lower_elsewhere = attribute_find(first, len, IFLA_LINK_NETNSID) != NULL;
    if (strcmp(link->kind, "tun") == 0) { /* what these types mean depends on the kind */
        link->vnet_hdr = attribute_u8(attribute_find_nested(data, IFLA_TUN_VNET_HDR)) != 0;
        link->tap = attribute_u8(attribute_find_nested(data, IFLA_TUN_TYPE)) == IFF_TAP;
    }
}

static int links_append(void *to, const struct nlmsghdr *message)
{
    links_t *links = to;
    const struct ifinfomsg *info = NLMSG_DATA(message);
    link_t *all = realloc(links->link, (links->count + 1) * sizeof(*all));

    if (all == NULL) {
        return -ENOMEM;
    }
    links->link = all;
    link_t *link = &all[links->count++];
    memset(link, 0, sizeof(*link));
    link->index = (uint32_t) info->ifi_index;
    link_parse(link, IFLA_RTA(info), IFLA_PAYLOAD(message));
    return 0;
}

static void links_free(links_t *links)
{
    free(links->link);
    memset(links, 0, sizeof(*links));
}

/* Reads the links of this process's namespace. Returns 0; or a negative errno, and there are none.
 * The caller calls links_free() in any case. */
static int links_read(links_t *links)
{
    const dump_t dump = {.ask = RTM_GETLINK,
                         .family = AF_UNSPEC,
                         .answer = RTM_NEWLINK,
                         .head = sizeof(struct ifinfomsg),
                         .take = links_append,
                         .to = links};

    memset(links, 0, sizeof(*links));
    const int rc = dump_read(&dump);
    if (rc != 0) {
        links_free(links);
    }
    return rc;
}

/* Returns why an interface with link-local addresses only leads to no peer, or NULL. (The kernel
 * gives such an address to each interface, even to those that serve others.) */
static const char *links_why_not_link_local(const links_t *links, const char *name)
{
    for (size_t i = 0; i < links->count; i++) {
        const link_t *link = &links->link[i];

        if (strcmp(link->name, name) == 0 && link->master != 0) {
            return "its address is link-local, and it is a member of a bridge or bond "
                   "(btl_ib_if_include takes it)";
        }
        if (strcmp(link->name, name) == 0 && link_is_pair(link)) {
            return "its address is link-local, and it leads to a container (veth; "
                   "btl_ib_if_include takes it)";
        }
    }
    return NULL;
}

void btl_ib_links_mark_host_only(btl_ib_device_t *list, int count, const btl_ib_log_t *log)
{
    links_t links = {.count = 0};
    /* Ask only if there is a device: the kernel lists links under a lock of the whole host. */
    const int rc = count > 0 ? links_read(&links) : 0;

    if (rc != 0 && log->print != NULL) {
        log->print(log->context, 10,
                   "what the network interfaces are cannot be asked, so all may lead off this host:"
                   " %s",
                   strerror(-rc));
    }
    for (int i = 0; i < count; i++) {
        btl_ib_device_t *device = &list[i];

        if (device->last_resort == NULL) {
            device->last_resort = links_host_only(&links, device->interface);
        }
        if (device->last_resort == NULL
            && btl_ib_ip_link_local((const struct sockaddr *) (const void *) &device->ip)) {
            device->last_resort = links_why_not_link_local(&links, device->interface);
        }
    }
    links_free(&links);
}

/* ---- files of /proc and /sys ---- */

bool btl_ib_file_number(const char *path, uint64_t *number)
{
    FILE *file = fopen(path, "re");
    const bool found = file != NULL && fscanf(file, "%" SCNu64, number) == 1;

    if (file != NULL) {
        (void) fclose(file);
    }
    return found;
}

/* ---- RDMA devices ---- */

#define CLASS "/sys/class/infiniband"

/* Returns the next entry of a directory that is not hidden; NULL: there is none. */
static const char *dir_next(DIR *dir)
{
    const struct dirent *entry = NULL;

    while (dir != NULL && (entry = readdir(dir)) != NULL && entry->d_name[0] == '.') {
    }
    return entry != NULL ? entry->d_name : NULL;
}

static void dir_close(DIR *dir)
{
    if (dir != NULL) {
        (void) closedir(dir);
    }
}

bool btl_ib_rdma_present(void)
{
    DIR *dir = opendir(CLASS);
    const bool present = dir_next(dir) != NULL;

    dir_close(dir);
    return present;
}

/* True if the port's file says "4: ACTIVE" (enum ibv_port_state). */
static bool port_active(const char *device, const char *port)
{
    char path[600];
    uint64_t state;

    snprintf(path, sizeof(path), CLASS "/%.255s/ports/%.255s/state", device, port);
    return btl_ib_file_number(path, &state) && state == 4;
}

static bool device_active(const char *device)
{
    char path[300];
    const char *port;
    bool active = false;

    snprintf(path, sizeof(path), CLASS "/%.255s/ports", device);
    DIR *dir = opendir(path);
    while (!active && (port = dir_next(dir)) != NULL) {
        active = port_active(device, port);
    }
    dir_close(dir);
    return active;
}

bool btl_ib_rdma_active(void)
{
    DIR *dir = opendir(CLASS);
    const char *device;
    bool active = false;

    while (!active && (device = dir_next(dir)) != NULL) {
        active = device_active(device);
    }
    dir_close(dir);
    return active;
}

void btl_ib_facts_driver(const char *class, const char *name, char *out, size_t len)
{
    char link[128];
    char target[512];

    out[0] = '\0';
    snprintf(link, sizeof(link), "/sys/class/%s/%s/device/driver", class, name);
    const ssize_t size = readlink(link, target, sizeof(target) - 1);
    if (size > 0) {
        target[size] = '\0';
        const char *slash = strrchr(target, '/');
        snprintf(out, len, "%.*s", (int) len - 1, slash != NULL ? slash + 1 : target);
    }
}

void btl_ib_facts_interface_driver(const char *interface, btl_ib_facts_t *facts)
{
    struct ethtool_drvinfo driver = {.cmd = ETHTOOL_GDRVINFO};
    struct ifreq request = {.ifr_data = (char *) &driver};

    memset(facts, 0, sizeof(*facts));
    if (btl_ib_interface_ask(interface, SIOCETHTOOL, &request) == NULL) {
        snprintf(facts->driver, sizeof(facts->driver), "%.*s", (int) sizeof(driver.driver),
                 driver.driver);
        snprintf(facts->firmware, sizeof(facts->firmware), "%.*s", (int) sizeof(driver.fw_version),
                 driver.fw_version);
    } else {
        btl_ib_facts_driver("net", interface, facts->driver, sizeof(facts->driver));
    }
}

void btl_ib_facts_interface(const char *interface, btl_ib_facts_t *facts)
{
    struct ifreq request = {.ifr_mtu = 0};

    btl_ib_facts_interface_driver(interface, facts);
    facts->speed = btl_ib_interface_speed(interface);
    if (btl_ib_interface_ask(interface, SIOCGIFMTU, &request) == NULL && request.ifr_mtu > 0) {
        facts->mtu = (uint32_t) request.ifr_mtu;
    }
}

static const char *fact_shown(const char *text)
{
    return text[0] != '\0' && strcmp(text, "N/A") != 0 ? text : "unknown";
}

void btl_ib_facts_format(const btl_ib_facts_t *facts, char *out, size_t len)
{
    char speed[32] = "of unknown speed";
    char mtu[16] = "unknown";

    if (facts->speed > 0) {
        snprintf(speed, sizeof(speed), "%u Mbit/s", facts->speed);
    }
    if (facts->mtu > 0) {
        snprintf(mtu, sizeof(mtu), "%u", facts->mtu);
    }
    snprintf(out, len, "driver %s, firmware %s, link %s, MTU %s", fact_shown(facts->driver),
             fact_shown(facts->firmware), speed, mtu);
}
