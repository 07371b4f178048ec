/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_info_output.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void quoted(const char *text)
{
    putchar('"');
    for (; *text != '\0'; ++text) {
        const unsigned char c = (unsigned char) *text;

        if (c == '"' || c == '\\') {
            printf("\\%c", c);
        } else if (c < ' ' || c > '~') { /* bytes beyond ASCII may be no UTF-8 */
            printf("\\u%04x", c);
        } else {
            putchar(c);
        }
    }
    putchar('"');
}

/* What stands before a value in JSON. */
static void next(btl_ib_info_out_t *out, const char *name)
{
    if (out->any[out->depth]) {
        putchar(',');
    }
    printf("\n%*s", (int) (2 * out->depth + 2), "");
    out->any[out->depth] = true;
    if (name != NULL) {
        char word[64];

        snprintf(word, sizeof(word), "%s", name);
        for (char *c = word; *c != '\0'; ++c) {
            *c = *c == ' ' ? '_' : *c;
        }
        quoted(word);
        fputs(": ", stdout);
    }
}

/* Begin an object or a list, in a list (`name` NULL) or in an object. `prefix` is what lines of
 * text say of it; "": nothing. */
static void begin_level(btl_ib_info_out_t *out, const char *name, char opening, char closing,
                        const char *prefix)
{
    const size_t len = strlen(out->prefix);

    if (out->form == BTL_IB_INFO_JSON) {
        next(out, name);
        putchar(opening);
    }
    ++out->depth;
    out->any[out->depth] = false;
    out->closing[out->depth] = closing;
    out->before[out->depth] = len;
    if (prefix[0] != '\0') {
        snprintf(out->prefix + len, sizeof(out->prefix) - len, "%s ", prefix);
    }
}

void btl_ib_info_list(btl_ib_info_out_t *out, const char *name)
{
    begin_level(out, name, '[', ']', "");
}

void btl_ib_info_object(btl_ib_info_out_t *out, const char *name, const char *prefix)
{
    begin_level(out, name, '{', '}', prefix);
}

void btl_ib_info_close(btl_ib_info_out_t *out)
{
    const bool any = out->any[out->depth];
    const char closing = out->closing[out->depth];

    out->prefix[out->before[out->depth]] = '\0';
    --out->depth;
    if (out->form == BTL_IB_INFO_JSON) {
        if (any) {
            printf("\n%*s", (int) (2 * out->depth + 2), "");
        }
        putchar(closing);
    }
}

void btl_ib_info_begin(btl_ib_info_out_t *out, btl_ib_info_form_t form)
{
    *out = (btl_ib_info_out_t){.form = form};
    if (form == BTL_IB_INFO_JSON) {
        putchar('{');
    }
}

void btl_ib_info_end(const btl_ib_info_out_t *out)
{
    if (out->form == BTL_IB_INFO_JSON) {
        fputs("\n}\n", stdout);
    }
}

/* A fact of lines and tables. Those within two levels belong to a block, whose heading has the
 * names of what is around them. */
static void line(const btl_ib_info_out_t *out, const char *name, const char *value)
{
    if (out->form == BTL_IB_INFO_LINES) {
        printf("%s%s: %s\n", out->prefix, name, value);
    } else if (out->depth < 2) {
        const int width = 22 - (int) strlen(out->prefix);

        printf("%s%-*s%s\n", out->prefix, width > 0 ? width : 0, name, value);
    } else {
        printf("  %-11s%s\n", name, value);
    }
}

void btl_ib_info_json_text(btl_ib_info_out_t *out, const char *name, const char *value)
{
    if (out->form == BTL_IB_INFO_JSON) {
        next(out, name);
        quoted(value);
    }
}

void btl_ib_info_text(btl_ib_info_out_t *out, const char *name, const char *value)
{
    if (out->form == BTL_IB_INFO_JSON) {
        btl_ib_info_json_text(out, name, value);
    } else {
        line(out, name, value);
    }
}

void btl_ib_info_bool(btl_ib_info_out_t *out, const char *name, bool value)
{
    if (out->form == BTL_IB_INFO_JSON) {
        next(out, name);
        fputs(value ? "true" : "false", stdout);
    } else {
        line(out, name, value ? "yes" : "no");
    }
}

void btl_ib_info_number(btl_ib_info_out_t *out, const char *name, uint64_t value, const char *unit)
{
    if (out->form == BTL_IB_INFO_JSON) {
        next(out, name);
        printf("%" PRIu64, value);
    } else {
        char text[64];

        snprintf(text, sizeof(text), "%" PRIu64 "%s%s", value, unit[0] != '\0' ? " " : "", unit);
        line(out, name, text);
    }
}

void btl_ib_info_unknown(btl_ib_info_out_t *out, const char *name)
{
    if (out->form == BTL_IB_INFO_JSON) {
        next(out, name);
        fputs("null", stdout);
    } else if (out->form == BTL_IB_INFO_LINES) {
        line(out, name, "unknown");
    }
}

void btl_ib_info_heading(btl_ib_info_out_t *out, const char *text, bool has_facts)
{
    if (out->form == BTL_IB_INFO_TABLES) {
        printf("%s%s\n", has_facts || out->after_facts ? "\n" : "", text);
        out->after_facts = has_facts;
    }
}
