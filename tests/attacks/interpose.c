/* Preloaded into the program: ends it, or fills its disk, at a chosen call that changes a file.

   INTERPOSE_AT=N     the call at which it happens; 0 or unset: never
   INTERPOSE_DO       kill: SIGKILL before the call
                      torn: half of a write is made, then SIGKILL (other calls as kill)
                      full: this and every later write, open for writing or sync of a file fails with ENOSPC
   INTERPOSE_COUNT=F  at a regular end the number of calls is written to F

   Calls on standard output and error are not counted. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static atomic_long calls;
static long at;
static const char *action = "";

#define NEXT(type, name, ...) ((type (*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name))

__attribute__((constructor)) static void start(void) {
    const char *number = getenv("INTERPOSE_AT");
    at = number ? atol(number) : 0;
    if (getenv("INTERPOSE_DO")) action = getenv("INTERPOSE_DO");
}

__attribute__((destructor)) static void end(void) {
    const char *path = getenv("INTERPOSE_COUNT");
    FILE *file = path ? fopen(path, "w") : NULL;
    if (file) {
        fprintf(file, "%ld\n", atomic_load(&calls));
        fclose(file);
    }
}

static void die(void) {
    kill(getpid(), SIGKILL);
    for (;;) pause();
}

/* Counts a call; the answer says whether the disk is full for it. */
static int is_full(void) {
    long now = atomic_fetch_add(&calls, 1) + 1;
    if (at && now == at && strcmp(action, "full")) die();
    return at && now >= at && !strcmp(action, "full");
}

/* A write is cut in half where it is to be torn. */
static int is_torn(void) { return at && !strcmp(action, "torn") && atomic_load(&calls) + 1 == at; }

static int no_space(void) {
    errno = ENOSPC;
    return -1;
}

ssize_t write(int fd, const void *bytes, size_t length) {
    ssize_t (*next)(int, const void *, size_t) = NEXT(ssize_t, write, int, const void *, size_t);
    if (fd <= 2) return next(fd, bytes, length);
    if (is_torn()) {
        next(fd, bytes, length / 2);
        die();
    }
    return is_full() ? no_space() : next(fd, bytes, length);
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
    if (fd > 2 && is_full()) return no_space();
    return NEXT(ssize_t, writev, int, const struct iovec *, int)(fd, parts, count);
}

static int opens_for_writing(int flags) { return (flags & O_ACCMODE) != O_RDONLY || flags & O_CREAT; }

#define OPEN(name)                                                                                  \
    int name(const char *path, int flags, ...) {                                                    \
        va_list rest;                                                                               \
        va_start(rest, flags);                                                                      \
        mode_t mode = flags & O_CREAT ? va_arg(rest, mode_t) : 0;                                   \
        va_end(rest);                                                                               \
        if (opens_for_writing(flags) && strncmp(path, "/dev/", 5) && is_full()) return no_space();  \
        return NEXT(int, name, const char *, int, ...)(path, flags, mode);                          \
    }
OPEN(open)
OPEN(open64)

#define CALL(name, parameters, ...)                                                                 \
    int name parameters {                                                                           \
        is_full();                                                                                  \
        return ((int (*) parameters)dlsym(RTLD_NEXT, #name))(__VA_ARGS__);                          \
    }
#define SYNC(name)                                                                                  \
    int name(int fd) { return is_full() ? no_space() : NEXT(int, name, int)(fd); }
CALL(rename, (const char *from, const char *to), from, to)
CALL(link, (const char *from, const char *to), from, to)
CALL(linkat, (int a, const char *from, int b, const char *to, int flags), a, from, b, to, flags)
CALL(unlink, (const char *path), path)
CALL(unlinkat, (int folder, const char *path, int flags), folder, path, flags)
CALL(rmdir, (const char *path), path)
CALL(mkdir, (const char *path, mode_t mode), path, mode)
CALL(ftruncate64, (int fd, off64_t length), fd, length)
CALL(fchmod, (int fd, mode_t mode), fd, mode)
SYNC(fsync)
SYNC(fdatasync)
