/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Stands in for libFuzzer's main: runs a fuzz target once over each file named. */

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        perror(path);
        return 1;
    }
    /* A buffer of exactly the input's size, so that the address sanitizer sees a read beyond it. */
    fseek(file, 0, SEEK_END);
    size_t size = (size_t) ftell(file);
    rewind(file);
    uint8_t *data = malloc(size > 0 ? size : 1);
    if (data == NULL || size != fread(data, 1, size, file)) {
        perror(path);
        fclose(file);
        free(data);
        return 1;
    }
    fclose(file);
    LLVMFuzzerTestOneInput(data, size);
    free(data);
    return 0;
}

int main(int argc, char **argv)
{
    int failed = 0;
    for (int i = 1; i < argc; i++) {
        failed |= replay(argv[i]);
    }
    printf("replayed %d inputs\n", argc - 1);
    return failed;
}
