/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * libFuzzer target: honest engines, and a network, a clock and shortages that the fuzzer chooses.
 * When it is done, everything that was accepted gets through exactly once and the engines come to
 * rest.
 */

#include "script.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static script_t script;

    script_begin(&script, data, size);
    for (int i = 0; i < SCRIPT_STEPS && !script_over(&script); i++) {
        script_honest_step(&script);
        script_check(&script);
    }
    script_converge(&script);
    script_check(&script);
    script_end(&script);
    return 0;
}
