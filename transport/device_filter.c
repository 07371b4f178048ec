/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "device_filter.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net_interfaces.h"

/* ---- names joined by '+' ---- */

/* An iterator over the names of an entry. */
typedef struct member {
    const char *rest; /* of the entry, behind this name */
    size_t stem;      /* bytes of `name` before the ':' of a port; 0: it has no port */
    bool port_alone;  /* the entry has only a number here: a port of the device before */
    char name[BTL_IB_DEVICE_ENTRY_SIZE];
} member_t;

static member_t members(const char *text)
{
    return (member_t){.rest = text};
}

static size_t leading_digits(const char *text)
{
    return strspn(text, "0123456789");
}

/* Goes to the next name. A number alone is a further port of the device before: mlx5_0:1+2 stands
 * for mlx5_0:1+mlx5_0:2. Returns false if there is no further name. */
static bool next_member(member_t *member)
{
    const char *text = member->rest + (*member->rest == '+');
    const size_t len = strcspn(text, "+");
    const char *colon = memrchr(text, ':', len);
    size_t port;

    if (len == 0) {
        return false;
    }
    member->rest = text + len;
    member->port_alone = leading_digits(text) == len;
    if (member->port_alone && member->stem > 0 && member->stem + 1 + len < sizeof(member->name)) {
        memcpy(member->name + member->stem + 1, text, len);
        member->name[member->stem + 1 + len] = '\0';
        return true;
    }
    memcpy(member->name, text, len);
    member->name[len] = '\0';
    port = colon != NULL ? leading_digits(colon + 1) : 0;
    member->stem = port > 0 && colon + 1 + port == text + len ? (size_t) (colon - text) : 0;
    return true;
}

/* ---- parsing ---- */

static int parse_refuse(btl_ib_devices_error_t *error, const char *problem, const char *expected)
{
    error->problem = problem;
    snprintf(error->expected, sizeof(error->expected), "%s", expected);
    return -EINVAL;
}

static bool is_control(char c)
{
    return (unsigned char) c < ' ' || c == '\177';
}

/* Fills in where an error is, if the entry that is parsed next turns out to be wrong. */
static void parse_point_at(btl_ib_devices_error_t *error, uint32_t position, const char *text,
                           size_t len)
{
    size_t shown = len < sizeof(error->entry) ? len : sizeof(error->entry) - 1;

    memset(error, 0, sizeof(*error));
    error->position = position;
    for (size_t i = 0; i < shown; i++) {
        error->entry[i] = is_control(text[i]) ? '?' : text[i];
    }
}

static bool parse_address(btl_ib_device_entry_t *entry, const char *address)
{
    entry->family = strchr(address, ':') != NULL ? AF_INET6 : AF_INET;
    return inet_pton(entry->family, address, entry->ip) == 1;
}

static int parse_prefix(btl_ib_device_entry_t *entry, const char *prefix,
                        btl_ib_devices_error_t *error)
{
    const unsigned max = entry->family == AF_INET ? 32 : 128;
    const size_t digits = strspn(prefix, "0123456789");
    const unsigned long bits = digits > 0 ? strtoul(prefix, NULL, 10) : 0;
    char expected[64];

    snprintf(expected, sizeof(expected), "a number of bits from 0 to %u after the '/'", max);
    if (*prefix == '\0') {
        return parse_refuse(error, "no length of the prefix", expected);
    }
    if (bits > max) {
        return parse_refuse(error, "the prefix is longer than the address", expected);
    }
    if (prefix[digits] != '\0') {
        return parse_refuse(error, "the length of the prefix is no number", expected);
    }
    entry->prefix_bits = (uint8_t) bits;
    return 0;
}

/* True if the text is an address without a prefix, or was meant as one: no device or interface has
 * such a name. */
static bool is_bare_address(const char *text)
{
    btl_ib_device_entry_t scratch;

    if (parse_address(&scratch, text)) {
        return true;
    }
    return strchr(text, '.') != NULL && strlen(text) == strspn(text, "0123456789.");
}

/* Checks names joined by '+', if there are any. Returns 0 or -EINVAL. */
static int parse_set(const char *text, btl_ib_devices_error_t *error)
{
    static const char ports[] = "ports of one device as in mlx5_0:1+2, each from 1 to 255";
    member_t member = members(text);

    if (strchr(text, '+') == NULL) {
        return 0;
    }
    if (text[0] == '+' || text[strlen(text) - 1] == '+' || strstr(text, "++") != NULL) {
        return parse_refuse(error, "a name is missing beside a '+'",
                            "names of devices that belong together, as in mlx5_0+mlx5_1:2");
    }
    while (next_member(&member)) {
        const char *port = member.name + member.stem + (member.stem > 0);

        if (member.port_alone && member.stem == 0) {
            return parse_refuse(error, "a number that follows no port of a device", ports);
        }
        if (member.port_alone && (*port == '0' || strlen(port) > 3 || atoi(port) > UINT8_MAX)) {
            return parse_refuse(error, "no number of a port", ports);
        }
    }
    return 0;
}

/* Parses an entry, whose text is neither empty nor too long. Returns 0 or -EINVAL. */
static int parse_entry(btl_ib_device_entry_t *entry, btl_ib_devices_error_t *error)
{
    char address[sizeof(entry->text)];
    char *slash;

    for (const char *c = entry->text; *c != '\0'; c++) {
        if (*c == ' ' || is_control(*c)) {
            return parse_refuse(error, "a space or a control character in it",
                                "names or subnets, separated by a comma and nothing else");
        }
    }
    memcpy(address, entry->text, sizeof(address));
    slash = strchr(address, '/');
    if (slash == NULL) {
        if (!is_bare_address(entry->text)) {
            return parse_set(entry->text, error);
        }
        return parse_refuse(error, "an address without the length of its prefix",
                            "a subnet as 10.77.0.0/24 or fd00::/64 (one address: 10.77.0.1/32)");
    }
    *slash = '\0';
    if (!parse_address(entry, address)) {
        return parse_refuse(
            error, "no IP address before the '/'",
            "four numbers from 0 to 255 as in 10.77.0.0/24, or IPv6 as in fd00::/64");
    }
    return parse_prefix(entry, slash + 1, error);
}

int btl_ib_devices_parse(const char *text, btl_ib_device_list_t *list,
                         btl_ib_devices_error_t *error)
{
    memset(list, 0, sizeof(*list));
    if (text == NULL || *text == '\0') {
        return 0;
    }
    for (;;) {
        const size_t len = strcspn(text, ",");
        btl_ib_device_entry_t *entry;
        int rc;

        parse_point_at(error, list->count + 1, text, len);
        if (len == 0) {
            return parse_refuse(error, "empty",
                                "a name or a subnet before, between and after the commas");
        }
        if (list->count == BTL_IB_DEVICE_ENTRIES_MAX) {
            return parse_refuse(error, "one entry too many", "64 entries at most");
        }
        entry = &list->entry[list->count++];
        if (len >= sizeof(entry->text)) {
            return parse_refuse(error, "too long", "127 characters at most");
        }
        memcpy(entry->text, text, len);
        rc = parse_entry(entry, error);
        if (rc != 0) {
            return rc;
        }
        if (text[len] == '\0') {
            return 0;
        }
        text += len + 1;
    }
}

/* ---- matching ---- */

/* True if the text names the device's port: "mlx5_0" means any port of the device, "mlx5_0:1" port
 * 1, whether the device's own name ends with its port or not. */
static bool names_port(const char *text, const btl_ib_device_t *device)
{
    char suffix[8];
    const size_t name = strlen(device->name);
    const size_t suffixed = (size_t) snprintf(suffix, sizeof(suffix), ":%u", device->port);
    const bool has_suffix = name >= suffixed && strcmp(device->name + name - suffixed, suffix) == 0;
    const size_t stem = has_suffix ? name - suffixed : name;

    return strncmp(text, device->name, stem) == 0
           && (text[stem] == '\0' || strcmp(text + stem, suffix) == 0);
}

static bool name_fits(const char *text, const btl_ib_device_t *device)
{
    return strcmp(text, device->name) == 0 || strcmp(text, device->interface) == 0
           || (device->port != 0 && names_port(text, device));
}

static bool any_name_fits(const char *text, const btl_ib_device_t *device)
{
    member_t member = members(text);
    bool fits = false;

    while (!fits && next_member(&member)) {
        fits = name_fits(member.name, device);
    }
    return fits;
}

/* True if there is a device for each of the names. */
static bool all_names_fit(const char *text, const btl_ib_device_t *list, int count)
{
    member_t member = members(text);
    bool found = true;

    while (found && next_member(&member)) {
        found = false;
        for (int i = 0; i < count && !found; i++) {
            found = name_fits(member.name, &list[i]);
        }
    }
    return found;
}

static bool entry_fits(const btl_ib_device_entry_t *entry, const btl_ib_device_t *device)
{
    if (entry->family == AF_UNSPEC) { /* the whole text first: a name may contain '+' itself */
        return !entry->incomplete
               && (name_fits(entry->text, device) || any_name_fits(entry->text, device));
    }

    size_t len;
    const uint8_t *bytes =
        btl_ib_ip_bytes((const struct sockaddr *) (const void *) &device->ip, &len);

    return entry->family == device->ip.ss_family
           && btl_ib_ip_same_bits(entry->ip, bytes, entry->prefix_bits);
}

/* Matches a device with all entries, even after one fits, to set `matched` of each. Returns whether
 * any fits. */
static bool match_list(btl_ib_device_list_t *list, const btl_ib_device_t *device)
{
    bool fits = false;

    for (uint32_t i = 0; i < list->count; i++) {
        if (entry_fits(&list->entry[i], device)) {
            list->entry[i].matched = true;
            fits = true;
        }
    }
    return fits;
}

/* ---- selecting ---- */

void btl_ib_devices_turn_down(const btl_ib_log_t *log, const char *transport, const char *device,
                              const char *reason)
{
    const bool named = device[0] != '\0';

    if (log->print != NULL) {
        log->print(log->context, 10, "%s %s turned down: %s", named ? "device" : "transport",
                   named ? device : transport, reason);
    }
    if (log->turned_down != NULL) {
        log->turned_down(log->context, transport, device, reason);
    }
}

/* A selection in the making. */
typedef struct selection {
    btl_ib_device_t *list;
    int wanted; /* devices at the front of the list */
    btl_ib_device_filter_t *filter;
    char reason[96];
} selection_t;

/* Returns why a device is not wanted, NULL if it is. */
typedef const char *(*why_not_fn_t)(selection_t *selection, const btl_ib_device_t *device);

static const char *why_not_asked_for(selection_t *selection, const btl_ib_device_t *device)
{
    btl_ib_device_filter_t *filter = selection->filter;

    if (filter->rdma_only && device->plain) {
        return "no RDMA device, and those are looked for first";
    }
    if (filter->include.count > 0 && !match_list(&filter->include, device)) {
        return "not in btl_ib_if_include";
    }
    return match_list(&filter->exclude, device) ? "in btl_ib_if_exclude" : NULL;
}

static const char *why_not_as_loopback(selection_t *selection, const btl_ib_device_t *device)
{
    (void) selection;
    return device->loopback ? "it reaches this host only, and there are others" : NULL;
}

static const char *why_not_as_last_resort(selection_t *selection, const btl_ib_device_t *device)
{
    (void) selection;
    return device->last_resort;
}

/* True if both are addresses of one interface or port. */
static bool is_same_path(const btl_ib_device_t *a, const btl_ib_device_t *b)
{
    return (a->interface[0] != '\0' && strcmp(a->interface, b->interface) == 0)
           || (a->port != 0 && a->port == b->port && strcmp(a->name, b->name) == 0);
}

/* Turns down all addresses of an interface or port but the first, as they are one path. Those of
 * udp may lead to different networks, and any may be the one that leads to a peer: they stay. */
static const char *why_not_as_same_path(selection_t *selection, const btl_ib_device_t *device)
{
    const bool alternative = strcmp(device->transport, "udp") == 0 && !device->loopback;

    for (int i = 0; i < selection->wanted && !alternative; i++) {
        if (is_same_path(device, &selection->list[i])) {
            snprintf(selection->reason, sizeof(selection->reason), "another address of %s is used",
                     device->interface[0] != '\0' ? device->interface : device->name);
            return selection->reason;
        }
    }
    return NULL;
}

/* Logs, in one line, interfaces that are left aside as they have link-local addresses only. The
 * user has to know: the kernel cannot tell a fast link between two hosts from one that leads to a
 * container. */
static void log_link_local(const selection_t *selection, const btl_ib_log_t *log)
{
    char names[160] = "";
    size_t len = 0;

    for (int i = 0; i < selection->wanted && len < sizeof(names); i++) {
        const btl_ib_device_t *device = &selection->list[i];
        const struct sockaddr *ip = (const struct sockaddr *) (const void *) &device->ip;

        if (device->last_resort != NULL
            && (btl_ib_ip_link_local(ip) || btl_ib_ip_link_local4(ip))) {
            len += (size_t) snprintf(names + len, sizeof(names) - len, "%s%s", len > 0 ? "," : "",
                                     device->name);
        }
    }
    if (len > 0 && log->print != NULL) {
        log->print(log->context, 1,
                   "left aside, as they have link-local addresses only: %s%s (btl_ib_if_include "
                   "takes those that lead to other hosts)",
                   names, len < sizeof(names) ? "" : "...");
    }
}

/* Keeps the wanted devices for which `why_not` returns NULL, and moves the others behind them. */
static void selection_keep(selection_t *selection, why_not_fn_t why_not, const btl_ib_log_t *log)
{
    const int count = selection->wanted;

    selection->wanted = 0;
    for (int i = 0; i < count; i++) {
        btl_ib_device_t *first = &selection->list[selection->wanted];
        const btl_ib_device_t device = selection->list[i];
        const char *reason = why_not(selection, &device);

        if (reason == NULL) {
            memmove(first + 1, first, (size_t) (i - selection->wanted) * sizeof(*first));
            *first = device;
            selection->wanted++;
        } else {
            btl_ib_devices_turn_down(log, device.transport, device.name, reason);
        }
    }
}

/* ---- order ---- */

/* Sorts devices by insertion, which is stable. */
static void devices_sort(btl_ib_device_t *list, int count,
                         bool (*comes_before)(const btl_ib_device_t *, const btl_ib_device_t *))
{
    for (int i = 1; i < count; i++) {
        const btl_ib_device_t device = list[i];
        int place = i;

        for (; place > 0 && comes_before(&device, &list[place - 1]); place--) {
            list[place] = list[place - 1];
        }
        list[place] = device;
    }
}

static bool rank_comes_before(const btl_ib_device_t *a, const btl_ib_device_t *b)
{
    return a->rank < b->rank;
}

static int family_place(const btl_ib_device_t *device)
{
    return device->ip.ss_family == AF_INET ? 0 : device->ip.ss_family == AF_INET6 ? 1 : 2;
}

/* Reads a device's address and its network. Returns how many bytes each has; 0: no address. */
static size_t network_of(const btl_ib_device_t *device, uint8_t address[16], uint8_t network[16])
{
    size_t len = 0;
    const uint8_t *bytes =
        btl_ib_ip_bytes((const struct sockaddr *) (const void *) &device->ip, &len);

    for (size_t i = 0; i < len; i++) {
        const size_t bits = device->prefix_bits > 8 * i ? device->prefix_bits - 8 * i : 0;

        address[i] = bytes[i];
        network[i] = (uint8_t) (bits < 8 ? bytes[i] & 0xff00 >> bits : bytes[i]);
    }
    return len;
}

static bool comes_before(const btl_ib_device_t *a, const btl_ib_device_t *b)
{
    uint8_t address[2][16];
    uint8_t network[2][16];

    if (a->rank != b->rank) {
        return a->rank < b->rank;
    }
    if (family_place(a) != family_place(b)) {
        return family_place(a) < family_place(b);
    }

    const size_t len = network_of(a, address[0], network[0]);
    network_of(b, address[1], network[1]);
    const int by_network = memcmp(network[0], network[1], len);

    if (by_network != 0) {
        return by_network < 0;
    }
    return a->prefix_bits != b->prefix_bits ? a->prefix_bits < b->prefix_bits
                                            : memcmp(address[0], address[1], len) < 0;
}

void btl_ib_devices_sort(btl_ib_device_t *list, int count)
{
    devices_sort(list, count, comes_before);
}

/* True for the best address of its interface: the first of the lowest rank. */
static bool is_best(const btl_ib_device_t *list, int count, int i)
{
    bool best = true;

    for (int j = 0; j < count && best; j++) {
        best = j == i || !is_same_path(&list[i], &list[j]) || list[j].rank > list[i].rank
               || (list[j].rank == list[i].rank && i < j);
    }
    return best;
}

/* Ranks devices: the best address of each interface has a rail from the beginning, others stand by.
 * A device of RANK_LAST is as good as others if the user names it, or there is nothing else. */
static void devices_rank(btl_ib_device_t *list, int count, bool named)
{
    bool only_last = true;

    for (int i = 0; i < count; i++) {
        only_last = only_last && list[i].rank == BTL_IB_RANK_LAST;
    }
    for (int i = 0; i < count; i++) {
        if (!is_best(list, count, i)) {
            list[i].rank =
                list[i].rank == BTL_IB_RANK_LAST ? BTL_IB_RANK_LAST : BTL_IB_RANK_ADDRESS;
        } else if (named || only_last) {
            list[i].rank = BTL_IB_RANK_FIRST;
        }
    }
    devices_sort(list, count, rank_comes_before);
}

int btl_ib_devices_first(const btl_ib_device_t *list, int count)
{
    int first = 0;

    while (first < count && list[first].rank == BTL_IB_RANK_FIRST) {
        first++;
    }
    return first;
}

/* Sets `incomplete` of entries that name several devices, of which the list has only some. */
static void find_incomplete(btl_ib_device_list_t *include, const btl_ib_device_t *list, int count)
{
    for (uint32_t i = 0; i < include->count; i++) {
        btl_ib_device_entry_t *entry = &include->entry[i];
        bool any = false;

        if (entry->family != AF_UNSPEC || strchr(entry->text, '+') == NULL) {
            continue;
        }
        for (int j = 0; j < count && !any; j++) {
            any = any_name_fits(entry->text, &list[j]);
        }
        entry->incomplete = any && !all_names_fit(entry->text, list, count);
    }
}

static void log_unmatched(const btl_ib_device_list_t *list, const btl_ib_device_t *devices,
                          int count, const btl_ib_log_t *log)
{
    for (uint32_t i = 0; i < list->count && log->print != NULL; i++) {
        bool fits = false;

        for (int j = 0; j < count && !fits; j++) {
            fits = entry_fits(&list->entry[i], &devices[j]);
        }
        if (!fits) {
            /* Level 10, as another transport may have the device. If none has, that is reported at
             * the end. */
            log->print(log->context, list->entry[i].incomplete ? 1 : 10,
                       "btl_ib_if_include: entry %u, %s, %s%s%s", i + 1, list->entry[i].text,
                       list->entry[i].incomplete ? "is not used, as it lacks a device"
                                                 : "matches no device",
                       count > 0 ? " of transport " : "", count > 0 ? devices[0].transport : "");
        }
    }
}

int btl_ib_devices_select(btl_ib_device_t *list, int count, btl_ib_device_filter_t *filter,
                          const btl_ib_log_t *log)
{
    const bool named = filter->include.count > 0;
    selection_t selection = {.list = list, .wanted = count, .filter = filter};
    const btl_ib_log_t print_only = {.print = log->print, .context = log->context};
    bool others = false;
    bool better = false;

    find_incomplete(&filter->include, list, count);
    log_unmatched(&filter->include, list, count, log);
    selection_keep(&selection, why_not_asked_for, log);
    for (int i = 0; i < selection.wanted; i++) {
        others = others || !list[i].loopback;
        better = better || (!list[i].loopback && list[i].last_resort == NULL);
    }
    if (others && !named) {
        selection_keep(&selection, why_not_as_loopback, log);
    }
    if (better && !named) {
        log_link_local(&selection, log);
        selection_keep(&selection, why_not_as_last_resort, log);
    }
    /* Log these, but do not report them as turned down: their interface is used, by another
     * address. */
    selection_keep(&selection, why_not_as_same_path, &print_only);
    devices_rank(list, selection.wanted, named);
    return selection.wanted;
}

/* ---- transports ---- */

const btl_ib_transport_type_t *const btl_ib_transport_types[] = {
#ifdef BTL_IB_HAVE_VERBS
    &btl_ib_verbs_ud_type,
    &btl_ib_verbs_rc_type,
#endif
    &btl_ib_udp_type,
#ifdef BTL_IB_HAVE_OFI
    &btl_ib_ofi_type,
#endif
    NULL,
};
