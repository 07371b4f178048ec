/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * What a preloaded library shows the component in place of libopen-pal's: another version, or a
 * class of another size. A library that is made of this file for neither is only there, under a
 * name like libopen-pal's.
 */

#define _GNU_SOURCE

#include <dlfcn.h>
#include <string.h>

#ifdef STAND_IN_VERSION

const char opal_version_string[] = "9.8.7";

#elif defined(STAND_IN_CLASS)

#include "opal_config.h"

#include "opal/class/opal_bitmap.h"

opal_class_t opal_bitmap_t_class;

__attribute__((constructor)) static void enlarge(void)
{
    const opal_class_t *real = dlsym(RTLD_NEXT, "opal_bitmap_t_class");

    if (real != NULL) { /* else this is a program that starts the one which we are for */
        memcpy(&opal_bitmap_t_class, real, sizeof(opal_bitmap_t_class));
        opal_bitmap_t_class.cls_sizeof += 8;
    }
}

#endif
