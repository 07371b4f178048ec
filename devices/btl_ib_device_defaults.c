/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_device_defaults.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "btl_ib_help.h"

enum { FILE_MAX = 1 << 20 }; /* bytes */

/* The component's own table. It is also installed, but never read: a component that was moved, or
 * is linked into Open MPI, has it nevertheless. */
static const char own_table[] =
#include "btl_ib_device_params.h" /* made of btl-ib-device-params.ini */
    ;

/* ---- reading ---- */

/* Returns the file as text, or NULL and an errno. What has a byte 0 in it is no text. */
static char *read_file(const char *path, int *error)
{
    FILE *file = fopen(path, "re");
    char *text = NULL != file ? malloc(FILE_MAX + 1) : NULL;
    size_t size = 0;

    *error = NULL != file ? ENOMEM : errno;
    if (NULL != text) {
        errno = 0;
        size = fread(text, 1, FILE_MAX + 1, file);
        *error = 0 != ferror(file)                  ? (0 != errno ? errno : EIO)
                 : size > FILE_MAX                  ? EFBIG
                 : NULL != memchr(text, '\0', size) ? EINVAL
                                                    : 0;
    }
    if (NULL != file) {
        fclose(file);
    }
    if (0 != *error) {
        free(text);
        return NULL;
    }
    text[size] = '\0';
    return text;
}

/* Read one more file. Returns false after telling why not. */
static bool add_file(btl_ib_device_defaults_t *defaults, const char *path, size_t len)
{
    btl_ib_device_table_error_t error;
    btl_ib_device_config_t config;
    char *copy = strndup(path, len);
    char *text = NULL;
    int number = ENOMEM;

    if (BTL_IB_DEVICE_FILES_MAX == defaults->count) {
        number = E2BIG;
    } else if (NULL != copy) {
        text = read_file(copy, &number);
    }
    if (NULL == text) {
        BTL_IB_SHOW_HELP("no device table", opal_process_info.nodename,
                         defaults->params->device_files, NULL != copy ? copy : "",
                         strerror(number));
        free(copy);
        return false;
    }
    defaults->path[defaults->count] = copy;
    defaults->text[defaults->count++] = text;
    if (btl_ib_device_table_find(text, 0, 0, &config, &error) < 0) {
        BTL_IB_SHOW_HELP("bad device table", opal_process_info.nodename, copy, error.line,
                         error.key, error.value, error.problem, error.expected);
        return false;
    }
    return true;
}

bool btl_ib_device_defaults_read(btl_ib_device_defaults_t *defaults, const btl_ib_params_t *params)
{
    const char *at = NULL != params->device_files ? params->device_files : "";

    *defaults = (btl_ib_device_defaults_t){.params = params};
    while ('\0' != *at) {
        const size_t len = strcspn(at, ":");

        if (!add_file(defaults, at, len)) {
            return false;
        }
        at += len + (':' == at[len]);
    }
    return true;
}

void btl_ib_device_defaults_free(btl_ib_device_defaults_t *defaults)
{
    for (uint32_t i = 0; i < defaults->count; ++i) {
        free(defaults->path[i]);
        free(defaults->text[i]);
    }
    defaults->count = 0;
}

/* ---- applying ---- */

/* Find the section of a device. Returns where it is, NULL if it has none. */
static const char *find(const btl_ib_device_defaults_t *defaults, const btl_ib_device_t *device,
                        btl_ib_device_config_t *config)
{
    btl_ib_device_table_error_t error;

    for (uint32_t i = 0; i <= defaults->count; ++i) {
        const bool own = i == defaults->count;

        if (0 < btl_ib_device_table_find(own ? own_table : defaults->text[i], device->vendor_id,
                                         device->part_id, config, &error)) {
            return own ? "the component's own table" : defaults->path[i];
        }
    }
    return NULL;
}

static void tell_section(const btl_ib_device_t *device, const btl_ib_device_config_t *config,
                         const char *where)
{
    char text[512];

    if (NULL == where) {
        BTL_IB_VERBOSE(1, "device %s: vendor 0x%x, part 0x%x: no table has a section for it",
                       device->name, device->vendor_id, device->part_id);
        return;
    }
    btl_ib_device_config_format(config, text, sizeof(text));
    BTL_IB_VERBOSE(1, "device %s: vendor 0x%x, part 0x%x: section [%s] of %s sets %s", device->name,
                   device->vendor_id, device->part_id, config->section, where, text);
}

static void clear_text(const btl_ib_params_t *params, const char *name, char *text)
{
    if (btl_ib_params_by_user(params, name)) {
        text[0] = '\0';
    }
}

static void clear_number(const btl_ib_params_t *params, const char *name, int *number)
{
    if (btl_ib_params_by_user(params, name)) {
        *number = -1;
    }
}

static int number_or(int number, int other)
{
    return 0 <= number ? number : other;
}

void btl_ib_device_defaults_apply(const btl_ib_device_defaults_t *defaults,
                                  const btl_ib_device_t *device, bool tell,
                                  btl_ib_device_config_t *config)
{
    const btl_ib_params_t *params = defaults->params;
    /* Others than those of verbs may not know what they are: then nothing is looked for. */
    const bool known = 0 == strcmp(device->transport, "verbs") || 0 != device->vendor_id;
    const char *where = known ? find(defaults, device, config) : NULL;

    if (NULL == where) {
        *config = BTL_IB_DEVICE_CONFIG_NONE;
    }
    clear_text(params, "transport", config->transport);
    clear_text(params, "wire", config->wire);
    clear_text(params, "receive_queues", config->receive_queues);
    clear_number(params, "max_inline_data", &config->max_inline_data);
    clear_number(params, "mtu", &config->mtu);
    clear_number(params, "max_eager_rdma", &config->max_eager_rdma);
    clear_number(params, "rc_reads", &config->rc_reads);
    if (known && tell) {
        tell_section(device, config, where);
    }
    config->max_inline_data = number_or(config->max_inline_data, params->max_inline_data);
    config->mtu = number_or(config->mtu, params->mtu);
    config->max_eager_rdma = number_or(config->max_eager_rdma, params->max_eager_rdma);
    config->rc_reads = number_or(config->rc_reads, params->rc_reads);
}
