/* SPDX-License-Identifier: MIT */
/* mount_cmd.c - `uext4 mount`: opens the image, mounts it, goes to the background once the mount answers */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <syslog.h>
#include <unistd.h>

#include "fuse/fuse_server.h"
#include "fuse/loop.h"

/* After a signal: how long processes that still use the mount may go on before the connection is cut. */
#define STOP_GRACE_SECONDS 5

static const char usage[] =
	"usage: uext4 mount [-f] [-o OPTIONS] IMAGE MOUNTPOINT\n"
	"\n"
	"Mounts the ext2, ext3 or ext4 image or device IMAGE on MOUNTPOINT with its journal.\n"
	"Returns once the mount answers; unmount with `uext4 umount MOUNTPOINT`.\n"
	"\n"
	"  -f           stay in the foreground, messages on standard error\n"
	"  -o OPTIONS   comma-separated mount options; uext4-mount(8) says more of each:\n"
	"     the image:   partition=N, offset=BYTES, sb=N, journal_path=PATH, ro, rw, noload, norecovery,\n"
	"                  replay=memory\n"
	"     safety:      data=ordered|journal|writeback, data_err=ignore|abort, barrier=0|1, nobarrier,\n"
	"                  errors=continue|remount-ro|panic, commit=SECONDS,\n"
	"                  max_batch_time=MICROSECONDS, journal_async_commit\n"
	"     space:       cache_size=BYTES[K|M|G|T], discard, nodiscard, delalloc, nodelalloc, resuid=N, resgid=N\n"
	"     files:       noatime, nodiratime, relatime, strictatime, acl, noacl, user_xattr, nouser_xattr,\n"
	"                  grpid, nogrpid\n"
	"     FUSE:        allow_other, allow_root, auto_unmount, suid, nosuid, dev, nodev, exec, noexec,\n"
	"                  sync, async, dirsync\n"
	"     the server:  writeback_cache, no_writeback_cache, max_threads=N (1 to 256; 8),\n"
	"                  spin_us=N (how long it looks for the next request before it sleeps; 50),\n"
	"                  follow_caller, no_follow_caller (stay off the processor of a program that works\n"
	"                  steadily), io_uring (with libfuse 3.18)\n"
	"  --help       this text\n";

struct mount_args {
	const char *image, *mountpoint;
	char image_path[PATH_MAX], mountpoint_path[PATH_MAX];
	struct server_options options;
};

static int fail(const char *what, const char *why)
{
	fprintf(stderr, "uext4: mount: %s: %s\n", what, why);
	return 1;
}

/* 0: go on; else 1 + the exit code. */
static int parse(int argc, char **argv, struct mount_args *args)
{
	static const struct option long_options[] = { { "help", no_argument, NULL, 'h' },
						      { "options", required_argument, NULL, 'o' },
						      { "foreground", no_argument, NULL, 'f' },
						      { NULL, 0, NULL, 0 } };
	int c;

	if (server_options_init(&args->options))
		return 1 + fail("options", strerror(ENOMEM));
	optind = 1;
	while ((c = getopt_long(argc, argv, "fho:", long_options, NULL)) != -1) {
		if (c == 'h') {
			fputs(usage, stdout);
			return 1 + 0;
		}
		if (c == '?')
			return 1 + 2;
		if (c == 'f')
			args->options.foreground = true;
		else if (server_options_add(&args->options, optarg))
			return 1 + 1;
	}
	if (argc - optind != 2) {
		fputs(usage, stderr);
		return 1 + 2;
	}
	args->image = argv[optind];
	args->mountpoint = argv[optind + 1];
	return 0;
}

static int check_paths(struct mount_args *args)
{
	struct stat st;

	if (!realpath(args->image, args->image_path))
		return fail(args->image, strerror(errno));
	if (!realpath(args->mountpoint, args->mountpoint_path) || stat(args->mountpoint_path, &st))
		return fail(args->mountpoint, strerror(errno));
	if (!S_ISDIR(st.st_mode))
		return fail(args->mountpoint, strerror(ENOTDIR));
#if FUSE_VERSION < 318
	if (args->options.io_uring)
		return fail("option 'io_uring'", "needs libfuse 3.18 or later at build time");
#endif
	return 0;
}

/* ---- messages ---- */

static _Atomic bool in_background;

static void log_message(void *arg, int level, const char *text)
{
	struct server *server = arg;

	if (level <= LOG_ERR)
		server->error_logged = true;
	if (in_background)
		syslog(LOG_DAEMON | level, "%s", text);
	else if (server->options.foreground || level <= LOG_WARNING)
		fprintf(stderr, "uext4: %s\n", text);
}

/* ---- signals: an orderly unmount ---- */

struct stopper {
	struct server *server;
	struct loop *loop;
	const char *mountpoint;
	pthread_mutex_t lock;
	pthread_cond_t done_cond;
	bool done;              /* [lock] the loop has ended */
};

static void block_signals(sigset_t *set)
{
	sigemptyset(set);
	sigaddset(set, SIGTERM);
	sigaddset(set, SIGINT);
	sigaddset(set, SIGHUP);
	sigaddset(set, SIGUSR2); /* ends the thread below */
	pthread_sigmask(SIG_BLOCK, set, NULL);
	signal(SIGPIPE, SIG_IGN);
}

/* Brings what the kernel still holds dirty to us, while the loop serves. */
static void sync_mount(const char *mountpoint)
{
	int fd = open(mountpoint, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return;
	(void)!syncfs(fd); /* errors reach the writers' own fsync and the close of the image */
	close(fd);
}

static void *stop_on_signal(void *arg)
{
	struct stopper *s = arg;
	struct timespec until;
	sigset_t set;
	int sig;

	block_signals(&set);
	if (sigwait(&set, &sig) || sig == SIGUSR2)
		return NULL;
	sync_mount(s->mountpoint);
	fuse_session_unmount(s->server->session);
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += STOP_GRACE_SECONDS;
	pthread_mutex_lock(&s->lock);
	while (!s->done && !pthread_cond_timedwait(&s->done_cond, &s->lock, &until))
		;
	pthread_mutex_unlock(&s->lock);
	pages_stop(s->server->pages); /* it may wait for a page that only the loop can have written */
	loop_stop(s->loop);
	return NULL;
}

static int serve_until_unmounted(struct server *server, const char *mountpoint)
{
	struct stopper s = { .server = server, .mountpoint = mountpoint };
	pthread_t thread;
	int err;

	server->pages = pages_start(server->session);
	s.loop = loop_create(server);
	if (!s.loop || !server->pages) {
		err = -ENOMEM;
		goto free;
	}
	pthread_mutex_init(&s.lock, NULL);
	pthread_cond_init(&s.done_cond, NULL);
	err = -pthread_create(&thread, NULL, stop_on_signal, &s);
	if (!err) {
		err = loop_run(s.loop);
		pthread_mutex_lock(&s.lock);
		s.done = true;
		pthread_cond_signal(&s.done_cond);
		pthread_mutex_unlock(&s.lock);
		pthread_kill(thread, SIGUSR2);
		pthread_join(thread, NULL);
	}
	pthread_cond_destroy(&s.done_cond);
	pthread_mutex_destroy(&s.lock);
free:
	if (server->pages)
		pages_free(server->pages);
	if (s.loop)
		loop_destroy(s.loop);
	return err;
}

/* ---- the server process ---- */

static int open_image(struct server *server, struct mount_args *args)
{
	struct uext4_options options = {
		.struct_bytes = sizeof(options), .mount_options = args->options.fs_options,
		.log = log_message, .log_arg = server,
	};
	int err = uext4_open_fs(args->image_path, &options, &server->fs);

	if (err)
		return server->error_logged ? 1 : fail(args->image, strerror(-err));
	if (uext4_is_read_only(server->fs))
		server->options.read_only = true;
	return 0;
}

static void leave_terminal(void)
{
	int null = open("/dev/null", O_RDWR);

	if (null < 0)
		return;
	dup2(null, 0);
	dup2(null, 1);
	dup2(null, 2);
	if (null > 2)
		close(null);
}

/* The mount answers: it is tuned, messages go to syslog from here on, the terminal is let go, and the parent process may return. */
static void mount_is_ready(struct server *server)
{
	struct mount_info info;
	char ok = 0;

	if (!mount_find(server->mountpoint, &info))
		mount_raise_readahead(&info);
	if (server->ready_fd < 0)
		return;
	openlog("uext4", LOG_PID, LOG_DAEMON);
	in_background = true;
	leave_terminal();
	(void)!write(server->ready_fd, &ok, 1); /* a parent that was killed does not stop the server */
	close(server->ready_fd);
	server->ready_fd = -1;
}

static int run_server(struct mount_args *args, int ready_fd)
{
	struct server server = { .options = args->options, .on_ready = mount_is_ready, .ready_fd = ready_fd,
				 .mountpoint = args->mountpoint_path, .device_fd = -1, .wait_fd = -1 };
	sigset_t set;
	int err, close_err;

	block_signals(&set);
	umask(0);
	if (open_image(&server, args))
		return 1;
	err = wait_socket_open(&server);
	if (err)
		log_message(&server, LOG_WARNING, "no socket for `uext4 umount` to wait on");
	if (session_create(&server, args->image_path, args->mountpoint_path)) {
		wait_socket_tell(&server, -EIO);
		uext4_close_fs(server.fs);
		return 1;
	}
	err = chdir("/") ? -errno : serve_until_unmounted(&server, args->mountpoint_path);
	session_destroy(&server);
	close_err = uext4_close_fs(server.fs);
	wait_socket_tell(&server, close_err ? close_err : err);
	if (close_err)
		log_message(&server, LOG_ERR, "the image was not closed cleanly; run e2fsck");
	return err || close_err ? 1 : 0;
}

/* The child serves; it was forked before the library started threads. */
static int wait_for_child(pid_t child, int fd, const char *mountpoint)
{
	struct stat st;
	char ok;
	ssize_t got;
	int status;

	do
		got = read(fd, &ok, 1);
	while (got < 0 && errno == EINTR);
	if (got == 1)
		return stat(mountpoint, &st) ? fail(mountpoint, strerror(errno)) : 0;
	if (waitpid(child, &status, 0) < 0 || !WIFEXITED(status))
		return fail(mountpoint, "the server died");
	return WEXITSTATUS(status) ? WEXITSTATUS(status) : 1;
}

static int run_in_background(struct mount_args *args)
{
	int to_parent[2];
	pid_t child;

	if (pipe2(to_parent, O_CLOEXEC))
		return fail(args->mountpoint, strerror(errno));
	child = fork();
	if (child < 0)
		return fail(args->mountpoint, strerror(errno));
	if (child > 0) {
		close(to_parent[1]);
		return wait_for_child(child, to_parent[0], args->mountpoint_path);
	}
	close(to_parent[0]);
	setsid();
	return run_server(args, to_parent[1]);
}

int fuse_main_mount(int argc, char **argv)
{
	struct mount_args args = { 0 };
	int code = parse(argc, argv, &args);

	if (code)
		code -= 1;
	else
		code = check_paths(&args);
	if (!code && args.image_path[0])
		code = args.options.foreground ? run_server(&args, -1) : run_in_background(&args);
	server_options_exit(&args.options);
	return code;
}
