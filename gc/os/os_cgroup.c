/* os_cgroup: the limits of the container the process runs in (see os_cgroup.h).
 *
 * /proc/self/cgroup names the process's group in each hierarchy, /proc/self/mountinfo says where hierarchies
 * are mounted and from which group on (cgroups(7), proc(5)). The group's directory is the mount point and
 * what the group's name has beyond the mount's root; its ancestors are that directory's parents up to the
 * mount point. In a container the two may not fit together: the name was given outside, the mount shows only
 * the container's own group. Then, and where the directory does not exist, the mount point itself is the
 * group. */
#define _GNU_SOURCE 1
#include "gc/os/os_cgroup.h"

#include <stddef.h>
#include <string.h>

#include "gc/os/os_file.h"

/* A limit of this many bytes or more is none: version 1 writes 2^63 - 1 rounded down to a page. */
#define NO_LIMIT_BYTES (UINT64_C(1) << 62)

/* Room for a group's name (PATH_MAX). */
#define GROUP_BYTES 4096

enum version { V1, V2 };

struct path {
    size_t len;
    bool too_long;
    char s[OS_FILE_LINE_BYTES];
};

/* One question to the hierarchies, and the tightest answer so far. */
struct query {
    const char *root;
    const char *controller;
    /* Asks one group's directory. Must leave dir as it was. */
    void (*ask)(struct query *query, struct path *dir);
    enum version version; /* of the hierarchy being asked */
    bool met_group;       /* a directory with this controller's files was met on the way up */
    bool found;
    uint64_t bytes; /* the answer about memory */
    double cpus;    /* the answer about processors */
};

static void path_append(struct path *path, const char *s) {
    size_t n = strlen(s);
    if (n >= sizeof path->s - path->len) {
        path->too_long = true;
        return;
    }
    memcpy(path->s + path->len, s, n + 1);
    path->len += n;
}

static void path_cut(struct path *path, size_t len) {
    path->len = len;
    path->too_long = false;
    path->s[len] = '\0';
}

/* The first line of a file in the group's directory. */
static bool read_file(struct path *dir, const char *name, char *text, size_t cap) {
    size_t len = dir->len;
    path_append(dir, name);
    bool ok = !dir->too_long && os_file_first_line(dir->s, text, cap) == 0;
    path_cut(dir, len);
    return ok;
}

static bool read_number(struct path *dir, const char *name, uint64_t *value) {
    char text[64];
    const char *s = text;
    return read_file(dir, name, text, sizeof text) && os_file_number(&s, 10, value);
}

static void offer_bytes(struct query *query, uint64_t bytes) {
    if (bytes < NO_LIMIT_BYTES && (!query->found || bytes < query->bytes)) {
        query->bytes = bytes;
        query->found = true;
    }
}

static void offer_cpus(struct query *query, uint64_t quota, uint64_t period) {
    if (quota == 0 || period == 0) {
        return;
    }
    double cpus = (double)quota / (double)period;
    if (!query->found || cpus < query->cpus) {
        query->cpus = cpus;
        query->found = true;
    }
}

/* Version 1 tells the tightest limit of all ancestors, of those too that the container cannot see. */
static void ask_memory_stat(struct query *query, struct path *dir) {
    static const char field[] = "hierarchical_memory_limit ";
    size_t len = dir->len;
    path_append(dir, "/memory.stat");
    struct os_file file;
    if (!dir->too_long && os_file_open(&file, dir->s) == 0) {
        for (const char *line = os_file_line(&file); line != NULL; line = os_file_line(&file)) {
            const char *s = line + sizeof field - 1;
            uint64_t bytes;
            if (strncmp(line, field, sizeof field - 1) == 0 && os_file_number(&s, 10, &bytes)) {
                offer_bytes(query, bytes);
                break;
            }
        }
        os_file_close(&file);
    }
    path_cut(dir, len);
}

static void ask_memory(struct query *query, struct path *dir) {
    uint64_t bytes;
    if (query->version == V2) {
        /* "max" is no number: none. */
        if (read_number(dir, "/memory.max", &bytes)) {
            offer_bytes(query, bytes);
        }
    } else if (read_number(dir, "/memory.limit_in_bytes", &bytes)) {
        offer_bytes(query, bytes);
        if (!query->met_group) {
            query->met_group = true; /* the statistics are dear to read, and the lowest group's say it all */
            ask_memory_stat(query, dir);
        }
    }
}

static void ask_cpu(struct query *query, struct path *dir) {
    uint64_t quota;
    uint64_t period;
    if (query->version == V2) {
        char text[64];
        const char *s = text;
        if (read_file(dir, "/cpu.max", text, sizeof text) && os_file_number(&s, 10, &quota) &&
            os_file_number(&s, 10, &period)) {
            offer_cpus(query, quota, period);
        }
    } else if (read_number(dir, "/cpu.cfs_quota_us", &quota) &&
               read_number(dir, "/cpu.cfs_period_us", &period)) {
        /* A quota of -1 is no number here: none. */
        offer_cpus(query, quota, period);
    }
}

/* Whether a list separated by commas contains a word. */
static bool list_has(const char *list, const char *word) {
    size_t n = strlen(word);
    for (const char *item = list; *item != '\0';) {
        size_t len = strcspn(item, ",");
        if (len == n && memcmp(item, word, n) == 0) {
            return true;
        }
        item += len;
        item += *item == ',';
    }
    return false;
}

/* Cuts the next word off a line; NULL at its end. */
static char *next_word(char **line) {
    char *word = *line + strspn(*line, " ");
    if (*word == '\0') {
        return NULL;
    }
    char *end = word + strcspn(word, " ");
    *line = *end == '\0' ? end : end + 1;
    *end = '\0';
    return word;
}

/* Undoes mountinfo's escapes (space, tab, newline and backslash as \ooo), in place. */
static void unescape(char *s) {
    char *to = s;
    while (*s != '\0') {
        if (s[0] == '\\' && s[1] >= '0' && s[1] <= '3' && s[2] >= '0' && s[2] <= '7' && s[3] >= '0' &&
            s[3] <= '7') {
            *to++ = (char)((s[1] - '0') * 64 + (s[2] - '0') * 8 + (s[3] - '0'));
            s += 4;
        } else {
            *to++ = *s++;
        }
    }
    *to = '\0';
}

/* Reads a line of mountinfo: "id parent device root point options [tag...] - type source super-options". True
 * when it is a hierarchy of the query's version that has its controller (version 2 does not say which it
 * has). */
static bool parse_mount(const struct query *query, char *line, char **mount_root, char **mount_point) {
    char *words[6];
    for (size_t i = 0; i < 6; i++) {
        words[i] = next_word(&line);
        if (words[i] == NULL) {
            return false;
        }
    }
    const char *word = next_word(&line);
    while (word != NULL && strcmp(word, "-") != 0) {
        word = next_word(&line);
    }
    const char *type = next_word(&line);
    const char *source = next_word(&line);
    const char *super_options = next_word(&line);
    if (type == NULL || source == NULL || super_options == NULL) {
        return false;
    }
    if (query->version == V2) {
        if (strcmp(type, "cgroup2") != 0) {
            return false;
        }
    } else if (strcmp(type, "cgroup") != 0 || !list_has(super_options, query->controller)) {
        return false;
    }
    *mount_root = words[3];
    *mount_point = words[4];
    unescape(*mount_root);
    unescape(*mount_point);
    return true;
}

static bool open_proc(const struct query *query, const char *name, struct os_file *file) {
    struct path path;
    path_cut(&path, 0);
    path_append(&path, query->root);
    path_append(&path, "/proc/self/");
    path_append(&path, name);
    return !path.too_long && os_file_open(file, path.s) == 0;
}

/* The process's group in the hierarchy of the query: lines of "id:controllers:group", in version 2
 * "0::group". */
static bool own_group(const struct query *query, char group[GROUP_BYTES]) {
    struct os_file file;
    if (!open_proc(query, "cgroup", &file)) {
        return false;
    }
    bool found = false;
    for (char *line = os_file_line(&file); line != NULL && !found; line = os_file_line(&file)) {
        char *controllers = strchr(line, ':');
        char *name = controllers != NULL ? strchr(++controllers, ':') : NULL;
        if (name == NULL) {
            continue;
        }
        *name++ = '\0';
        bool wanted = query->version == V2 ? strncmp(line, "0:", 2) == 0 && *controllers == '\0'
                                           : list_has(controllers, query->controller);
        if (wanted && strlen(name) < GROUP_BYTES) {
            memcpy(group, name, strlen(name) + 1);
            found = true;
        }
    }
    os_file_close(&file);
    return found;
}

/* What a group's name has beyond a mount's root; NULL when it is not below it, or climbs out of it (the name
 * of a group outside the process's namespace begins with "/.."). */
static const char *below(const char *group, const char *mount_root) {
    size_t n = strcmp(mount_root, "/") == 0 ? 0 : strlen(mount_root);
    if (strncmp(group, mount_root, n) != 0 || (group[n] != '/' && group[n] != '\0')) {
        return NULL;
    }
    for (const char *up = strstr(group + n, "/.."); up != NULL; up = strstr(up + 1, "/..")) {
        if (up[3] == '/' || up[3] == '\0') {
            return NULL;
        }
    }
    return strcmp(group + n, "/") == 0 ? "" : group + n;
}

/* Asks the group's directory and all its parents up to the mount point. */
static void ask_upwards(struct query *query, const char *mount_point, const char *rest) {
    struct path dir;
    path_cut(&dir, 0);
    path_append(&dir, query->root);
    path_append(&dir, mount_point);
    size_t top = dir.len;
    path_append(&dir, rest);
    if (dir.too_long) {
        path_cut(&dir, top);
    }
    query->met_group = false;
    for (;;) {
        query->ask(query, &dir);
        if (dir.len <= top) {
            break;
        }
        size_t parent = dir.len - 1;
        while (parent > top && dir.s[parent] != '/') {
            parent--;
        }
        path_cut(&dir, parent);
    }
}

/* Asks at the mounts that show the group; without one, at the first mount there is. How many mounts were
 * asked. */
static int ask_mounts(struct query *query, const char *group, bool fitting) {
    struct os_file file;
    if (!open_proc(query, "mountinfo", &file)) {
        return 0;
    }
    int asked = 0;
    for (char *line = os_file_line(&file); line != NULL; line = os_file_line(&file)) {
        char *mount_root;
        char *mount_point;
        if (!parse_mount(query, line, &mount_root, &mount_point)) {
            continue;
        }
        const char *rest = fitting ? below(group, mount_root) : "";
        if (rest != NULL) {
            ask_upwards(query, mount_point, rest);
            asked++;
            if (!fitting) {
                break;
            }
        }
    }
    os_file_close(&file);
    return asked;
}

/* Both versions are asked: in a mixed system each controller lives in one, and the other has no files for it.
 */
static bool answer(struct query *query) {
    static const enum version versions[] = {V1, V2};
    for (size_t i = 0; i < sizeof versions / sizeof versions[0]; i++) {
        char group[GROUP_BYTES];
        query->version = versions[i];
        if (own_group(query, group) && ask_mounts(query, group, true) == 0) {
            ask_mounts(query, group, false);
        }
    }
    return query->found;
}

bool os_cgroup_memory_limit(const char *root, uint64_t *bytes) {
    struct query query = {.root = root, .controller = "memory", .ask = ask_memory};
    if (!answer(&query)) {
        return false;
    }
    *bytes = query.bytes;
    return true;
}

bool os_cgroup_cpu_quota(const char *root, double *cpus) {
    struct query query = {.root = root, .controller = "cpu", .ask = ask_cpu};
    if (!answer(&query)) {
        return false;
    }
    *cpus = query.cpus;
    return true;
}
