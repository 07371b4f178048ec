/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_dump_signal.h"

#include <errno.h>
#include <string.h>

volatile sig_atomic_t btl_ib_dump_signal_came;

/* 0: none is handled. */
static int watched;

static void note(int number)
{
    (void) number;
    btl_ib_dump_signal_came = 1;
}

const char *btl_ib_dump_signal_watch(int number)
{
    struct sigaction action = {.sa_handler = note, .sa_flags = SA_RESTART}, before;

    if (number != SIGUSR1 && number != SIGUSR2 && (number < SIGRTMIN || number > SIGRTMAX)) {
        return "neither SIGUSR1 (10 on most systems), SIGUSR2 (12) nor a real-time signal";
    }
    (void) sigemptyset(&action.sa_mask);
    if (sigaction(number, NULL, &before) != 0) {
        return strerror(errno);
    }
    if ((before.sa_flags & SA_SIGINFO) != 0
        || (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN)) {
        return "the program, or a library, has a handler for it already";
    }
    if (sigaction(number, &action, NULL) != 0) {
        return strerror(errno);
    }
    watched = number;
    return NULL;
}

void btl_ib_dump_signal_ignore(void)
{
    struct sigaction now;

    if (watched != 0 && sigaction(watched, NULL, &now) == 0 && (now.sa_flags & SA_SIGINFO) == 0
        && now.sa_handler == note) {
        (void) signal(watched, SIG_IGN);
    }
    watched = 0;
}
