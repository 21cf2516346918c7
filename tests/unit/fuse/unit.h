/* SPDX-License-Identifier: MIT */
/* unit.h - cmocka with the headers it wants before it */
#ifndef UEXT4_TESTS_UNIT_FUSE_UNIT_H
#define UEXT4_TESTS_UNIT_FUSE_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
/* cmocka after these */
#include <cmocka.h>

#endif
