/* SPDX-License-Identifier: MIT */
/* fuse_server.h - entry points of the FUSE server for the `uext4` command */
#ifndef UEXT4_FUSE_FUSE_SERVER_H
#define UEXT4_FUSE_FUSE_SERVER_H

/*
 * Each takes the words after `uext4 mount` (umount, stats) with argv[0] what getopt's messages begin with, prints messages
 * on stderr, and returns the exit code: 0, 1 (failure), 2 (usage).
 */
int fuse_main_mount(int argc, char **argv);
int fuse_main_umount(int argc, char **argv);
int fuse_main_stats(int argc, char **argv);

#endif
