/*
 * A libnvidia-ml.so.1 that answers from a text file, for tests.
 *
 * The file is named by NVML_STUB_MACHINE and read again at every nvmlInit. A line is `Call arguments = answer`, the call without its
 * prefix (`nvml`, `nvmlDevice`, `Get`) and version; the arguments are a GPU's number, then what else the call takes. An answer may stand
 * for several calls: where `NvLinkState 2 5` is not there, `NvLinkState 2` is looked for, then `NvLinkState`. `!3` is an error code instead of an answer,
 * which is also what a call gets of which nothing is said (3: not supported). Besides calls there are
 *
 *     Count = 8               number of GPUs
 *     NvLinkCount 0 = 12      links of a GPU; asking for a higher one is an invalid argument
 *     Lost 3 = 20             the GPU is lost after so many calls about it
 *     FabricVersions = 2      the newest fabric struct that the driver knows
 *
 * An old driver lacks symbols: -DOLD_DRIVER leaves out those below "what newer drivers have", -DANCIENT_DRIVER also NVLink, peer-to-peer
 * and processes.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void *Device; /* GPU + 1; for a MIG instance, (position + 1) << 16 as well */
enum { OK = 0, UNINITIALIZED = 1, INVALID = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, TOO_SMALL = 7, MEMORY = 20, NOT_LOADED = 9, LOST = 15, VERSION = 25 };

typedef struct { char *key, *answer; } Entry;
static Entry *entries;
static size_t entry_count;
static char *content;
static unsigned calls[1024];
static int users;

static int by_key(const void *a, const void *b) { return strcmp(((const Entry *)a)->key, ((const Entry *)b)->key); }

static char *trimmed(char *from, char *to) {
    while (from < to && *from == ' ') from++;
    while (to > from && (to[-1] == ' ' || to[-1] == '\r')) to--;
    *to = 0;
    return from;
}

static int load(void) {
    const char *path = getenv("NVML_STUB_MACHINE");
    FILE *file = path ? fopen(path, "rb") : NULL;
    if (!file) return NOT_LOADED;
    fseek(file, 0, SEEK_END);
    long size = ftell(file);
    rewind(file);
    free(content);
    free(entries);
    entry_count = 0;
    content = malloc(size + 1);
    size = fread(content, 1, size, file);
    content[size] = 0;
    fclose(file);
    size_t most = 1;
    for (long k = 0; k < size; k++) most += content[k] == '\n';
    entries = malloc(most * sizeof(Entry));
    for (char *line = content; line && *line;) {
        char *end = strchr(line, '\n'), *next = end ? end + 1 : NULL;
        if (!end) end = line + strlen(line);
        *end = 0;
        char *equals = strstr(line, " =");
        if (equals && *line != '#') {
            entries[entry_count].answer = trimmed(equals + 2, end);
            entries[entry_count++].key = trimmed(line, equals);
        }
        line = next;
    }
    qsort(entries, entry_count, sizeof(Entry), by_key);
    memset(calls, 0, sizeof calls);
    return OK;
}

static const char *find(const char *key) {
    Entry wanted = {(char *)key, NULL}, *found = bsearch(&wanted, entries, entry_count, sizeof(Entry), by_key);
    return found ? found->answer : NULL;
}

/* The answer to a call with up to three arguments (-1: none), or NULL with *error set. */
static const char *ask(const char *call, long a, long b, long c, int *error) {
    long arguments[3] = {a, b, c};
    int given = a < 0 ? 0 : b < 0 ? 1 : c < 0 ? 2 : 3;
    for (; given >= 0; given--) {
        char key[160];
        int length = snprintf(key, sizeof key, "%s", call);
        for (int k = 0; k < given; k++) length += snprintf(key + length, sizeof key - length, " %ld", arguments[k]);
        const char *answer = find(key);
        if (!answer) continue;
        if (*answer != '!') return *error = OK, answer;
        *error = atoi(answer + 1);
        return NULL;
    }
    *error = NOT_SUPPORTED;
    return NULL;
}

static long gpu_of(Device device) { return ((long)device & 0xffff) - 1; }
static long instance_of(Device device) { return ((long)device >> 16) - 1; }

/* Count a call about a GPU: after so many it is lost. */
static int is_lost(long gpu) {
    if (!users) return UNINITIALIZED;
    char key[40];
    snprintf(key, sizeof key, "Lost %ld", gpu);
    const char *after = find(key);
    return after && calls[gpu % 1024]++ >= (unsigned)atoi(after) ? LOST : OK;
}

static const char *about(Device device, const char *call, long b, long c, int *error) {
    *error = is_lost(gpu_of(device));
    return *error ? NULL : ask(call, gpu_of(device), b, c, error);
}

static int number(Device device, const char *call, long b, long c, unsigned *value) {
    int error;
    const char *answer = about(device, call, b, c, &error);
    if (answer) *value = (unsigned)strtoul(answer, NULL, 0);
    return error;
}

static int words(Device device, const char *call, char *to, unsigned size) {
    int error;
    const char *answer = about(device, call, -1, -1, &error);
    if (!answer) return error;
    if (strlen(answer) + 1 > size) return TOO_SMALL;
    strcpy(to, answer);
    return OK;
}

#ifndef ANCIENT_DRIVER
static int too_far(Device device, unsigned link) {
    int error;
    const char *count = ask("NvLinkCount", gpu_of(device), -1, -1, &error);
    return count && link >= (unsigned)atoi(count);
}
#endif

/* ---- library ---- */

int nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    int error = load(), refused;
    if (error) return error;
    ask("Init", -1, -1, -1, &refused);
    if (refused != OK && refused != NOT_SUPPORTED) return refused;
    users++;
    return OK;
}
int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
int nvmlShutdown(void) {
    if (!users) return UNINITIALIZED;
    users--;
    return OK;
}
#ifndef ANCIENT_DRIVER
const char *nvmlErrorString(int code) { return code == 27 ? "Not Ready" : code == 999 ? "Unknown Error" : "some error of the stub"; }
#endif
int nvmlSystemGetDriverVersion(char *to, unsigned size) {
    int error;
    const char *answer = ask("DriverVersion", -1, -1, -1, &error);
    if (answer) snprintf(to, size, "%s", answer);
    return error;
}
int nvmlSystemGetProcessName(unsigned pid, char *to, unsigned size) {
    int error;
    const char *answer = ask("ProcessName", pid, -1, -1, &error);
    if (answer) snprintf(to, size, "%s", answer);
    return error == NOT_SUPPORTED ? NOT_FOUND : error;
}
int nvmlDeviceGetCount_v2(unsigned *count) {
    int error;
    const char *answer = ask("Count", -1, -1, -1, &error);
    if (answer) *count = (unsigned)strtoul(answer, NULL, 0);
    return error;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, Device *device) {
    int error;
    ask("HandleByIndex", index, -1, -1, &error);
    if (error != OK && error != NOT_SUPPORTED) return error;
    *device = (Device)(long)(index + 1);
    return is_lost(index);
}

/* ---- identity ---- */

int nvmlDeviceGetName(Device device, char *to, unsigned size) {
    if (instance_of(device) < 0) return words(device, "Name", to, size);
    int error;
    const char *answer = about(device, "MigName", instance_of(device), -1, &error);
    if (answer) snprintf(to, size, "%s", answer);
    return error;
}
int nvmlDeviceGetUUID(Device device, char *to, unsigned size) {
    if (instance_of(device) < 0) return words(device, "UUID", to, size);
    int error;
    const char *answer = about(device, "MigUUID", instance_of(device), -1, &error);
    if (answer) snprintf(to, size, "%s", answer);
    return error;
}
typedef struct { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; } Pci;
static int pci(Device device, const char *call, long link, Pci *to) {
    int error;
    const char *answer = about(device, call, link, -1, &error);
    memset(to, 0, sizeof *to);
    if (answer) snprintf(to->bus_id, sizeof to->bus_id, "%s", answer);
    return error;
}
int nvmlDeviceGetPciInfo_v3(Device device, Pci *to) { return pci(device, "PciInfo", -1, to); }
int nvmlDeviceGetCudaComputeCapability(Device device, int *major, int *minor) {
    int error;
    const char *answer = about(device, "ComputeCapability", -1, -1, &error);
    if (answer) sscanf(answer, "%d.%d", major, minor);
    return error;
}

/* ---- memory and processes ---- */

typedef struct { unsigned long long total, free, used; } Memory;
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } MemoryV2;
static int memory(Device device, MemoryV2 *to) { /* MemoryInfo: total, reserved and used bytes */
    int error;
    const char *answer = about(device, "MemoryInfo", -1, -1, &error);
    if (!answer) return error;
    sscanf(answer, "%llu %llu %llu", &to->total, &to->reserved, &to->used);
    to->free = to->total - to->reserved - to->used;
    return OK;
}
int nvmlDeviceGetMemoryInfo(Device device, Memory *to) {
    MemoryV2 found;
    int error = memory(device, &found);
    if (error) return error;
    to->total = found.total;
    to->free = found.free;
    to->used = found.used + found.reserved;
    return OK;
}
#ifndef ANCIENT_DRIVER
typedef struct { unsigned pid; unsigned long long memory; unsigned instance, compute; } Process;
static int processes(Device device, const char *call, unsigned *count, Process *to) { /* pid:bytes,pid:-1 */
    int error;
    const char *answer = about(device, call, -1, -1, &error);
    if (!answer) return error;
    unsigned found = 0;
    for (const char *at = answer; at && *at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL, found++) {
        if (!to || found >= *count) continue;
        unsigned pid = 0;
        long long bytes = -1;
        sscanf(at, "%u:%lld", &pid, &bytes);
        to[found] = (Process){pid, (unsigned long long)bytes, 0xffffffff, 0xffffffff};
    }
    unsigned room = to ? *count : 0;
    *count = found;
    return found > room ? TOO_SMALL : OK;
}
int nvmlDeviceGetComputeRunningProcesses_v2(Device d, unsigned *n, Process *to) { return processes(d, "ComputeRunningProcesses", n, to); }
int nvmlDeviceGetGraphicsRunningProcesses_v2(Device d, unsigned *n, Process *to) { return processes(d, "GraphicsRunningProcesses", n, to); }
#endif

/* ---- pairs, links, port ---- */

int nvmlDeviceGetTopologyCommonAncestor(Device a, Device b, unsigned *level) {
    int error = is_lost(gpu_of(b));
    return error ? error : number(a, "TopologyCommonAncestor", gpu_of(b), -1, level);
}
int nvmlDeviceGetMaxPcieLinkGeneration(Device d, unsigned *value) { return number(d, "MaxPcieLinkGeneration", -1, -1, value); }
int nvmlDeviceGetMaxPcieLinkWidth(Device d, unsigned *value) { return number(d, "MaxPcieLinkWidth", -1, -1, value); }
int nvmlDeviceGetCurrPcieLinkGeneration(Device d, unsigned *value) { return number(d, "CurrPcieLinkGeneration", -1, -1, value); }
int nvmlDeviceGetCurrPcieLinkWidth(Device d, unsigned *value) { return number(d, "CurrPcieLinkWidth", -1, -1, value); }

static int mask(Device device, const char *call, unsigned size, unsigned long long *to) { /* hexadecimal words, the lowest first */
    int error;
    const char *answer = about(device, call, -1, -1, &error);
    if (!answer) return error;
    memset(to, 0, size * sizeof *to);
    char *end;
    for (unsigned k = 0; *answer; k++, answer = end) {
        unsigned long long word = strtoull(answer, &end, 16);
        if (end == answer) break;
        if (k >= size) return TOO_SMALL;
        to[k] = word;
    }
    return OK;
}
int nvmlDeviceGetCpuAffinity(Device d, unsigned size, unsigned long long *to) { return mask(d, "CpuAffinity", size, to); }

#ifndef ANCIENT_DRIVER
int nvmlDeviceGetP2PStatus(Device a, Device b, unsigned kind, unsigned *state) {
    int error = is_lost(gpu_of(b));
    return error ? error : number(a, "P2PStatus", gpu_of(b), kind, state);
}
int nvmlDeviceGetNvLinkState(Device device, unsigned link, unsigned *is_up) {
    return too_far(device, link) ? INVALID : number(device, "NvLinkState", link, -1, is_up);
}
int nvmlDeviceGetNvLinkRemotePciInfo_v2(Device device, unsigned link, Pci *to) {
    return too_far(device, link) ? INVALID : pci(device, "NvLinkRemotePciInfo", link, to);
}
#endif

/* ---- what newer drivers have ---- */

#if !defined(OLD_DRIVER) && !defined(ANCIENT_DRIVER)
int nvmlDeviceGetMemoryInfo_v2(Device device, MemoryV2 *to) { /* MemoryInfoV2: an error of this version of the call */
    int error;
    ask("MemoryInfoV2", gpu_of(device), -1, -1, &error);
    if (error != OK && error != NOT_SUPPORTED) return error;
    return to->version == 0x02000028 ? memory(device, to) : VERSION;
}
int nvmlDeviceGetComputeRunningProcesses_v3(Device d, unsigned *n, Process *to) { return processes(d, "ComputeRunningProcesses", n, to); }
int nvmlDeviceGetGraphicsRunningProcesses_v3(Device d, unsigned *n, Process *to) { return processes(d, "GraphicsRunningProcesses", n, to); }
int nvmlDeviceGetMemoryAffinity(Device d, unsigned size, unsigned long long *to, unsigned scope) {
    return scope ? INVALID : mask(d, "MemoryAffinity", size, to);
}
int nvmlDeviceGetNumaNodeId(Device d, unsigned *node) { return number(d, "NumaNodeId", -1, -1, node); }
int nvmlDeviceGetNvLinkRemoteDeviceType(Device device, unsigned link, unsigned *kind) {
    return too_far(device, link) ? INVALID : number(device, "NvLinkRemoteDeviceType", link, -1, kind);
}

typedef struct { unsigned id, scope; int64_t time, latency; unsigned type, error; union { unsigned ui; unsigned long long ull; } value; } Field;
int nvmlDeviceGetFieldValues(Device device, int count, Field *values) { /* FieldValues GPU field link, or an error of the whole call */
    int error = is_lost(gpu_of(device));
    if (error) return error;
    ask("FieldValuesCall", gpu_of(device), -1, -1, &error);
    if (error != OK && error != NOT_SUPPORTED) return error;
    for (int k = 0; k < count; k++) {
        values[k].type = 1;
        int is_of_link = values[k].id == 164 || values[k].id == 165; /* speed and state; others are of the GPU, or of links to a CPU */
        if (is_of_link && too_far(device, values[k].scope)) {
            values[k].error = INVALID;
            continue;
        }
        const char *answer = ask("FieldValues", gpu_of(device), values[k].id, values[k].scope, &error);
        values[k].error = error;
        if (answer) values[k].value.ull = strtoul(answer, NULL, 0);
    }
    return OK;
}

int nvmlDeviceGetMigMode(Device device, unsigned *current, unsigned *pending) {
    int error;
    const char *answer = about(device, "MigMode", -1, -1, &error);
    if (answer) sscanf(answer, "%u %u", current, pending);
    return error;
}
int nvmlDeviceGetMaxMigDeviceCount(Device d, unsigned *count) { return number(d, "MaxMigDeviceCount", -1, -1, count); }
int nvmlDeviceGetMigDeviceHandleByIndex(Device device, unsigned position, Device *instance) {
    int error;
    if (!about(device, "MigUUID", position, -1, &error)) return error == NOT_SUPPORTED ? NOT_FOUND : error;
    *instance = (Device)((long)device | (long)(position + 1) << 16);
    return OK;
}
typedef struct { unsigned counts[8]; unsigned long long memory_mib; } Attributes;
int nvmlDeviceGetAttributes_v2(Device device, Attributes *to) {
    unsigned mib;
    int error = number(device, "MigMemory", instance_of(device), -1, &mib);
    if (!error) to->memory_mib = mib;
    return error;
}

/* FabricInfo: uuid as 32 digits, clique, state, status, health */
typedef struct { uint8_t uuid[16]; unsigned status; uint32_t clique; uint8_t state; } FabricV1;
typedef struct { unsigned version; uint8_t uuid[16]; unsigned status; uint32_t clique; uint8_t state; uint32_t mask; uint8_t health; } FabricV3;
static int fabric(Device device, FabricV3 *to) {
    int error;
    char digits[33] = "";
    unsigned clique, state, status, health;
    const char *answer = about(device, "FabricInfo", -1, -1, &error);
    if (!answer) return error;
    memset(to->uuid, 0, sizeof *to - sizeof to->version);
    sscanf(answer, "%32s %u %u %u %u", digits, &clique, &state, &status, &health);
    for (int k = 0; k < 16; k++) {
        unsigned byte;
        sscanf(digits + 2 * k, "%2x", &byte);
        to->uuid[k] = byte;
    }
    to->clique = clique;
    to->state = state;
    to->status = status;
    to->health = health;
    return OK;
}
static int newest_fabric(void) {
    int error;
    const char *answer = ask("FabricVersions", -1, -1, -1, &error);
    return answer ? atoi(answer) : 3;
}
int nvmlDeviceGetGpuFabricInfo(Device device, FabricV1 *to) {
    FabricV3 found;
    int error = fabric(device, &found);
    if (error) return error;
    memcpy(to->uuid, found.uuid, 16);
    to->status = found.status;
    to->clique = found.clique;
    to->state = found.state;
    return OK;
}
int nvmlDeviceGetGpuFabricInfoV(Device device, void *to) {
    unsigned version = *(unsigned *)to >> 24;
    if ((int)version > newest_fabric()) return VERSION;
    FabricV3 found;
    found.version = *(unsigned *)to;
    int error = fabric(device, &found);
    if (!error) memcpy(to, &found, version == 2 ? 36 : 40);
    return error;
}
#endif
