/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#ifndef BTL_IB_LIST_H
#define BTL_IB_LIST_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- list ---- */

/*
 * A doubly linked list whose links live in the elements, so that nothing is allocated and an
 * element leaves in constant time. Head and element are of one type: a ring of which the head is
 * one member. Both must be initialised. An element that is on no list links to itself, hence
 * btl_ib_list_empty(&element->link) tells whether it is on one.
 */

typedef struct btl_ib_list {
    struct btl_ib_list *next;
    struct btl_ib_list *prev;
} btl_ib_list_t;

/* The struct of type `type` whose member `member` is at `pointer`. */
#define BTL_IB_CONTAINER(pointer, type, member)                                                    \
    ((type *) (void *) ((char *) (pointer) -offsetof(type, member)))

static inline void btl_ib_list_init(btl_ib_list_t *list)
{
    list->next = list;
    list->prev = list;
}

/* True if a head has no elements, or an element is on no list. */
static inline bool btl_ib_list_empty(const btl_ib_list_t *list)
{
    return list->next == list;
}

/* Puts `element`, which must be on no list, before `position`. */
static inline void btl_ib_list_insert_before(btl_ib_list_t *position, btl_ib_list_t *element)
{
    assert(btl_ib_list_empty(element));
    element->next = position;
    element->prev = position->prev;
    position->prev->next = element;
    position->prev = element;
}

static inline void btl_ib_list_push_tail(btl_ib_list_t *list, btl_ib_list_t *element)
{
    btl_ib_list_insert_before(list, element);
}

static inline void btl_ib_list_push_head(btl_ib_list_t *list, btl_ib_list_t *element)
{
    btl_ib_list_insert_before(list->next, element);
}

/* Takes `element` off its list. Harmless if it is on none. */
static inline void btl_ib_list_remove(btl_ib_list_t *element)
{
    element->prev->next = element->next;
    element->next->prev = element->prev;
    btl_ib_list_init(element);
}

/* Returns the first element, or NULL if there is none. It stays on the list. */
static inline btl_ib_list_t *btl_ib_list_first(const btl_ib_list_t *list)
{
    return btl_ib_list_empty(list) ? NULL : list->next;
}

/* Returns the last element, or NULL if there is none. It stays on the list. */
static inline btl_ib_list_t *btl_ib_list_last(const btl_ib_list_t *list)
{
    return btl_ib_list_empty(list) ? NULL : list->prev;
}

/* Returns the element after `element`, or NULL if that was the last. */
static inline btl_ib_list_t *btl_ib_list_next(const btl_ib_list_t *list,
                                              const btl_ib_list_t *element)
{
    return element->next == list ? NULL : element->next;
}

/* Returns the struct whose member at `offset` is `element`, or NULL for NULL. */
static inline void *btl_ib_list_entry(const btl_ib_list_t *element, size_t offset)
{
    return element == NULL ? NULL : (char *) (uintptr_t) element - offset;
}

/* A loop over all elements: `entry` is the struct of type `type` whose member `member` is on
 * `list`. It must still be on the list when the loop goes on from it. */
#define BTL_IB_LIST_FOREACH(type, entry, list, member)                                             \
    for (type *entry = btl_ib_list_entry(btl_ib_list_first(list), offsetof(type, member));         \
         NULL != entry; entry = btl_ib_list_entry(btl_ib_list_next(list, &entry->member),          \
                                                  offsetof(type, member)))

/* Takes the first element off and returns it, or NULL if there is none. */
static inline btl_ib_list_t *btl_ib_list_pop(btl_ib_list_t *list)
{
    btl_ib_list_t *element = btl_ib_list_first(list);

    if (element != NULL) {
        btl_ib_list_remove(element);
    }
    return element;
}

/* Makes two members of a ring neighbours: to add or take off several elements in one go. What was
 * between them is the caller's. */
static inline void btl_ib_list_join(btl_ib_list_t *before, btl_ib_list_t *after)
{
    before->next = after;
    after->prev = before;
}

/* The first element, or the first one taken off, as the struct of type `type` whose member `member`
 * is on `list`; NULL if there is none. */
#define BTL_IB_LIST_FIRST(type, list, member)                                                      \
    ((type *) btl_ib_list_entry(btl_ib_list_first(list), offsetof(type, member)))
#define BTL_IB_LIST_POP(type, list, member)                                                        \
    ((type *) btl_ib_list_entry(btl_ib_list_pop(list), offsetof(type, member)))

/* Moves `first` to `last`, neighbours on a list, to the end of `to`, in constant time. */
static inline void btl_ib_list_move_tail(btl_ib_list_t *to, btl_ib_list_t *first,
                                         btl_ib_list_t *last)
{
    first->prev->next = last->next;
    last->next->prev = first->prev;
    first->prev = to->prev;
    to->prev->next = first;
    last->next = to;
    to->prev = last;
}

/* Moves all of `from` behind what is on `to`, in constant time. `from` is empty afterwards. */
static inline void btl_ib_list_splice_tail(btl_ib_list_t *to, btl_ib_list_t *from)
{
    if (!btl_ib_list_empty(from)) {
        from->next->prev = to->prev;
        to->prev->next = from->next;
        from->prev->next = to;
        to->prev = from->prev;
        btl_ib_list_init(from);
    }
}

/* Moves them before what is on `to`: its first element is as good a position as the head is. */
static inline void btl_ib_list_splice_head(btl_ib_list_t *to, btl_ib_list_t *from)
{
    btl_ib_list_splice_tail(to->next, from);
}

/* ---- min ---- */

/* Minimum and maximum as functions: no argument is evaluated twice. */

static inline uint32_t btl_ib_min_u32(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* Returns min(value, most) of a 64-bit value. */
static inline uint32_t btl_ib_clip_u32(uint64_t value, uint32_t most)
{
    return value < most ? (uint32_t) value : most;
}

static inline uint64_t btl_ib_max_u64(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static inline uint32_t btl_ib_max_u32(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

#endif
