/* Put before a host program with gcc's -include: every buffer gets canary words after its end, which are looked at when it is
   released, and the platform in PORTBAR_TEST_PLATFORM_IS ("NAME VERSION") is the only one. */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CANARY = 0xA5, CANARY_BYTES = 1 << 16, CANARY_BUFFERS = 16 };

static cl_command_queue canary_queue;
static struct {
    cl_mem buffer;
    size_t end;
} canary_of[CANARY_BUFFERS];

static cl_int canary_platforms(cl_uint entries, cl_platform_id *found, cl_uint *count)
{
    cl_platform_id all[64];
    cl_uint number = 0;
    const char *wanted = getenv("PORTBAR_TEST_PLATFORM_IS");
    cl_int code = clGetPlatformIDs(64, all, &number);
    (void)entries;
    if (count != NULL)
        *count = 1;
    for (cl_uint i = 0; code == CL_SUCCESS && wanted != NULL && i < number && i < 64; ++i) {
        char title[2048] = "", version[1024] = "";
        clGetPlatformInfo(all[i], CL_PLATFORM_NAME, 1024, title, NULL);
        clGetPlatformInfo(all[i], CL_PLATFORM_VERSION, sizeof version, version, NULL);
        strcat(strcat(title, " "), version);
        if (strcmp(title, wanted) == 0) {
            *found = all[i];
            return CL_SUCCESS;
        }
    }
    fprintf(stderr, "canary: no platform %s\n", wanted != NULL ? wanted : "is asked for");
    exit(77);
}

static cl_command_queue canary_make_queue(cl_context context, cl_device_id device, cl_command_queue_properties properties,
                                          cl_int *code)
{
    return canary_queue = clCreateCommandQueue(context, device, properties, code);
}

static cl_mem canary_make_buffer(cl_context context, cl_mem_flags flags, size_t size, void *host, cl_int *code)
{
    unsigned char *content = (unsigned char *)malloc(size + CANARY_BYTES);
    cl_mem made;
    int place = 0;
    memset(content, 0, size);
    if (host != NULL)
        memcpy(content, host, size);
    memset(content + size, CANARY, CANARY_BYTES);
    made = clCreateBuffer(context, flags | CL_MEM_COPY_HOST_PTR, size + CANARY_BYTES, content, code);
    free(content);
    while (canary_of[place].buffer != NULL)
        ++place;
    canary_of[place].buffer = made;
    canary_of[place].end = size;
    return made;
}

static cl_int canary_release(cl_mem buffer)
{
    unsigned char after[CANARY_BYTES];
    int place = 0;
    while (canary_of[place].buffer != buffer)
        ++place;
    if (clEnqueueReadBuffer(canary_queue, buffer, CL_TRUE, canary_of[place].end, sizeof after, after, 0, NULL, NULL)
        != CL_SUCCESS)
        exit(4);
    for (int i = 0; i < CANARY_BYTES; ++i)
        if (after[i] != CANARY) {
            fprintf(stderr, "canary: byte %d after the end of buffer %d was written\n", i, place);
            exit(3);
        }
    printf("canary: buffer %d intact\n", place);
    return clReleaseMemObject(buffer);
}

#define clGetPlatformIDs canary_platforms
#define clCreateCommandQueue canary_make_queue
#define clCreateBuffer canary_make_buffer
#define clReleaseMemObject canary_release
