/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Shared libraries that are loaded when something that needs them is chosen. What the component is
 * linked with every job loads, whatever it uses: libfabric takes 0.2 s in each process, and where a
 * library is missing there would be no ib at all.
 *
 * Sources call the functions of a library by their names. A header of ours (verbs_library.h) lists
 * those that are called, and says before it includes the library's own header that their symbols
 * are others: BTL_IB_LIBRARY_RENAME. Those are defined beside the header as calls through a table
 * of pointers, which btl_ib_library_load() fills in. A call is as costly as through the linker's
 * table. Functions that the list lacks are missed when the component is linked.
 *
 * Lists are macros LIST(X) of lines X(type, name, parameters, arguments).
 */

#ifndef BTL_IB_LIBRARY_H
#define BTL_IB_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>

#define BTL_IB_LIBRARY_PRAGMA(text) _Pragma(#text)

/* For a list: before the library's header is included. Its inline functions do the same then. */
#define BTL_IB_LIBRARY_RENAME(type, name, parameters, arguments)                                   \
    BTL_IB_LIBRARY_PRAGMA(redefine_extname name btl_ib_##name)

/* For a list: members of the structure of pointers, its names, and the functions themselves, where
 * that structure is `calls`. */
#define BTL_IB_LIBRARY_POINTER(type, name, parameters, arguments) type(*name) parameters;
#define BTL_IB_LIBRARY_NAME(type, name, parameters, arguments)    #name,
#define BTL_IB_LIBRARY_CALL(type, name, parameters, arguments)                                     \
    type name parameters                                                                           \
    {                                                                                              \
        return calls.name arguments;                                                               \
    }

typedef struct btl_ib_library {
    const char *file;    /* as the dynamic linker looks for it: "libfabric.so.1" */
    const char *package; /* what to install: "Debian: libfabric1, Fedora: libfabric" */
    const char *const *names;
    size_t count;
    void *calls;  /* a structure of `count` pointers to functions, in the order of their names */
    bool preload; /* what the program or LD_PRELOAD defines comes first, as if it had been linked */
    void *handle; /* NULL: not loaded */
} btl_ib_library_t;

/* Room for a reason: file and package, and what the dynamic linker says. */
#define BTL_IB_LIBRARY_WHY 192

/*
 * Loads a library, unless that was done. It stays until the process ends. Returns whether its
 * functions may be called; if not, and `why` is not NULL, the reason is written there as text. One
 * thread at a time may load.
 */
bool btl_ib_library_load(btl_ib_library_t *library, char *why, size_t len);

/* Returns whether a library is loaded; if `load`, loads it. If it is not, `out` says so: "not
 * loaded", or "cannot be loaded: " and why. */
bool btl_ib_library_check(btl_ib_library_t *library, bool load, char *out, size_t len);

/* Writes the name of the file that was loaded, symbolic links resolved: "libibverbs.so.1.14.44.0".
 * "unknown" if that cannot be told. */
void btl_ib_library_file(const btl_ib_library_t *library, char *out, size_t len);

#endif
