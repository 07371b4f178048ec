/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Is the Open MPI that loaded us the one that we were compiled for? */

#include <stdio.h>
#include <string.h>

#include "btl_ib_ompi_compat.h"
#include "unit.h"

TEST(the_one_we_were_built_for)
{
    char why[256];

    assert_true(btl_ib_ompi_check(why, sizeof(why)));
}

/* Structures that we share with it, and that have another size there, are named. */
TEST(another_layout)
{
    opal_class_t *const classes[] = {OBJ_CLASS(opal_object_t), OBJ_CLASS(opal_mutex_t),
                                     OBJ_CLASS(opal_free_list_t), OBJ_CLASS(opal_convertor_t),
                                     OBJ_CLASS(mca_btl_base_descriptor_t)};
    char why[256], expected[128];

    for (size_t i = 0; i < sizeof(classes) / sizeof(classes[0]); ++i) {
        const size_t size = classes[i]->cls_sizeof;

        classes[i]->cls_sizeof = size + 8;
        why[0] = '\0';
        assert_false(btl_ib_ompi_check(why, sizeof(why)));
        classes[i]->cls_sizeof = size;
        snprintf(expected, sizeof(expected), "%s has %zu bytes in this Open MPI's libopen-pal, %zu",
                 classes[i]->cls_name, size + 8, size);
        assert_non_null(strstr(why, expected));
    }
    assert_true(btl_ib_ompi_check(why, sizeof(why)));
}

UNIT_MAIN(NULL, NULL)
