/* SPDX-License-Identifier: MIT */
/* features.h - which features of an image we can read and write, and what e2fsprogs calls them */
#ifndef UEXT4_EXT4_FEATURES_H
#define UEXT4_EXT4_FEATURES_H

#include "base/types.h"

enum feature_set { FEATURE_COMPAT, FEATURE_INCOMPAT, FEATURE_RO_COMPAT };

/* Those of @mask that we do not support; 0: none. Compat features never matter. */
uint32_t features_unsupported(enum feature_set set, uint32_t mask);

/**
 * features_to_text() - the names of all features in @mask, comma-separated, as e2fsprogs prints them
 * Unknown ones become FEATURE_I17 and the like. Cut to @text_bytes; always terminated.
 */
void features_to_text(enum feature_set set, uint32_t mask, char *text, size_t text_bytes);

#endif
