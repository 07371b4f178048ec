/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "allocations.h"

#include <malloc.h>
#include <sys/mman.h>

#include "unit.h"

/* Here malloc is __real_malloc, and so on: see local.mk. */
#include <stdlib.h>

enum { PAGE = 4096 };

static uint64_t bytes;

void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
void __wrap_free(void *memory);
void *__wrap_mmap(void *at, size_t size, int access, int flags, int fd, off_t offset);
int __wrap_munmap(void *memory, size_t size);

uint64_t allocated(void)
{
    return bytes;
}

void assert_told(uint64_t is, uint64_t told)
{
    const uint64_t more = is > told ? is - told : told - is;

    if (20 * more > is) {
        fail_msg("%llu bytes are held, %llu were told", (unsigned long long) is,
                 (unsigned long long) told);
    }
}

static void *count(void *memory)
{
    bytes += malloc_usable_size(memory);
    return memory;
}

void *__wrap_malloc(size_t size)
{
    return count(malloc(size));
}

void *__wrap_calloc(size_t number, size_t size)
{
    return count(calloc(number, size));
}

void *__wrap_realloc(void *old, size_t size)
{
    bytes -= malloc_usable_size(old);
    return count(realloc(old, size));
}

void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
    return count(aligned_alloc(alignment, size));
}

void __wrap_free(void *memory)
{
    bytes -= malloc_usable_size(memory);
    free(memory);
}

void *__wrap_mmap(void *at, size_t size, int access, int flags, int fd, off_t offset)
{
    bytes += (size + PAGE - 1) / PAGE * PAGE;
    return mmap(at, size, access, flags, fd, offset);
}

int __wrap_munmap(void *memory, size_t size)
{
    bytes -= (size + PAGE - 1) / PAGE * PAGE;
    return munmap(memory, size);
}
