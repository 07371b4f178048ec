/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Copies the text of btl_ib(7) from stdin to stdout, with all parameters by level, out of the table
 * that Open MPI gets them from, instead of the line @PARAMETERS@. It runs when the component is
 * built, and is not installed.
 */

#include "btl_ib.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "btl_ib_params.h"

enum { PARAMETERS_MAX = 256 };

static const char *const levels[] = {
    "Level 1: what most users need",
    "Level 2: for some users",
    "Level 3: for users who know their network",
    "Level 4: for tuning",
    "Level 5: for more tuning",
    "Level 6: for experts of tuning",
    "Level 7: for developers of MPI",
    "Level 8: for developers of BTLs",
    "Level 9: for developers of this one",
};

static int by_level(const void *a, const void *b)
{
    const btl_ib_param_t *const left = *(const btl_ib_param_t *const *) a;
    const btl_ib_param_t *const right = *(const btl_ib_param_t *const *) b;

    return left->level != right->level ? (left->level < right->level ? -1 : 1)
                                       : strcmp(left->name, right->name);
}

static void print_parameter(const btl_ib_param_t *parameter)
{
    char room[BTL_IB_PARAM_HELP_MAX];

    printf("  btl_ib_%s\n      %s.\n", parameter->name, btl_ib_param_help(parameter, room));
    if (parameter->kind == BTL_IB_PARAM_WORD) {
        const char *words[BTL_IB_WORDS_MAX];

        btl_ib_param_words(parameter, words);
        fputs("      Values:", stdout);
        for (size_t i = 0; words[i] != NULL; ++i) {
            printf("%s %s", i != 0 ? "," : "", words[i]);
        }
        puts(".");
    }
}

static void print_parameters(void)
{
    const btl_ib_param_t *all[PARAMETERS_MAX] = {NULL};
    size_t count = 0;

    for (; count < PARAMETERS_MAX && btl_ib_param_table[count].name != NULL; ++count) {
        all[count] = &btl_ib_param_table[count];
    }
    qsort(all, count, sizeof(all[0]), by_level);
    for (size_t i = 0; i < count; ++i) {
        if (i == 0 || all[i - 1]->level != all[i]->level) {
            printf("%s:\n", levels[all[i]->level]);
        }
        print_parameter(all[i]);
    }
    puts("");
}

int main(void)
{
    char line[256];

    while (fgets(line, sizeof(line), stdin) != NULL) {
        if (strcmp(line, "@PARAMETERS@\n") == 0) {
            print_parameters();
        } else {
            fputs(line, stdout);
        }
    }
    return ferror(stdout) == 0 && fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
