/* A small NVML for tests: two GPUs, the second cut up; what it says stands in the files of $FAKE_NVML. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct { char legacy[16]; unsigned domain, bus, device, id, sub; char busId[32]; } pci_t;
typedef struct { void *device; unsigned long long type, data; unsigned gi, ci; } event_t;
typedef struct { unsigned id, scope; long long at, latency; unsigned type, ret, value, rest; } field_t;
static char gpus[2], instance;

static int number(const char *name, int fallback) {
    char path[512];
    int value = fallback;
    snprintf(path, sizeof path, "%s/%s", getenv("FAKE_NVML"), name);
    FILE *file = fopen(path, "r");
    if (file) { if (fscanf(file, "%d", &value) != 1) value = fallback; fclose(file); }
    return value;
}
int nvmlInit_v2(void) { return number("init", 0); }
int nvmlShutdown(void) { return 0; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = 3; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) {
    if (index > 1 || (int)index == number("lost", -1)) return 15; /* GPU_IS_LOST */
    if ((int)index == number("denied", -1)) return 4;
    *device = &gpus[index];
    return 0;
}
int nvmlDeviceGetPciInfo_v3(void *device, pci_t *pci) {
    strcpy(pci->busId, device == &gpus[0] ? "00000000:3B:00.0" : "0000000F:5E:00.0");
    return 0;
}
int nvmlDeviceGetUUID(void *device, char *text, unsigned size) {
    snprintf(text, size, device == &instance ? "MIG-1" : device == &gpus[0] ? "GPU-0" : "GPU-1");
    return 0;
}
int nvmlDeviceGetName(void *device, char *text, unsigned size) {
    snprintf(text, size, device == &instance ? "NVIDIA A100-SXM4-40GB MIG 1g.5gb" : "NVIDIA A100-SXM4-40GB");
    return 0;
}
int nvmlDeviceGetMinorNumber(void *device, unsigned *minor) { *minor = device == &gpus[0] ? 4 : 5; return 0; }
int nvmlDeviceGetMaxMigDeviceCount(void *device, unsigned *count) { *count = device == &gpus[1] ? 7 : 0; return 0; }
int nvmlDeviceGetMigMode(void *device, unsigned *now, unsigned *after) {
    *now = 1;
    *after = 0;
    return device == &gpus[1] ? 0 : 3;
}
int nvmlDeviceGetMigDeviceHandleByIndex(void *device, unsigned index, void **mig) {
    if (device != &gpus[1] || index != 2 || number("uncut", 0)) return 6;
    *mig = &instance;
    return 0;
}
int nvmlDeviceGetGpuInstanceId(void *device, unsigned *id) { *id = 7; return device == &instance ? 0 : 3; }
int nvmlDeviceGetComputeInstanceId(void *device, unsigned *id) { *id = 1; return device == &instance ? 0 : 3; }
int nvmlDeviceGetFieldValues(void *device, int count, field_t *field) {
    if (count != 1 || field->id != 230) return 2;
    field->ret = number("recovery", -1) < 0 || device != &gpus[0] ? number("field", 3) : 0;
    field->value = number("recovery", 0);
    return 0;
}
int nvmlDeviceGetRemappedRows(void *device, unsigned *c, unsigned *u, unsigned *pending, unsigned *failed) {
    if (device != &gpus[0]) return 3;
    *c = *u = 0;
    *pending = number("pending", 0);
    *failed = number("failed", 0);
    return 0;
}
int nvmlDeviceGetRetiredPagesPendingStatus(void *device, unsigned *pending) {
    *pending = number("pages", 0);
    return device == &gpus[1] ? 0 : 3;
}
int nvmlEventSetCreate(void **set) { *set = &gpus; return 0; }
int nvmlDeviceRegisterEvents(void *device, unsigned long long types, void *set) {
    return set == &gpus && types == 8 ? (device == &gpus[0] || device == &gpus[1] ? 0 : 2) : 2;
}
int nvmlEventSetWait_v2(void *set, event_t *event, unsigned timeout) {
    char path[512], taken[520];
    unsigned long long gpu;
    snprintf(path, sizeof path, "%s/event", getenv("FAKE_NVML"));
    snprintf(taken, sizeof taken, "%s.taken", path);
    if (set != &gpus) return 2;
    for (unsigned waited = 0; waited < timeout; waited += 5, usleep(5000)) {
        if (rename(path, taken)) continue;
        FILE *file = fopen(taken, "r");
        int found = fscanf(file, "%llu %llu %u %u", &gpu, &event->data, &event->gi, &event->ci);
        fclose(file);
        if (found != 4) return 999;
        event->device = &gpus[gpu];
        event->type = 8;
        return 0;
    }
    return 10;
}
