/* SPDX-License-Identifier: MIT */
/* test_checksum.c - known values of the checksums, and that pieces chain */
#include "base/checksum.h"
#include "unit.h"

static const char check[] = "123456789";

static void crc32c_of_the_check_string_is_uninverted(void **state)
{
	assert_int_equal(crc32c(~0u, check, 9), ~0xE3069283u);
}

static void crc32c_of_32_zero_bytes_matches_rfc3720(void **state)
{
	static const uint8_t zeros[32];

	assert_int_equal(crc32c(~0u, zeros, sizeof(zeros)), ~0x8A9136AAu);
}

static void crc32c_of_nothing_is_the_seed(void **state)
{
	assert_int_equal(crc32c(0x12345678, check, 0), 0x12345678);
}

static void crc32c_of_pieces_equals_crc32c_of_the_whole(void **state)
{
	uint8_t data[257];

	for (unsigned i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i * 37);
	for (unsigned cut = 0; cut <= sizeof(data); cut++) {
		uint32_t head = crc32c(~0u, data, cut);

		assert_int_equal(crc32c(head, data + cut, sizeof(data) - cut), crc32c(~0u, data, sizeof(data)));
	}
}

static void crc16_of_the_check_string(void **state)
{
	assert_int_equal(crc16(0, check, 9), 0xBB3D);
	assert_int_equal(crc16(0xFFFF, check, 9), 0x4B37);
}

static void crc32_be_of_the_check_string_is_uninverted(void **state)
{
	assert_int_equal(crc32_be(~0u, check, 9), 0x0376E6E7);
}

static void crc32_be_of_pieces_equals_crc32_be_of_the_whole(void **state)
{
	assert_int_equal(crc32_be(crc32_be(~0u, check, 4), check + 4, 5), crc32_be(~0u, check, 9));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(crc32c_of_the_check_string_is_uninverted),
		cmocka_unit_test(crc32c_of_32_zero_bytes_matches_rfc3720),
		cmocka_unit_test(crc32c_of_nothing_is_the_seed),
		cmocka_unit_test(crc32c_of_pieces_equals_crc32c_of_the_whole),
		cmocka_unit_test(crc16_of_the_check_string),
		cmocka_unit_test(crc32_be_of_the_check_string_is_uninverted),
		cmocka_unit_test(crc32_be_of_pieces_equals_crc32_be_of_the_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
