/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * A model of the component's lock (progress/btl_ib_biased_lock.h), for spin: its owner, a thread
 * that borrows it or has shifts, and threads that acquire it.
 *
 * What in here is what in the lock:
 *
 *   owner, first lines  btl_ib_biased_lock_acquire_biased(), and what acquire() and try() do then
 *   revoke, barrier     revoke_bias() and run_barrier()
 *   take_over           lock_take_over(); its loop waits here until what it looks for is so
 *   give_back, leave    lock_give_back(), btl_ib_biased_lock_release()
 *   proctype borrower   btl_ib_biased_lock_borrow() or begin_shift(): the progress thread
 *   proctype other      threads of MPI_THREAD_MULTIPLE
 *
 * Memory: what the owner stores in `owner_inside` waits in a buffer, from where it gets to all
 * others at any time, in the order of the stores. (A processor that executes the owner's load of
 * `revoked` before its store looks the same to the others.) membarrier empties the buffer, and so
 * does the unlocking of the mutex. `revoked` is stored with a full barrier, or before the mutex is
 * unlocked. What the lock guards, and its fields that the holder alone writes, follow from that
 * order, and are plain variables here.
 *
 * What is checked
 *   always     one thread is in at most; the mutex is unlocked by the one that has it; a release
 *              takes the way by which its thread got in
 *   at the end every run ends, so that nobody sleeps for ever; nobody waits; the mutex is free. The
 *              bias is back if nobody but the borrower came, else it is gone for good
 *
 * Each BUG_ is a mistake that spin must find. tests/model/run and tools/check (test
 * model/biased_lock) read these lines:
 *
 *   run: -DBORROWERS=1
 *   run: -DBORROWERS=1 -DSHIFTS
 *   run: -DOTHERS=2
 *   run: -DBORROWERS=1 -DOTHERS=1
 *   run: -DBORROWERS=1 -DSHIFTS -DOTHERS=1
 *   full: -DBORROWERS=1 -DSHIFTS -DOTHERS=2
 *   full: -DBORROWERS=1 -DSHIFTS -DOTHERS=1 -DENTRIES=4 -DBORROWS=3
 *   bug: -DBORROWERS=1 -DBUG_NO_BARRIER
 *   bug: -DBORROWERS=1 -DBUG_ONE_LOOK
 *   bug: -DBORROWERS=1 -DBUG_NOT_ASKED
 *   bug: -DBORROWERS=1 -DBUG_NOT_OWN
 *   bug: -DBORROWERS=1 -DBUG_BIAS_LOST
 *   bug: -DBORROWERS=1 -DSHIFTS -DBUG_BIAS_IN_SHIFT
 *   bug: -DBORROWERS=1 -DSHIFTS -DOTHERS=1 -DBUG_SHIFT_OF_ALL
 *   bug: -DOTHERS=2 -DBUG_NOT_WAITED
 *   bug: -DOTHERS=2 -DBUG_BIAS_KEPT
 *   bug: -DOTHERS=2 -DBUG_LATE_NOTE
 *   bug: -DOTHERS=2 -DBUG_WAITING
 */

#ifndef BORROWERS
#define BORROWERS 0 /* 0 or 1 */
#endif
#ifndef OTHERS
#define OTHERS 0
#endif
#ifndef ENTRIES
#define ENTRIES 3 /* of the owner */
#endif
#ifndef BORROWS
#define BORROWS 2
#endif
#define ACQUISITIONS 2 /* of each other thread */

#define NOBODY 255
#define OWNER 0

/* ---- the lock ---- */

bool owner_inside, revoked;
chan stores = [4] of { bool }; /* of the owner in owner_inside, that others do not see yet */
bool by_mutex, biased = true, in_shift, shared;
byte helper = NOBODY;
byte mutex = NOBODY; /* who has it */
byte waiting;

byte inside; /* threads that have the lock */
bool several; /* a thread had it that is neither the owner nor the borrower */
byte left = 1 + BORROWERS + OTHERS;

inline store_inside(value)
{
    stores!value /* waits if the buffer is full, as a processor does */
}

inline barrier()
{
    bool stored;
    do
    :: stores?stored -> owner_inside = stored
    :: empty(stores) -> break
    od;
    stored = false
}

/* Stores become visible whenever they like. */
active proctype memory()
{
    bool stored;
end:
    do
    :: atomic { stores?stored -> owner_inside = stored; stored = false }
    od
}

inline enter()
{
    inside++;
    assert(inside == 1)
}

/* ---- the mutex ---- */

inline unlock(me)
{
    atomic {
        assert(mutex == me);
        if
        :: me == OWNER -> barrier()
        :: else
        fi;
        mutex = NOBODY
    }
}

inline give_back(me)
{
    if
#ifdef BUG_BIAS_IN_SHIFT
    :: biased -> revoked = false
#elif defined(BUG_BIAS_LOST)
    :: false
#else
    :: biased && !in_shift -> revoked = false
#endif
    :: else
    fi;
    unlock(me)
}

/* Asks whether the owner is in; `is_in` gets the answer. */
inline revoke(is_in)
{
    revoked = true;
#ifndef BUG_NO_BARRIER
    atomic { barrier() };
#endif
    is_in = owner_inside
}

inline take_over(me, is_in)
{
    if
#ifdef BUG_SHIFT_OF_ALL
    :: !shared && me != OWNER && !in_shift ->
#else
    :: !shared && me != OWNER && !(in_shift && helper == me) ->
#endif
        if
        :: biased ->
#ifndef BUG_BIAS_KEPT
            biased = false;
#endif
            revoke(is_in);
#ifndef BUG_NOT_WAITED
            !owner_inside; /* as it finds when it asks once more */
#endif
            is_in = false
        :: else
        fi;
        shared = true
    :: else
    fi;
    by_mutex = true
}

inline acquire_mutex(me, is_in)
{
    if
    :: atomic { mutex == NOBODY -> mutex = me }
    :: atomic { mutex != NOBODY -> waiting++ };
        atomic { mutex == NOBODY -> mutex = me };
#ifndef BUG_WAITING
        waiting--
#endif
    fi;
    take_over(me, is_in)
}

/* `got`: it has it. */
inline try_mutex(me, is_in, got)
{
    if
    :: waiting != 0
    :: waiting == 0 ->
        if
        :: atomic { mutex == NOBODY -> mutex = me };
            take_over(me, is_in);
            got = true
        :: mutex != NOBODY
        fi
    fi
}

/* ---- leaving ---- */

inline leave(me)
{
    inside--;
    if
    :: by_mutex ->
#ifdef BUG_LATE_NOTE
        give_back(me);
        by_mutex = false
#else
        by_mutex = false;
        give_back(me)
#endif
    :: else ->
        assert(me == OWNER);
        store_inside(false)
    fi
}

/* ---- threads ---- */

active proctype owner()
{
    byte n;
    bool got, is_in;

    do
    :: n < ENTRIES ->
        n++;
        got = false;
        /* acquire_biased */
        if
        :: !revoked ->
            store_inside(true);
            if
#ifdef BUG_ONE_LOOK
            :: true -> got = true
#else
            :: !revoked -> got = true
            :: revoked -> store_inside(false)
#endif
            fi
        :: revoked
        fi;
        if
        :: got -> assert(!by_mutex)
        :: !got -> acquire_mutex(OWNER, is_in); got = true
        :: !got -> try_mutex(OWNER, is_in, got)
        fi;
        if
        :: got -> enter(); leave(OWNER)
        :: else
        fi
    :: else -> break
    od;
    left--
}

#if BORROWERS > 0
active proctype borrower()
{
    byte n;
    bool is_in;

    do
    :: n < BORROWS ->
        n++;
        if
        :: atomic { mutex == NOBODY -> mutex = 1 };
            if
            :: biased ->
                revoke(is_in)
            :: else
            fi;
#ifdef BUG_NOT_ASKED
            is_in = false;
#endif
            if
            :: is_in ->
                is_in = false;
#ifdef BUG_NOT_OWN
                by_mutex = true;
                by_mutex = false;
#endif
                give_back(1)
            :: else ->
                by_mutex = true;
                enter();
#ifdef SHIFTS
                in_shift = true;
                helper = 1;
                leave(1); /* for a callback, */
                acquire_mutex(1, is_in); /* as `revoked` says that there is no other way */
                enter();
                in_shift = false;
#endif
                leave(1)
            fi
        :: mutex != NOBODY
        fi
    :: else -> break
    od;
    left--
}
#endif

#if OTHERS > 0
active [OTHERS] proctype other()
{
    byte n;
    bool got, is_in;

    do
    :: n < ACQUISITIONS ->
        n++;
        got = false;
        if
        :: acquire_mutex(10 + _pid, is_in); got = true
        :: try_mutex(10 + _pid, is_in, got)
        fi;
        if
        :: got -> several = true; enter(); leave(10 + _pid)
        :: else
        fi
    :: else -> break
    od;
    left--
}
#endif

/* ---- the end ---- */

active proctype rest()
{
    left == 0 && empty(stores);
    assert(mutex == NOBODY && waiting == 0 && inside == 0);
    assert(!by_mutex && !in_shift && !owner_inside);
    assert(shared == several);
    assert(shared -> !biased && revoked : biased && !revoked)
}
