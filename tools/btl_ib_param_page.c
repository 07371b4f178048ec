/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Prints the manual page of the component, btl_ib(7): all parameters by level, out of the table
 * that Open MPI gets them from. It runs when the component is built, and is not installed.
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

/* As roff wants it: - would become a hyphen, \ an escape, and a line may not begin with . or '. */
static void print_escaped(const char *text)
{
    for (size_t i = 0; text[i] != '\0'; ++i) {
        if (i == 0 && (text[i] == '.' || text[i] == '\'')) {
            fputs("\\&", stdout);
        }
        if (text[i] == '\\') {
            fputs("\\e", stdout);
        } else {
            printf("%s%c", text[i] == '-' ? "\\" : "", text[i]);
        }
    }
}

static void print_parameter(const btl_ib_param_t *parameter)
{
    char room[BTL_IB_PARAM_HELP_MAX];

    printf(".TP\n.B btl_ib_%s\n", parameter->name);
    print_escaped(btl_ib_param_help(parameter, room));
    fputs(".\n", stdout);
    if (parameter->kind == BTL_IB_PARAM_WORD) {
        const char *words[BTL_IB_WORDS_MAX];

        btl_ib_param_words(parameter, words);
        fputs("Values:", stdout);
        for (size_t i = 0; words[i] != NULL; ++i) {
            printf("%s ", i != 0 ? "," : "");
            print_escaped(words[i]);
        }
        fputs(".\n", stdout);
    }
}

static void print_opening(void)
{
    /* No space between words is stretched, and no name is cut at the end of a line. */
    printf(".TH BTL_IB 7 \"\" \"btl_ib %s\" \"btl_ib\"\n.ad l\n.nh\n", BTL_IB_VERSION);
    puts(".SH NAME\n"
         "btl_ib \\- Open MPI's BTL ib: MPI over any datagram fabric, and its parameters\n"
         ".SH SYNOPSIS\n"
         ".B mpirun \\-\\-mca pml ob1 \\-\\-mca btl ib,self\n"
         ".RB [ \"\\-\\-mca btl_ib_\\fINAME VALUE\\fP\" ]...\n"
         ".I program\n"
         ".SH DESCRIPTION\n"
         "The component ib carries the messages of MPI over UDP sockets, libfabric or RDMA\n"
         "devices, and repeats what the network loses.\n"
         "It is used where it is named among the BTLs, which the PML ob1 uses, or where\n"
         ".B btl_ib_auto\n"
         "is 1.\n"
         ".PP\n"
         "A parameter is set by\n"
         ".B \\-\\-mca btl_ib_\\fINAME VALUE\\fP\n"
         "of mpirun, by\n"
         ".B OMPI_MCA_btl_ib_\\fINAME\\fP\n"
         "in the environment, or by a line\n"
         ".B btl_ib_\\fINAME\\fP = \\fIVALUE\\fP\n"
         "in a file openmpi\\-mca\\-params.conf; the first of these counts.\n"
         "A value that cannot be used is refused by a message that tells what can.\n"
         "Open MPI does not tell of a name that does not exist.\n"
         ".PP\n"
         "k, M and G are powers of 1024.\n"
         "The levels are those of\n"
         ".BR \"ompi_info \\-\\-param btl ib \\-\\-level\" \" \\fIN\\fP.\"");
}

int main(void)
{
    const btl_ib_param_t *all[PARAMETERS_MAX] = {NULL};
    size_t count = 0;

    for (; count < PARAMETERS_MAX && btl_ib_param_table[count].name != NULL; ++count) {
        all[count] = &btl_ib_param_table[count];
    }
    qsort(all, count, sizeof(all[0]), by_level);
    print_opening();
    for (size_t i = 0; i < count; ++i) {
        if (i == 0 || all[i - 1]->level != all[i]->level) {
            printf(".SH %s\n", levels[all[i]->level]);
        }
        print_parameter(all[i]);
    }
    puts(".SH SEE ALSO\n.BR ib_info (1),\n.BR ompi_info (1),\n.BR mpirun (1)");
    return ferror(stdout) == 0 && fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
