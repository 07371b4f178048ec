/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Zero copy, or in place, for messages whose sender may wait for their memory (msg->spare): longer
 * ones, of which the component decides (btl_ib_copy_limit in btl_ib_send.c). They leave from the
 * sender's memory. If they are acknowledged soon nothing is ever copied; if not, what is missing is
 * copied to the spare memory, and the sender's is free (on_sent). Writes msg->zcopy and
 * engine->zcopy.
 *
 * A process that sends many messages before it waits, waits one round trip for all of their
 * acknowledgements. One that waits for a single message would stand still for a round trip after
 * each, and for the ACK delay if it sends so little that the peer lets its next message carry the
 * acknowledgement. These are copied in the next turn, while their datagrams travel; the last ones
 * of many, once the process has received nothing for some calls.
 */

#ifndef BTL_IB_ZCOPY_H
#define BTL_IB_ZCOPY_H

#include "btl_ib_state.h"

/* Notes that a message was submitted. */
static inline void btl_ib_zcopy_begin(btl_ib_engine_t *engine, btl_ib_msg_t *msg)
{
    btl_ib_list_init(&msg->zcopy.link);
    msg->zcopy.held = msg->spare != NULL;
    engine->zcopy.count += msg->zcopy.held;
}

/* Notes that the last chunk of a message was sent. Returns whether its sender's memory is still in
 * use. */
bool btl_ib_zcopy_left(btl_ib_conn_t *conn, btl_ib_msg_t *msg);

/* Notes that its sender's memory, which was in use, is free. */
void btl_ib_zcopy_let_go(btl_ib_engine_t *engine, btl_ib_msg_t *msg);

/* Ends it. Returns whether its sender's memory was in use until now. */
static inline bool btl_ib_zcopy_end(btl_ib_engine_t *engine, btl_ib_msg_t *msg)
{
    const bool held = msg->zcopy.held;

    if (held) {
        btl_ib_zcopy_let_go(engine, msg);
    }
    return held;
}

/* Takes a message that waits no longer: its bytes were copied, and its sender may be told. Or
 * returns NULL. */
btl_ib_msg_t *btl_ib_zcopy_release(btl_ib_engine_t *engine);

/* Returns when that has something to do, if little is received until then: a time, or
 * UINT64_MAX. */
uint64_t btl_ib_zcopy_due(const btl_ib_engine_t *engine);

#endif
