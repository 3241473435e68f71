/* An OpenCL driver that lists one device and misbehaves as its file's name says: `libfake-KIND-STAGE.so`.

   KIND: abort, crash, exit, hang, fail, lie, absurd, fine. STAGE: load, list, info, context, build, run, read, probe. One of `probe`
   gives the right answer to portbar's first check of a device, and misbehaves when any other program is built.
   It needs no header of OpenCL: entries of the dispatch table are set by their number in cl_icd.h. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SUCCESS = 0, OUT_OF_RESOURCES = -5, BUILD_FAILURE = -11, INVALID_VALUE = -30, ENTRIES = 160 };

static void *table[ENTRIES];
static char kind[32] = "fine", stage[32] = "none";
static struct object { void **table; } platform, device, context, queue, buffer, program, kernel, event;

/* A real fault: a handler of another driver, such as PoCL's, returns from a signal that is only raised. */
static volatile int *volatile nowhere;

/* Whether the program that was made last is portbar's first check. */
static int checks;

static int is(const char *what, const char *where)
{
    return strcmp(what, kind) == 0 && strcmp(where, stage) == 0;
}

static void reach(const char *where)
{
    if (strcmp(where, stage) != 0) return;
    if (strcmp(kind, "abort") == 0) abort();
    if (strcmp(kind, "crash") == 0) *nowhere = 1;
    if (strcmp(kind, "exit") == 0) _exit(0);
    if (strcmp(kind, "hang") == 0) for (;;) pause();
}

__attribute__((constructor)) static void load(void)
{
    Dl_info info;
    const char *name;
    if (dladdr((void *)load, &info) && (name = strstr(info.dli_fname, "libfake-")))
        sscanf(name, "libfake-%31[a-z]-%31[a-z]", kind, stage);
    if (is("absurd", "load")) printf("{ words on standard output\n"), fflush(stdout);
    reach("load");
}

static int answer(const void *value, size_t size, size_t room, void *out, size_t *needed)
{
    if (out != NULL && room < size) return INVALID_VALUE;
    if (out != NULL) memcpy(out, value, size);
    if (needed != NULL) *needed = size;
    return SUCCESS;
}

static int text(const char *value, size_t room, void *out, size_t *needed)
{
    return answer(value, strlen(value) + 1, room, out, needed);
}

static const char *name_of(const char *what)
{
    static char made[1 << 20];
    size_t used;
    if (strcmp(kind, "absurd") != 0) {
        snprintf(made, sizeof made, "Fake %s %s %s", what, kind, stage);
        return made;
    }
    used = (size_t)snprintf(made, sizeof made, "Fake %s \x1b[31m\x1b]0;title\x07\r\n\xe2\x80\xae<b>[/red] ", what);
    memset(made + used, 'x', sizeof made - used - 1);
    return made;
}

static int platform_ids(uint32_t room, void **out, uint32_t *count)
{
    reach("list");
    if (is("fail", "list")) return OUT_OF_RESOURCES;
    if (out != NULL) memset(out, 0, room * sizeof *out);
    if (out != NULL && room > 0) out[0] = &platform;
    if (count != NULL) *count = is("lie", "list") ? 1000 : 1;
    return SUCCESS;
}

static int platform_info(void *of, uint32_t what, size_t room, void *out, size_t *needed)
{
    (void)of;
    switch (what) {
    case 0x0900: return text("FULL_PROFILE", room, out, needed);
    case 0x0901: return text("OpenCL 1.2 fake", room, out, needed);
    case 0x0902: return text(name_of("platform"), room, out, needed);
    case 0x0903: return text("Nobody", room, out, needed);
    case 0x0904: return text("cl_khr_icd", room, out, needed);
    case 0x0920: return text("FAKE", room, out, needed);
    default: return INVALID_VALUE;
    }
}

static int device_ids(void *of, uint64_t type, uint32_t room, void **out, uint32_t *count)
{
    (void)of, (void)type;
    if (out != NULL && room > 0) out[0] = &device;
    if (count != NULL) *count = 1;
    return SUCCESS;
}

static int device_info(void *of, uint32_t what, size_t room, void *out, size_t *needed)
{
    const uint64_t cpu = 2;
    const uint32_t units = is("lie", "info") ? 0xFFFFFFFFu : 4;
    const size_t most = is("lie", "info") ? (size_t)-1 : 64;
    void *const owner = &platform;
    (void)of;
    reach("info");
    if (is("fail", "info")) return OUT_OF_RESOURCES;
    switch (what) {
    case 0x1000: return answer(&cpu, sizeof cpu, room, out, needed);
    case 0x1002: return answer(&units, sizeof units, room, out, needed);
    case 0x1004: return answer(&most, sizeof most, room, out, needed);
    case 0x102B: return text(name_of("device"), room, out, needed);
    case 0x102C: return text("Nobody", room, out, needed);
    case 0x102D: return text(strcmp(kind, "absurd") ? "1.0" : "\xff\xfe\x80", room, out, needed);
    case 0x102F: return text("OpenCL 1.2 fake", room, out, needed);
    case 0x1030: return text("", room, out, needed);
    case 0x1031: return answer(&owner, sizeof owner, room, out, needed);
    case 0x103D: return text("OpenCL C 1.2 fake", room, out, needed);
    default: return INVALID_VALUE;
    }
}

static void *made(struct object *one, int *error)
{
    if (error != NULL) *error = SUCCESS;
    return one;
}

static int fine(void) { return SUCCESS; }

static void *new_context(const void *p, uint32_t n, void *d, void *f, void *u, int *e)
{
    (void)p, (void)n, (void)d, (void)f, (void)u;
    reach("context");
    if (!is("fail", "context")) return made(&context, e);
    if (e != NULL) *e = OUT_OF_RESOURCES;
    return NULL;
}

static void *new_queue(void *c, void *d, uint64_t p, int *e) { (void)c, (void)d, (void)p; return made(&queue, e); }
static void *new_buffer(void *c, uint64_t f, size_t s, void *p, int *e) { (void)c, (void)f, (void)s, (void)p; return made(&buffer, e); }

static void *new_program(void *c, uint32_t n, const char **s, const size_t *l, int *e)
{
    (void)c;
    checks = n > 0 && memmem(s[0], l != NULL && l[0] > 0 ? l[0] : strlen(s[0]), "portbar_usable", 14) != NULL;
    return made(&program, e);
}

static void *new_kernel(void *p, const char *n, int *e) { (void)p, (void)n; return made(&kernel, e); }

static int devices_of_context(void *of, uint32_t what, size_t room, void *out, size_t *needed)
{
    const uint32_t one = 1;
    void *const only = &device;
    (void)of;
    if (what == 0x1081) return answer(&only, sizeof only, room, out, needed);
    return what == 0x1083 ? answer(&one, sizeof one, room, out, needed) : INVALID_VALUE;
}

static int about_program(void *of, uint32_t what, size_t room, void *out, size_t *needed)
{
    const uint32_t one = 1;
    void *const only = &device, *const owner = &context;
    (void)of;
    if (what == 0x1161) return answer(&owner, sizeof owner, room, out, needed);
    if (what == 0x1163) return answer(&only, sizeof only, room, out, needed);
    return what == 0x1162 ? answer(&one, sizeof one, room, out, needed) : INVALID_VALUE;
}

static int about_queue(void *of, uint32_t what, size_t room, void *out, size_t *needed)
{
    void *const where = what == 0x1090 ? (void *)&context : (void *)&device;
    (void)of;
    return what <= 0x1091 ? answer(&where, sizeof where, room, out, needed) : INVALID_VALUE;
}

static int about_memory(void *of, uint32_t what, size_t room, void *out, size_t *needed)
{
    const uint32_t a_buffer = 0x10F0;
    (void)of;
    return what == 0x1100 ? answer(&a_buffer, sizeof a_buffer, room, out, needed) : INVALID_VALUE;
}

static int unknown(void) { return INVALID_VALUE; }

static int build(void)
{
    reach("build");
    if (!checks) reach("probe");
    return is("fail", "build") || (is("fail", "probe") && !checks) ? BUILD_FAILURE : SUCCESS;
}

static int build_info(void *p, void *d, uint32_t what, size_t room, void *out, size_t *needed)
{
    const int failed = -2;
    (void)p, (void)d;
    if (what == 0x1181 && (is("fail", "build") || is("fail", "probe")))
        return answer(&failed, sizeof failed, room, out, needed);
    return text(strcmp(kind, "fail") ? "" : "error: this driver builds nothing", room, out, needed);
}

static int kernel_info(void *of, uint32_t what, size_t room, void *out, size_t *needed)
{
    const uint32_t one = 1;
    void *const owner = what == 0x1193 ? (void *)&context : (void *)&program;
    (void)of;
    if (what == 0x1193 || what == 0x1194) return answer(&owner, sizeof owner, room, out, needed);
    if (what == 0x1190) return text("portbar_usable", room, out, needed);
    return what == 0x1191 ? answer(&one, sizeof one, room, out, needed) : INVALID_VALUE;
}

static int run(void *q, void *k, uint32_t n, void *o, void *g, void *l, uint32_t w, void *ws, void **out)
{
    (void)q, (void)k, (void)n, (void)o, (void)g, (void)l, (void)w, (void)ws;
    reach("run");
    if (is("fail", "run")) return OUT_OF_RESOURCES;
    if (out != NULL) *out = &event;
    return SUCCESS;
}

static int read_back(void *q, void *b, uint32_t x, size_t o, size_t s, void *p, uint32_t w, void *ws, void **out)
{
    uint32_t *const words = p, mine, next, i;
    (void)q, (void)b, (void)x, (void)o, (void)w, (void)ws;
    reach("read");
    if (is("fail", "read")) return OUT_OF_RESOURCES;
    if (strcmp(kind, "lie") == 0) memset(p, 0xAB, s);
    /* The check has 4 groups: each work-item takes the number of one neighbour and a part of the next one's. */
    for (i = 0; checks && strcmp(stage, "probe") == 0 && i < s / 4; ++i) {
        const uint32_t size = (uint32_t)(s / 16), first = i / size * size, at = i - first;
        mine = 3 * (first + size - 1 - at) + 7;
        next = 3 * (first + size - 1 - (at + 1) % size) + 7;
        words[i] = mine ^ next >> 2;
    }
    if (out != NULL) *out = &event;
    return SUCCESS;
}

static void fill(void)
{
    struct object *all[] = {&platform, &device, &context, &queue, &buffer, &program, &kernel, &event};
    size_t i;
    for (i = 0; i < ENTRIES; ++i) table[i] = (void *)fine;
    for (i = 0; i < sizeof all / sizeof *all; ++i) all[i]->table = table;
    table[0] = (void *)platform_ids;
    table[1] = (void *)platform_info;
    table[2] = (void *)device_ids;
    table[3] = (void *)device_info;
    table[4] = (void *)new_context;
    table[8] = (void *)devices_of_context;
    table[9] = (void *)new_queue;
    table[12] = (void *)about_queue;
    table[14] = (void *)new_buffer;
    table[20] = (void *)about_memory;
    table[40] = table[42] = table[45] = (void *)unknown;
    table[26] = (void *)new_program;
    table[30] = (void *)build;
    table[32] = (void *)about_program;
    table[33] = (void *)build_info;
    table[34] = (void *)new_kernel;
    table[39] = (void *)kernel_info;
    table[48] = (void *)read_back;
    table[59] = (void *)run;
}

int clIcdGetPlatformIDsKHR(uint32_t room, void **out, uint32_t *count)
{
    fill();
    return platform_ids(room, out, count);
}

int clGetPlatformInfo(void *of, uint32_t what, size_t room, void *out, size_t *needed)
{
    return platform_info(of, what, room, out, needed);
}

void *clGetExtensionFunctionAddress(const char *name)
{
    if (strcmp(name, "clIcdGetPlatformIDsKHR") == 0) return (void *)clIcdGetPlatformIDsKHR;
    return strcmp(name, "clGetPlatformInfo") == 0 ? (void *)clGetPlatformInfo : NULL;
}
