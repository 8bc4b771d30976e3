/* What stands between a program and its files, loaded with LD_PRELOAD: it counts the system calls below one directory,
 * lets the n-th of a kind fail or be the last, and records what was written, named and synced. It can put the clock
 * forward and back.
 *
 * Nothing happens before `faults_arm` was given a control file (layout: struct control, see machine.py). One lock is
 * held over each call and its record, so the record is in the order of the calls.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

enum { WRITE, READ, OPEN, LOCK, KINDS };
enum { COUNT, FAIL_ONCE, FAIL_ON, KILL };

struct control {
    uint64_t counts[KINDS];
    uint64_t at;   /* which call, counted from 1 */
    uint32_t kind; /* of which kind */
    uint32_t mode;
    uint32_t code; /* errno */
    uint32_t trace;
    uint64_t hits;
    int64_t ahead_s; /* of the machine's clock */
    char root[1024];
    char record[1024];
};

static struct control *control;
static int record = -1;
static pthread_mutex_t mutex = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

#define REAL(name) static __typeof__(&name) real_##name; if (!real_##name) real_##name = dlsym(RTLD_NEXT, #name)
#define LOCKED(call) ({ pthread_mutex_lock(&mutex); __typeof__(call) got_ = (call); int kept_ = errno; \
                        pthread_mutex_unlock(&mutex); errno = kept_; got_; })

static int filtered(void);

int faults_arm(const char *path) {
    int handle = open(path, O_RDWR);
    if (handle < 0) return -1;
    struct control *found = mmap(NULL, sizeof *found, PROT_READ | PROT_WRITE, MAP_SHARED, handle, 0);
    close(handle);
    if (found == MAP_FAILED) return -1;
    if (found->trace) record = open(found->record, O_WRONLY | O_CREAT | O_APPEND, 0644);
    control = found;
    return filtered();
}

/* Lance renames with system calls of its own, past the C library: a filter turns those into a signal, and its handler
 * makes the call as `renameat2` below does. Our own calls carry a mark in the argument that the call does not have. */
#define MARK 0x6d6d6c61
#define ARG_OF_FILTER(number) (offsetof(struct seccomp_data, args) + 8 * (number))

static int renamed(int from_at, const char *from, int to_at, const char *to, unsigned flags) {
    return syscall(SYS_renameat2, from_at, from, to_at, to, flags, MARK);
}

static void on_call(int signal, siginfo_t *info, void *context) {
    (void)signal;
    ucontext_t *at = context;
    int kept = errno;
#if defined(__x86_64__)
    greg_t *r = at->uc_mcontext.gregs;
    uint64_t a = r[REG_RDI], b = r[REG_RSI], c = r[REG_RDX], d = r[REG_R10], e = r[REG_R8];
    if (info->si_syscall == SYS_rename) r[REG_RAX] = rename((char *)a, (char *)b) ? -errno : 0;
    else
#define RESULT r[REG_RAX]
#elif defined(__aarch64__)
    unsigned long long *r = at->uc_mcontext.regs;
    uint64_t a = r[0], b = r[1], c = r[2], d = r[3], e = r[4];
#define RESULT r[0]
#endif
    RESULT = renameat2(a, (char *)b, c, (char *)d, info->si_syscall == SYS_renameat2 ? e : 0) ? -errno : 0;
    errno = kept;
}

static int filtered(void) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_renameat2, 3, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_renameat, 2, 0),
#ifdef SYS_rename
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rename, 1, 0),
#else
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
#endif
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, ARG_OF_FILTER(5)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, MARK, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    struct sigaction action = {.sa_sigaction = on_call, .sa_flags = SA_SIGINFO | SA_NODEFER};
    if (sigaction(SIGSYS, &action, NULL) || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return -1;
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0);
}

static int below(const char *path) {
    size_t length = strlen(control->root);
    return strncmp(path, control->root, length) == 0 && (path[length] == '/' || path[length] == 0);
}

static const char *path_of(int handle, char *into) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", handle);
    ssize_t size = readlink(link, into, PATH_MAX - 1);
    if (size < 0) return NULL;
    into[size] = 0;
    return into[0] == '/' ? into : NULL;
}

/* The absolute path of a name; NULL where it is none of ours. */
static const char *place(int directory, const char *name, char *into) {
    if (!control || !name) return NULL;
    if (name[0] == '/') {
        snprintf(into, PATH_MAX, "%s", name);
    } else if (directory == AT_FDCWD) {
        if (!getcwd(into, PATH_MAX - strlen(name) - 2)) return NULL;
        strcat(strcat(into, "/"), name);
    } else {
        if (!path_of(directory, into)) return NULL;
        strcat(strcat(into, "/"), name);
    }
    return below(into) ? into : NULL;
}

static const char *ours(int handle, char *into) {
    if (!control || handle < 0) return NULL;
    return path_of(handle, into) && below(into) ? into : NULL;
}

/* Whether the call is to fail; errno is set then. */
static int fails(int kind) {
    uint64_t number = __atomic_add_fetch(&control->counts[kind], 1, __ATOMIC_SEQ_CST);
    if (control->mode == COUNT || control->kind != (uint32_t)kind) return 0;
    if (control->mode == FAIL_ON ? number < control->at : number != control->at) return 0;
    __atomic_add_fetch(&control->hits, 1, __ATOMIC_SEQ_CST);
    if (control->mode == KILL) {
        kill(getpid(), SIGKILL);
        for (;;) pause();
    }
    errno = control->code;
    return 1;
}

static void put(char what, uint64_t inode, uint64_t at, const char *first, const char *second, const void *data,
                size_t size) {
    if (record < 0) return;
    int kept = errno;
    REAL(writev);
    char head[2 * PATH_MAX + 128];
    int length = snprintf(head, sizeof head, "%c %llu %llu %zu %zu %zu\n%s%s", what, (unsigned long long)inode,
                          (unsigned long long)at, strlen(first), strlen(second), size, first, second);
    struct iovec parts[2] = {{head, length}, {(void *)data, size}};
    if (real_writev(record, parts, 2) != (ssize_t)(length + size)) abort();
    errno = kept;
}

static uint64_t inode_of(int handle) {
    struct stat facts;
    return fstat(handle, &facts) == 0 ? facts.st_ino : 0;
}

static uint64_t position(int handle) {
    struct stat facts;
    if (fcntl(handle, F_GETFL) & O_APPEND) return fstat(handle, &facts) == 0 ? (uint64_t)facts.st_size : 0;
    off_t at = lseek(handle, 0, SEEK_CUR);
    return at < 0 ? 0 : (uint64_t)at;
}

/* --- opening */

static int opened(int directory, const char *name, int flags, mode_t mode) {
    REAL(openat);
    char path[PATH_MAX];
    if (!place(directory, name, path)) return real_openat(directory, name, flags, mode);
    struct stat facts;
    pthread_mutex_lock(&mutex);
    int changes = (flags & (O_WRONLY | O_RDWR | O_CREAT | O_TRUNC)) != 0, handle = -1;
    int is_new = (flags & O_CREAT) && fstatat(directory, name, &facts, AT_SYMLINK_NOFOLLOW) != 0;
    if (!fails(OPEN) && !((is_new || (changes && control->code == EROFS)) && fails(WRITE)))
        handle = real_openat(directory, name, flags, mode);
    if (handle >= 0) {
        if (is_new) put('c', inode_of(handle), 0, path, "", "", 0);
        else if (flags & O_TRUNC) put('t', inode_of(handle), 0, path, "", "", 0);
    }
    int kept = errno;
    pthread_mutex_unlock(&mutex);
    errno = kept;
    return handle;
}

#define MODE ({ mode_t mode_ = 0; if (flags & (O_CREAT | O_TMPFILE)) { va_list rest; va_start(rest, flags); \
                mode_ = va_arg(rest, mode_t); va_end(rest); } mode_; })
int open(const char *name, int flags, ...) { return opened(AT_FDCWD, name, flags, MODE); }
int open64(const char *name, int flags, ...) { return opened(AT_FDCWD, name, flags | O_LARGEFILE, MODE); }
int openat(int at, const char *name, int flags, ...) { return opened(at, name, flags, MODE); }
int openat64(int at, const char *name, int flags, ...) { return opened(at, name, flags | O_LARGEFILE, MODE); }
int creat(const char *name, mode_t mode) { return opened(AT_FDCWD, name, O_CREAT | O_WRONLY | O_TRUNC, mode); }
int creat64(const char *name, mode_t mode) { return opened(AT_FDCWD, name, O_CREAT | O_WRONLY | O_TRUNC, mode); }

/* --- bytes */

#define WRITES(handle, plain, at, data) \
    char path[PATH_MAX]; \
    if (!ours(handle, path)) return plain; \
    pthread_mutex_lock(&mutex); \
    uint64_t offset = at; \
    ssize_t got = fails(WRITE) ? -1 : plain; \
    if (got > 0) put('w', inode_of(handle), offset, path, "", data, got); \
    int kept = errno; \
    pthread_mutex_unlock(&mutex); \
    errno = kept; \
    return got

static const void *joined(const struct iovec *parts, int count) {
    static __thread char *room;
    static __thread size_t held;
    size_t size = 0;
    for (int i = 0; i < count; i++) size += parts[i].iov_len;
    if (size > held) room = realloc(room, held = size);
    size = 0;
    for (int i = 0; i < count; i++) {
        memcpy(room + size, parts[i].iov_base, parts[i].iov_len);
        size += parts[i].iov_len;
    }
    return room;
}

ssize_t write(int handle, const void *data, size_t size) {
    REAL(write);
    WRITES(handle, real_write(handle, data, size), position(handle), data);
}
ssize_t pwrite(int handle, const void *data, size_t size, off_t at) {
    REAL(pwrite);
    WRITES(handle, real_pwrite(handle, data, size, at), at, data);
}
ssize_t pwrite64(int handle, const void *data, size_t size, off64_t at) {
    REAL(pwrite64);
    WRITES(handle, real_pwrite64(handle, data, size, at), at, data);
}
ssize_t writev(int handle, const struct iovec *parts, int count) {
    REAL(writev);
    WRITES(handle, real_writev(handle, parts, count), position(handle), joined(parts, count));
}
ssize_t pwritev(int handle, const struct iovec *parts, int count, off_t at) {
    REAL(pwritev);
    WRITES(handle, real_pwritev(handle, parts, count, at), at, joined(parts, count));
}

/* Copies inside the kernel: refused, as by a file system that has none, so that the program writes the bytes. */
ssize_t copy_file_range(int from, off64_t *from_at, int to, off64_t *to_at, size_t size, unsigned flags) {
    REAL(copy_file_range);
    char path[PATH_MAX];
    if (ours(to, path)) return errno = EXDEV, -1;
    return real_copy_file_range(from, from_at, to, to_at, size, flags);
}
ssize_t sendfile(int to, int from, off_t *at, size_t size) {
    static ssize_t (*real)(int, int, off_t *, size_t);
    if (!real) real = dlsym(RTLD_NEXT, "sendfile");
    char path[PATH_MAX];
    if (ours(to, path)) return errno = EINVAL, -1;
    return real(to, from, at, size);
}
ssize_t sendfile64(int to, int from, off64_t *at, size_t size) { return sendfile(to, from, at, size); }

static int resized(int handle, uint64_t size, int (*real)(int, off64_t)) {
    char path[PATH_MAX];
    if (!ours(handle, path)) return real(handle, size);
    pthread_mutex_lock(&mutex);
    int got = fails(WRITE) ? -1 : real(handle, size);
    if (got == 0) put('t', inode_of(handle), size, path, "", "", 0);
    int kept = errno;
    pthread_mutex_unlock(&mutex);
    errno = kept;
    return got;
}
int ftruncate64(int handle, off64_t size) { REAL(ftruncate64); return resized(handle, size, real_ftruncate64); }
int ftruncate(int handle, off_t size) { return ftruncate64(handle, size); }
int fallocate(int handle, int mode, off_t at, off_t size) {
    REAL(fallocate);
    char path[PATH_MAX];
    if (ours(handle, path)) return errno = EOPNOTSUPP, -1;
    return real_fallocate(handle, mode, at, size);
}
int fallocate64(int handle, int mode, off64_t at, off64_t size) { return fallocate(handle, mode, at, size); }
int posix_fallocate(int handle, off_t at, off_t size) {
    REAL(posix_fallocate);
    char path[PATH_MAX];
    return ours(handle, path) ? EINVAL : real_posix_fallocate(handle, at, size);
}
int posix_fallocate64(int handle, off64_t at, off64_t size) { return posix_fallocate(handle, at, size); }

static int synced(int handle, int (*real)(int)) {
    char path[PATH_MAX];
    if (!ours(handle, path)) return real(handle);
    pthread_mutex_lock(&mutex);
    int got = fails(WRITE) ? -1 : 0; /* not asked of the disk: what a power cut leaves is worked out from the record */
    if (got == 0) put('s', inode_of(handle), 0, path, "", "", 0);
    int kept = errno;
    pthread_mutex_unlock(&mutex);
    errno = kept;
    return got;
}
int fsync(int handle) { REAL(fsync); return synced(handle, real_fsync); }
int fdatasync(int handle) { REAL(fdatasync); return synced(handle, real_fdatasync); }

#define READS(handle, plain) \
    char path[PATH_MAX]; \
    if (ours(handle, path) && LOCKED(fails(READ))) return -1; \
    return plain
ssize_t read(int handle, void *into, size_t size) { REAL(read); READS(handle, real_read(handle, into, size)); }
ssize_t pread(int handle, void *into, size_t size, off_t at) {
    REAL(pread);
    READS(handle, real_pread(handle, into, size, at));
}
ssize_t pread64(int handle, void *into, size_t size, off64_t at) {
    REAL(pread64);
    READS(handle, real_pread64(handle, into, size, at));
}
ssize_t readv(int handle, const struct iovec *parts, int count) {
    REAL(readv);
    READS(handle, real_readv(handle, parts, count));
}

/* --- names */

#define NAMES(real, what, first, second) \
    if (!first && !second) return real; \
    pthread_mutex_lock(&mutex); \
    int got = fails(WRITE) ? -1 : real; \
    if (got == 0) put(what, 0, 0, first ? first : "", second ? second : "", "", 0); \
    int kept = errno; \
    pthread_mutex_unlock(&mutex); \
    errno = kept; \
    return got

int renameat2(int from_at, const char *from, int to_at, const char *to, unsigned flags) {
    char first[PATH_MAX], second[PATH_MAX];
    const char *one = place(from_at, from, first), *two = place(to_at, to, second);
    NAMES(renamed(from_at, from, to_at, to, flags), 'r', one, two);
}
int renameat(int from_at, const char *from, int to_at, const char *to) {
    return renameat2(from_at, from, to_at, to, 0);
}
int rename(const char *from, const char *to) { return renameat(AT_FDCWD, from, AT_FDCWD, to); }
int linkat(int from_at, const char *from, int to_at, const char *to, int flags) {
    REAL(linkat);
    char first[PATH_MAX], second[PATH_MAX];
    const char *one = place(from_at, from, first), *two = place(to_at, to, second);
    NAMES(real_linkat(from_at, from, to_at, to, flags), 'l', one, two);
}
int link(const char *from, const char *to) { return linkat(AT_FDCWD, from, AT_FDCWD, to, 0); }
int symlinkat(const char *from, int to_at, const char *to) {
    REAL(symlinkat);
    char second[PATH_MAX];
    const char *one = NULL, *two = place(to_at, to, second);
    if (two) one = from;
    NAMES(real_symlinkat(from, to_at, to), 'y', one, two);
}
int symlink(const char *from, const char *to) { return symlinkat(from, AT_FDCWD, to); }
int unlinkat(int at, const char *name, int flags) {
    REAL(unlinkat);
    char first[PATH_MAX];
    const char *one = place(at, name, first), *two = NULL;
    NAMES(real_unlinkat(at, name, flags), flags & AT_REMOVEDIR ? 'x' : 'u', one, two);
}
int unlink(const char *name) { return unlinkat(AT_FDCWD, name, 0); }
int rmdir(const char *name) { return unlinkat(AT_FDCWD, name, AT_REMOVEDIR); }
int remove(const char *name) {
    struct stat facts;
    return lstat(name, &facts) == 0 && S_ISDIR(facts.st_mode) ? rmdir(name) : unlink(name);
}
int mkdirat(int at, const char *name, mode_t mode) {
    REAL(mkdirat);
    char first[PATH_MAX];
    const char *one = place(at, name, first), *two = NULL;
    NAMES(real_mkdirat(at, name, mode), 'd', one, two);
}
int mkdir(const char *name, mode_t mode) { return mkdirat(AT_FDCWD, name, mode); }

int flock(int handle, int operation) {
    REAL(flock);
    char path[PATH_MAX];
    if (ours(handle, path) && LOCKED(fails(LOCK))) return -1;
    return real_flock(handle, operation);
}

/* --- the clock of the wall, in the program; the times of files stay the kernel's */

int clock_gettime(clockid_t clock, struct timespec *into) {
    REAL(clock_gettime);
    int got = real_clock_gettime(clock, into);
    if (got == 0 && control && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        into->tv_sec += control->ahead_s;
    return got;
}
int gettimeofday(struct timeval *restrict into, void *restrict zone) {
    REAL(gettimeofday);
    int got = real_gettimeofday(into, zone);
    if (got == 0 && control) into->tv_sec += control->ahead_s;
    return got;
}
time_t time(time_t *into) {
    REAL(time);
    time_t got = real_time(NULL) + (control ? control->ahead_s : 0);
    if (into) *into = got;
    return got;
}
