/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_info_out.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- output ---- */

static void quoted(const btl_ib_info_out_t *out, const char *text)
{
    fputc('"', out->to);
    for (; *text != '\0'; ++text) {
        const unsigned char c = (unsigned char) *text;

        if (c == '"' || c == '\\') {
            fprintf(out->to, "\\%c", c);
        } else if (c < ' ' || c > '~') { /* bytes beyond ASCII may be no UTF-8 */
            fprintf(out->to, "\\u%04x", c);
        } else {
            fputc(c, out->to);
        }
    }
    fputc('"', out->to);
}

/* What stands before a value in JSON. */
static void next(btl_ib_info_out_t *out, const char *name)
{
    if (out->any[out->depth]) {
        fputc(',', out->to);
    }
    fprintf(out->to, "\n%*s", (int) (2 * out->depth + 2), "");
    out->any[out->depth] = true;
    if (name != NULL) {
        char word[64];

        snprintf(word, sizeof(word), "%s", name);
        for (char *c = word; *c != '\0'; ++c) {
            *c = *c == ' ' ? '_' : *c;
        }
        quoted(out, word);
        fputs(": ", out->to);
    }
}

static void open_level(btl_ib_info_out_t *out, const char *name, char bracket, const char *prefix)
{
    const size_t len = strlen(out->prefix);

    if (out->json) {
        next(out, name);
        fputc(bracket, out->to);
    }
    ++out->depth;
    out->any[out->depth] = false;
    out->before[out->depth] = len;
    if (prefix[0] != '\0') {
        snprintf(out->prefix + len, sizeof(out->prefix) - len, "%s ", prefix);
    }
}

static void close_level(btl_ib_info_out_t *out, char bracket)
{
    const bool any = out->any[out->depth];

    out->prefix[out->before[out->depth]] = '\0';
    --out->depth;
    if (out->json) {
        if (any) {
            fprintf(out->to, "\n%*s", (int) (2 * out->depth + 2), "");
        }
        fputc(bracket, out->to);
    }
}

void btl_ib_info_begin(btl_ib_info_out_t *out, FILE *to, bool json)
{
    memset(out, 0, sizeof(*out));
    out->to = to;
    out->json = json;
    if (json) {
        fputc('{', to);
    }
}

void btl_ib_info_end(btl_ib_info_out_t *out)
{
    if (out->json) {
        fputs("\n}\n", out->to);
    }
}

void btl_ib_info_list(btl_ib_info_out_t *out, const char *name)
{
    open_level(out, name, '[', "");
}

void btl_ib_info_list_end(btl_ib_info_out_t *out)
{
    close_level(out, ']');
}

void btl_ib_info_object(btl_ib_info_out_t *out, const char *name, const char *prefix)
{
    open_level(out, name, '{', prefix);
}

void btl_ib_info_object_end(btl_ib_info_out_t *out)
{
    close_level(out, '}');
}

void btl_ib_info_text(btl_ib_info_out_t *out, const char *name, const char *value)
{
    if (out->json) {
        btl_ib_info_json_text(out, name, value);
    } else {
        fprintf(out->to, "%s%s: %s\n", out->prefix, name, value);
    }
}

void btl_ib_info_bool(btl_ib_info_out_t *out, const char *name, bool value)
{
    if (out->json) {
        next(out, name);
        fputs(value ? "true" : "false", out->to);
    } else {
        fprintf(out->to, "%s%s: %s\n", out->prefix, name, value ? "yes" : "no");
    }
}

void btl_ib_info_number(btl_ib_info_out_t *out, const char *name, uint64_t value, const char *unit)
{
    if (out->json) {
        next(out, name);
        fprintf(out->to, "%" PRIu64, value);
    } else {
        fprintf(out->to, "%s%s: %" PRIu64 "%s%s\n", out->prefix, name, value,
                unit[0] != '\0' ? " " : "", unit);
    }
}

void btl_ib_info_unknown(btl_ib_info_out_t *out, const char *name)
{
    if (out->json) {
        next(out, name);
        fputs("null", out->to);
    } else {
        fprintf(out->to, "%s%s: unknown\n", out->prefix, name);
    }
}

void btl_ib_info_item(btl_ib_info_out_t *out, const char *value)
{
    btl_ib_info_json_text(out, NULL, value);
}

void btl_ib_info_json_text(btl_ib_info_out_t *out, const char *name, const char *value)
{
    if (out->json) {
        next(out, name);
        quoted(out, value);
    }
}
