/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Values that openib, usnic and GASNet accepted, and that mean something else or nothing in ib. A
 * user who keeps a setting and only renames its parameter gets what the value meant there.
 * docs/guide/parameters-from-openib.md has a line for each.
 */

#ifndef BTL_IB_OLD_VALUES_H
#define BTL_IB_OLD_VALUES_H

/* Returns the value of the parameter `name` (without btl_ib_) that means in ib what `text` meant
 * there; `text` itself if it is none of the old values. */
const char *btl_ib_old_value(const char *name, const char *text);

#endif
