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
    if (out->depth > 0) {
        printf("%s\n%*s", out->empty ? "" : ",", (int) (2 * out->depth), "");
    }
    out->empty = false;
    if (name != NULL) {
        putchar('"');
        for (const char *c = name; *c != '\0'; ++c) {
            putchar(*c == ' ' ? '_' : *c);
        }
        fputs("\": ", stdout);
    }
}

void btl_ib_info_open(btl_ib_info_out_t *out, const char *name, char opening, const char *prefix)
{
    const size_t len = strlen(out->prefix);

    if (out->form == BTL_IB_INFO_JSON) {
        next(out, name);
        putchar(opening);
    }
    out->empty = true;
    out->closing[out->depth] = opening == '{' ? '}' : ']';
    out->before[out->depth++] = len;
    if (prefix[0] != '\0') {
        snprintf(out->prefix + len, sizeof(out->prefix) - len, "%s ", prefix);
    }
}

void btl_ib_info_begin(btl_ib_info_out_t *out, btl_ib_info_form_t form)
{
    *out = (btl_ib_info_out_t){.form = form};
    btl_ib_info_open(out, NULL, '{', "");
}

void btl_ib_info_close(btl_ib_info_out_t *out)
{
    out->prefix[out->before[--out->depth]] = '\0';
    if (out->form == BTL_IB_INFO_JSON) {
        if (!out->empty || out->depth == 0) {
            printf("\n%*s", (int) (2 * out->depth), "");
        }
        printf("%c%s", out->closing[out->depth], out->depth == 0 ? "\n" : "");
    }
    out->empty = false;
}

/* Print a fact. `json` stands in JSON as it is; NULL: the text, as a string. Text of NULL is not
 * known: tables leave it out. There facts within two levels belong to a block, whose heading has
 * the names of what is around them. */
static void fact(btl_ib_info_out_t *out, const char *name, const char *json, const char *text)
{
    const int width = 22 - (int) strlen(out->prefix);

    if (out->form == BTL_IB_INFO_JSON) {
        next(out, name);
        if (json == NULL) {
            quoted(text);
        } else {
            fputs(json, stdout);
        }
    } else if (out->form == BTL_IB_INFO_LINES) {
        printf("%s%s: %s\n", out->prefix, name, text != NULL ? text : "unknown");
    } else if (text != NULL && out->depth < 3) {
        printf("%s%-*s%s\n", out->prefix, width > 0 ? width : 0, name, text);
    } else if (text != NULL) {
        printf("  %-11s%s\n", name, text);
    }
}

void btl_ib_info_json_text(btl_ib_info_out_t *out, const char *name, const char *value)
{
    if (out->form == BTL_IB_INFO_JSON) {
        fact(out, name, NULL, value);
    }
}

void btl_ib_info_text(btl_ib_info_out_t *out, const char *name, const char *value)
{
    const bool known = value[0] != '\0';

    fact(out, name, known ? NULL : "null", known ? value : NULL);
}

void btl_ib_info_bool(btl_ib_info_out_t *out, const char *name, bool value)
{
    fact(out, name, value ? "true" : "false", value ? "yes" : "no");
}

void btl_ib_info_number(btl_ib_info_out_t *out, const char *name, uint64_t value, const char *unit)
{
    char json[24], text[64];

    snprintf(json, sizeof(json), "%" PRIu64, value);
    snprintf(text, sizeof(text), "%s%s%s", json, unit[0] != '\0' ? " " : "", unit);
    fact(out, name, json, text);
}

void btl_ib_info_heading(btl_ib_info_out_t *out, const char *text, bool has_facts)
{
    if (out->form == BTL_IB_INFO_TABLES) {
        printf("%s%s\n", has_facts || out->after_facts ? "\n" : "", text);
        out->after_facts = has_facts;
    }
}
