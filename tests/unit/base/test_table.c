/* SPDX-License-Identifier: MIT */
/* test_table.c - tables of any size: zeroed, aligned, writable to the end, there at once unless small, gone when freed */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/table.h"
#include "unit.h"

static const size_t sizes[] = { 8, 64, 4096, (128 << 10) - 8, 128 << 10, (128 << 10) + 8, (2 << 20) - 4096, 2 << 20, (2 << 20) + 8, 9 << 20 };

static void test_all_sizes(void **state)
{
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		uint8_t *table = table_alloc(sizes[i]);

		assert_non_null(table);
		assert_int_equal((uintptr_t)table % 64, 0);
		for (size_t k = 0; k < sizes[i]; k++)
			assert_int_equal(table[k], 0);
		memset(table, 0xff, sizes[i]);
		table_free(table, sizes[i]);
	}
	table_free(NULL, 64);
	table_free(NULL, 2 << 20);
}

/* mincore() tells a mapping's resident pages, and ENOMEM where there is none. */
static void test_resident_then_gone(void **state)
{
	static const size_t large[] = { 128 << 10, 1 << 20, 4 << 20 };

	for (size_t i = 0; i < sizeof(large) / sizeof(*large); i++) {
		size_t pages = large[i] / (size_t)sysconf(_SC_PAGESIZE);
		unsigned char there[1024];
		uint8_t *table = table_alloc(large[i]);

		assert_non_null(table);
		assert_true(pages <= sizeof(there));
		assert_int_equal(mincore(table, large[i], there), 0);
		for (size_t k = 0; k < pages; k++)
			assert_true(there[k] & 1);
		table_free(table, large[i]);
		assert_int_equal(mincore(table, large[i], there), -1);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_sizes),
		cmocka_unit_test(test_resident_then_gone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
