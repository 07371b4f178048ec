/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_library.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Returns the address of a function. An old library may lack one; of versions of a symbol this
 * finds the default, which is that of the library's own headers. */
static void *find(const btl_ib_library_t *library, void *handle, const char *name)
{
    void *found = library->preload ? dlsym(RTLD_DEFAULT, name) : NULL;

    return found != NULL ? found : dlsym(handle, name);
}

static bool find_all(const btl_ib_library_t *library, void *handle, char *why, size_t len)
{
    for (size_t i = 0; i < library->count; i++) {
        void *found = find(library, handle, library->names[i]);
        if (found == NULL) {
            snprintf(why, len, "%s lacks %s", library->file, library->names[i]);
            return false;
        }
        /* POSIX: pointers to functions are like others (dlsym(3)). */
        memcpy((char *) library->calls + i * sizeof(found), &found, sizeof(found));
    }
    return true;
}

bool btl_ib_library_load(btl_ib_library_t *library, char *why, size_t len)
{
    if (library->handle != NULL) {
        return true;
    }
    void *handle = dlopen(library->file, RTLD_LAZY | RTLD_LOCAL);
    if (handle == NULL) {
        /* "libfabric.so.1: cannot open shared object file: No such file or directory" */
        snprintf(why, len, "%s (%s)", dlerror(), library->package);
        return false;
    }
    if (!find_all(library, handle, why, len)) {
        (void) dlclose(handle);
        return false;
    }
    library->handle = handle;
    return true;
}

bool btl_ib_library_check(btl_ib_library_t *library, bool load, char *out, size_t len)
{
    char why[BTL_IB_LIBRARY_WHY];

    if (load && !btl_ib_library_load(library, why, sizeof(why))) {
        snprintf(out, len, "cannot be loaded: %s", why);
    } else if (library->handle == NULL) {
        snprintf(out, len, "not loaded");
    }
    return library->handle != NULL;
}

void btl_ib_library_file(const btl_ib_library_t *library, char *out, size_t len)
{
    struct link_map *map = NULL;
    char path[PATH_MAX];

    if (library->handle == NULL || dlinfo(library->handle, RTLD_DI_LINKMAP, &map) != 0
        || realpath(map->l_name, path) == NULL) {
        snprintf(out, len, "unknown");
        return;
    }
    const char *slash = strrchr(path, '/');
    snprintf(out, len, "%s", slash != NULL ? slash + 1 : path);
}
