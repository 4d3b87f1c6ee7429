"""A disk that fails at its n-th write: a library that stands between a program and its C library.

It counts what a program does to files under a folder: opening one to write, writing, renaming, making folders and
links, and fsync. From the n-th on, or only then, each such call fails with an error of choice. Because it stands
before the C library, it meets numpy, matplotlib and pyarrow as well as Python. A program that is forked shares the
count with its parent; one that is executed has a separate count.
"""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

SOURCE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>
static struct shared { int count, at, error, stays; char under[PATH_MAX]; } *shared;
__attribute__((constructor)) static void begin(void) {
    shared = mmap(0, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    char *under = getenv("FAILING_UNDER");
    if (!under) return;
    strncpy(shared->under, under, PATH_MAX - 1);
    shared->at = atoi(getenv("FAILING_AT")), shared->error = atoi(getenv("FAILING_ERROR"));
    shared->stays = atoi(getenv("FAILING_STAYS"));
}
void failing_writes(const char *under, int at, int error, int stays) {
    shared->count = 0, shared->at = at, shared->error = error, shared->stays = stays;
    strncpy(shared->under, under, PATH_MAX - 1);
}
int failing_writes_count(void) { return shared->count; }
static int fails(const char *path) {
    size_t size = shared ? strlen(shared->under) : 0;
    if (!size || strncmp(path, shared->under, size) || (path[size] && path[size] != '/')) return 0;
    int number = __sync_add_and_fetch(&shared->count, 1);
    if (!shared->at || number < shared->at || (number > shared->at && !shared->stays)) return 0;
    errno = shared->error;
    return 1;
}
static int fails_fd(int fd) {
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, path, sizeof path - 1);
    if (size < 0) return 0;
    path[size] = 0;
    return fails(path);
}
static int fails_at(int folder, const char *name) {
    char path[2 * PATH_MAX], link[64];
    if (name[0] == '/') return fails(name);
    snprintf(link, sizeof link, folder == AT_FDCWD ? "/proc/self/cwd" : "/proc/self/fd/%d", folder);
    ssize_t size = readlink(link, path, PATH_MAX - 1);
    if (size < 0) return 0;
    snprintf(path + size, PATH_MAX, "/%s", name);
    return fails(path);
}
static int writes(int flags) { return (flags & O_ACCMODE) != O_RDONLY || flags & (O_CREAT | O_TRUNC); }
#define REAL(result, name, ...) \
    static result (*real)(__VA_ARGS__); \
    if (!real) real = dlsym(RTLD_NEXT, #name)
#define OPEN(name) \
    int name(const char *path, int flags, ...) { \
        REAL(int, name, const char *, int, ...); \
        va_list more; va_start(more, flags); mode_t mode = va_arg(more, int); va_end(more); \
        return writes(flags) && fails_at(AT_FDCWD, path) ? -1 : real(path, flags, mode); }
#define OPENAT(name) \
    int name(int folder, const char *path, int flags, ...) { \
        REAL(int, name, int, const char *, int, ...); \
        va_list more; va_start(more, flags); mode_t mode = va_arg(more, int); va_end(more); \
        return writes(flags) && fails_at(folder, path) ? -1 : real(folder, path, flags, mode); }
#define FOPEN(name) \
    FILE *name(const char *path, const char *mode) { \
        REAL(FILE *, name, const char *, const char *); \
        return strpbrk(mode, "wa+") && fails_at(AT_FDCWD, path) ? 0 : real(path, mode); }
#define WRITTEN(result, name, parameters, types, arguments) \
    result name parameters { \
        REAL(result, name, types); \
        return fails_fd(fd) ? -1 : real arguments; }
#define TYPES(...) __VA_ARGS__
OPEN(open) OPEN(open64) OPENAT(openat) OPENAT(openat64) FOPEN(fopen) FOPEN(fopen64)
WRITTEN(ssize_t, write, (int fd, const void *what, size_t size), TYPES(int, const void *, size_t), (fd, what, size))
WRITTEN(ssize_t, writev, (int fd, const struct iovec *what, int parts), TYPES(int, const struct iovec *, int), (fd, what, parts))
WRITTEN(ssize_t, pwrite, (int fd, const void *what, size_t size, off_t at), TYPES(int, const void *, size_t, off_t), (fd, what, size, at))
WRITTEN(ssize_t, pwrite64, (int fd, const void *what, size_t size, off64_t at),
        TYPES(int, const void *, size_t, off64_t), (fd, what, size, at))
WRITTEN(ssize_t, sendfile, (int fd, int from, off_t *at, size_t size), TYPES(int, int, off_t *, size_t), (fd, from, at, size))
WRITTEN(ssize_t, sendfile64, (int fd, int from, off64_t *at, size_t size), TYPES(int, int, off64_t *, size_t), (fd, from, at, size))
WRITTEN(int, fsync, (int fd), TYPES(int), (fd))
WRITTEN(int, fdatasync, (int fd), TYPES(int), (fd))
WRITTEN(int, ftruncate, (int fd, off_t size), TYPES(int, off_t), (fd, size))
WRITTEN(int, ftruncate64, (int fd, off64_t size), TYPES(int, off64_t), (fd, size))
int rename(const char *from, const char *to) {
    REAL(int, rename, const char *, const char *);
    return fails_at(AT_FDCWD, to) ? -1 : real(from, to);
}
int renameat(int from_folder, const char *from, int folder, const char *to) {
    REAL(int, renameat, int, const char *, int, const char *);
    return fails_at(folder, to) ? -1 : real(from_folder, from, folder, to);
}
int mkdir(const char *path, mode_t mode) {
    REAL(int, mkdir, const char *, mode_t);
    return fails_at(AT_FDCWD, path) ? -1 : real(path, mode);
}
int mkdirat(int folder, const char *path, mode_t mode) {
    REAL(int, mkdirat, int, const char *, mode_t);
    return fails_at(folder, path) ? -1 : real(folder, path, mode);
}
int link(const char *from, const char *to) {
    REAL(int, link, const char *, const char *);
    return fails_at(AT_FDCWD, to) ? -1 : real(from, to);
}
int symlink(const char *what, const char *to) {
    REAL(int, symlink, const char *, const char *);
    return fails_at(AT_FDCWD, to) ? -1 : real(what, to);
}
"""


def build(folder: Path) -> Path:
    """Compiles the library into `folder`; returns its path, for LD_PRELOAD. Raises CalledProcessError and
    FileNotFoundError."""
    source, library = folder / "failing_writes.c", folder / "failing_writes.so"
    source.write_text(SOURCE)
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-w", "-o", str(library), str(source), "-ldl"], check=True)
    return library


def environment(library: Path, under: Path, at: int, error: int, *, stays: bool) -> dict[str, str]:
    """What a program needs in its environment to fail at the write number `at` under a folder; 0: at none."""
    return {
        "LD_PRELOAD": str(library),
        "FAILING_UNDER": str(under),
        "FAILING_AT": str(at),
        "FAILING_ERROR": str(error),
        "FAILING_STAYS": str(int(stays)),
    }


def fail(under: Path, at: int, error: int, *, stays: bool) -> None:
    """Lets this process, which was begun with the library, and those that it forks fail so, and counts from 0."""
    ctypes.CDLL(None).failing_writes(str(under).encode(), at, error, int(stays))


def count() -> int:
    """How many writes there have been since `fail`, in this process and those that it forked."""
    return int(ctypes.CDLL(None).failing_writes_count())
