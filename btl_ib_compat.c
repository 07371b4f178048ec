/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_compat.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool btl_ib_compat_same_series(const char *version)
{
    const size_t len = strlen(BTL_IB_BUILT_FOR_SERIES);

    while ('\0' != *version && !isdigit((unsigned char) *version)) {
        ++version;
    }
    return 0 == strncmp(version, BTL_IB_BUILT_FOR_SERIES, len)
           && !isdigit((unsigned char) version[len]);
}

bool btl_ib_compat_show_help(const char *file, const char *topic, ...)
{
    va_list args;
    char *text;

    va_start(args, topic);
    text = opal_show_help_vstring(file, topic, true, args);
    va_end(args);
    if (NULL == text) {
        return false;
    }
    fputs(text, stderr);
    free(text);
    return true;
}

int btl_ib_compat_modex_send(const mca_base_component_t *component, const void *data, size_t size)
{
    int rc;

    /* The macro ends in a semicolon of its own, so it stands alone. */
    OPAL_MODEX_SEND(rc, BTL_IB_MODEX_SCOPE, component, data, size);
    return rc;
}

uint32_t btl_ib_compat_universe_size(void)
{
    opal_process_name_t job = {OPAL_PROC_MY_NAME.jobid, OPAL_VPID_WILDCARD};
    uint32_t size = 0;
    uint32_t *at = &size;
    int rc;

#if OPAL_MAJOR_VERSION >= 5
    OPAL_MODEX_RECV_VALUE_OPTIONAL(rc, PMIX_UNIV_SIZE, &job, &at, PMIX_UINT32);
#else
    OPAL_MODEX_RECV_VALUE_OPTIONAL(rc, OPAL_PMIX_UNIV_SIZE, &job, &at, OPAL_UINT32);
#endif
    return OPAL_SUCCESS == rc ? size : 0;
}

#if OPAL_MAJOR_VERSION >= 5

/* Its servers exchange everything at start-up or on demand, and answer at once in both cases. */
static int recv_immediate(const mca_base_component_t *component, const opal_process_name_t *name,
                          void **data, size_t *size)
{
    int rc;

    OPAL_MODEX_RECV(rc, component, name, data, size);
    return rc;
}

#else

static int recv_immediate(const mca_base_component_t *component, const opal_process_name_t *name,
                          void **data, size_t *size)
{
    opal_byte_object_t *object = NULL;
    char *key = mca_base_component_to_string(component);
    int rc;

    if (NULL == key) {
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    OPAL_MODEX_RECV_VALUE_IMMEDIATE(rc, key, name, (void **) &object, OPAL_BYTE_OBJECT);
    free(key);
    if (OPAL_SUCCESS != rc) {
        return rc;
    }
    if (NULL == object) {
        return OPAL_ERR_NOT_FOUND;
    }
    *data = object->bytes;
    *size = (size_t) object->size;
    free(object);
    return OPAL_SUCCESS;
}

#endif

int btl_ib_compat_modex_recv(const mca_base_component_t *component, const opal_process_name_t *name,
                             bool wait, void **data, size_t *size)
{
    int rc;

    *data = NULL;
    *size = 0;
    if (wait) {
        OPAL_MODEX_RECV(rc, component, name, data, size);
    } else {
        rc = recv_immediate(component, name, data, size);
    }
    if (OPAL_SUCCESS == rc && NULL == *data) {
        rc = OPAL_ERR_NOT_FOUND;
    }
    return rc;
}
