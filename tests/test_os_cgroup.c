/* The container's limits: what gc/os/os_cgroup finds in hierarchies of both versions. Each test builds the
 * files a process would see, under a directory of its own. */
#define _GNU_SOURCE 1
#include "gc/os/os_cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define MIB (UINT64_C(1) << 20)

/* What version 1 writes where no limit is set: 2^63 - 1 rounded down to a page. */
#define V1_NONE "9223372036854771712\n"

#define V2_MOUNT     "30 22 0:27 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
#define V1_MEMORY    "34 30 0:31 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory\n"
#define V1_CPU       "31 30 0:28 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct\n"
#define OTHER_MOUNTS "22 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n23 22 0:5 / /dev rw - devtmpfs udev rw\n"

static char root[] = "/tmp/tern_cgroup_XXXXXX";

static int remove_it(const char *path, const struct stat *info, int kind, struct FTW *ftw) {
    (void)info;
    (void)kind;
    (void)ftw;
    return remove(path);
}

static int begin(void **state) {
    (void)state;
    memcpy(root + sizeof root - 7, "XXXXXX", 6);
    return mkdtemp(root) != NULL ? 0 : -1;
}

static int end(void **state) {
    (void)state;
    return nftw(root, remove_it, 8, FTW_DEPTH | FTW_PHYS);
}

/* Writes a file under the root, making the directories on the way. */
static void put(const char *path, const char *text) {
    char full[8192];
    assert_in_range(snprintf(full, sizeof full, "%s%s", root, path), 1, sizeof full - 1);
    for (char *slash = strchr(full + sizeof root, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        assert_true(mkdir(full, 0755) == 0 || errno == EEXIST);
        *slash = '/';
    }
    int fd = open(full, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
}

static void put_process(const char *cgroup, const char *mountinfo) {
    put("/proc/self/cgroup", cgroup);
    put("/proc/self/mountinfo", mountinfo);
}

static void assert_memory(uint64_t want) {
    uint64_t bytes = 0;
    assert_true(os_cgroup_memory_limit(root, &bytes));
    assert_int_equal(bytes, want);
}

static void assert_no_memory_limit(void) {
    uint64_t bytes = 77;
    assert_false(os_cgroup_memory_limit(root, &bytes));
    assert_int_equal(bytes, 77);
}

/* The quota in hundredths of a processor. */
static void assert_cpus(int want) {
    double cpus = 0;
    assert_true(os_cgroup_cpu_quota(root, &cpus));
    assert_int_equal((int)(cpus * 100 + 0.5), want);
}

static void assert_no_cpu_quota(void) {
    double cpus = 77;
    assert_false(os_cgroup_cpu_quota(root, &cpus));
    assert_true(cpus > 76 && cpus < 78);
}

static void a_system_without_control_groups_has_no_limit(void **state) {
    (void)state;
    assert_no_memory_limit();
    assert_no_cpu_quota();
    put_process("", "");
    assert_no_memory_limit();
    put_process("0::/app\n", OTHER_MOUNTS);
    assert_no_memory_limit();
    assert_no_cpu_quota();
}

static void version_2_limits_are_those_of_the_own_group(void **state) {
    (void)state;
    put_process("0::/app\n", OTHER_MOUNTS V2_MOUNT);
    put("/sys/fs/cgroup/app/memory.max", "471859200\n");
    put("/sys/fs/cgroup/app/cpu.max", "150000 100000\n");
    put("/sys/fs/cgroup/other/memory.max", "1048576\n");
    put("/sys/fs/cgroup/other/cpu.max", "1000 100000\n");
    assert_memory(450 * MIB);
    assert_cpus(150);
}

static void max_means_no_limit(void **state) {
    (void)state;
    put_process("0::/app\n", V2_MOUNT);
    put("/sys/fs/cgroup/app/memory.max", "max\n");
    put("/sys/fs/cgroup/app/cpu.max", "max 100000\n");
    assert_no_memory_limit();
    assert_no_cpu_quota();
}

static void the_tightest_ancestor_wins(void **state) {
    (void)state;
    put_process("0::/pod/app/worker\n", V2_MOUNT);
    put("/sys/fs/cgroup/pod/app/worker/memory.max", "max\n");
    put("/sys/fs/cgroup/pod/app/worker/cpu.max", "400000 100000\n");
    put("/sys/fs/cgroup/pod/app/memory.max", "104857600\n");
    put("/sys/fs/cgroup/pod/app/cpu.max", "max 100000\n");
    put("/sys/fs/cgroup/pod/memory.max", "209715200\n");
    put("/sys/fs/cgroup/pod/cpu.max", "25000 50000\n");
    assert_memory(100 * MIB);
    assert_cpus(50);
}

static void a_limit_at_the_mount_point_itself_counts(void **state) {
    (void)state;
    put_process("0::/\n", V2_MOUNT);
    put("/sys/fs/cgroup/memory.max", "104857600\n");
    put("/sys/fs/cgroup/cpu.max", "200000 100000\n");
    assert_memory(100 * MIB);
    assert_cpus(200);
}

static void version_1_limits_are_found_through_their_controllers(void **state) {
    (void)state;
    put_process("9:name=systemd:/\n4:memory:/docker/abc\n3:cpu,cpuacct:/docker/abc\n2:cpuset:/\n",
                OTHER_MOUNTS V1_CPU V1_MEMORY);
    put("/sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes", "209715200\n");
    put("/sys/fs/cgroup/memory/docker/memory.limit_in_bytes", V1_NONE);
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", V1_NONE);
    put("/sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_quota_us", "50000\n");
    put("/sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_period_us", "100000\n");
    put("/sys/fs/cgroup/cpu,cpuacct/docker/cpu.cfs_quota_us", "-1\n");
    put("/sys/fs/cgroup/cpu,cpuacct/docker/cpu.cfs_period_us", "100000\n");
    assert_memory(200 * MIB);
    assert_cpus(50);
}

static void version_1_writes_a_huge_number_or_minus_one_for_no_limit(void **state) {
    (void)state;
    put_process("4:memory:/a\n3:cpu:/a\n", V1_MEMORY V1_CPU);
    put("/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "-1\n");
    put("/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us", "100000\n");
    assert_no_cpu_quota();
    static const char *const none[] = {V1_NONE, "9223372036854710272\n", "9223372036854775807\n",
                                       "18446744073709551615\n", "99999999999999999999999\n"};
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
        put("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", none[i]);
        assert_no_memory_limit();
    }
}

static void version_1_statistics_tell_of_ancestors_out_of_sight(void **state) {
    (void)state;
    put_process("4:memory:/\n", V1_MEMORY);
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", V1_NONE);
    put("/sys/fs/cgroup/memory/memory.stat", "cache 0\nrss 4096\nhierarchical_memory_limit "
                                             "104857600\nhierarchical_memsw_limit 9223372036854771712\n");
    assert_memory(100 * MIB);
}

static void a_mixed_system_is_asked_in_both_hierarchies(void **state) {
    (void)state;
    put_process("4:memory:/app\n0::/app.slice\n",
                V1_MEMORY "40 30 0:37 / /sys/fs/cgroup/unified rw - cgroup2 none rw\n");
    put("/sys/fs/cgroup/memory/app/memory.limit_in_bytes", "104857600\n");
    put("/sys/fs/cgroup/unified/app.slice/cpu.max", "300000 100000\n");
    assert_memory(100 * MIB);
    assert_cpus(300);
}

static void a_container_that_sees_only_its_own_group_finds_it_at_the_mount_point(void **state) {
    (void)state;
    put_process("4:memory:/docker/abc\n",
                "34 30 0:31 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n");
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "104857600\n");
    assert_memory(100 * MIB);
    /* The process may be in a group below. */
    put("/proc/self/cgroup", "4:memory:/docker/abc/sub\n");
    put("/sys/fs/cgroup/memory/sub/memory.limit_in_bytes", "52428800\n");
    assert_memory(50 * MIB);
}

static void a_group_that_is_not_visible_falls_back_to_the_mount_point(void **state) {
    (void)state;
    /* The directory is not there. */
    put_process("0::/kubepods/pod1/abc\n", V2_MOUNT);
    put("/sys/fs/cgroup/memory.max", "104857600\n");
    put("/sys/fs/cgroup/cpu.max", "50000 100000\n");
    assert_memory(100 * MIB);
    assert_cpus(50);
    /* The mount shows another part of the hierarchy. */
    put("/proc/self/mountinfo", "30 22 0:27 /kubepods/pod2 /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
    assert_memory(100 * MIB);
    /* A name that only begins like the mount's root is not below it. */
    put("/proc/self/cgroup", "0::/kubepods/pod22/memory\n");
    put("/sys/fs/cgroup2/memory/memory.max", "1048576\n");
    assert_memory(100 * MIB);
}

static void a_group_outside_the_namespace_does_not_lead_out_of_the_mount(void **state) {
    (void)state;
    put_process("0::/../other\n", V2_MOUNT);
    put("/sys/fs/cgroup/memory.max", "104857600\n");
    put("/sys/fs/other/memory.max", "1048576\n");
    assert_memory(100 * MIB);
    put("/proc/self/cgroup", "0::/..\n");
    put("/sys/fs/memory.max", "1048576\n");
    assert_memory(100 * MIB);
    /* Two dots may also begin a name. */
    put("/proc/self/cgroup", "0::/..app\n");
    put("/sys/fs/cgroup/..app/memory.max", "52428800\n");
    assert_memory(50 * MIB);
}

static void a_mount_of_another_group_counts_only_when_none_fits(void **state) {
    (void)state;
    put_process("0::/app\n", "29 22 0:27 /neighbour /mnt/neighbour rw - cgroup2 cgroup2 rw\n" V2_MOUNT);
    put("/mnt/neighbour/memory.max", "1048576\n");
    put("/sys/fs/cgroup/app/memory.max", "104857600\n");
    assert_memory(100 * MIB);
}

static void a_mount_point_may_have_blanks_in_its_name(void **state) {
    (void)state;
    put_process("0::/my app\n", "30 22 0:27 / /mnt/c\\040g\\134x rw - cgroup2 cgroup2 rw\n");
    put("/mnt/c g\\x/my app/memory.max", "104857600\n");
    assert_memory(100 * MIB);
}

static void a_mount_line_longer_than_any_buffer_is_stepped_over(void **state) {
    (void)state;
    static char mountinfo[64 * 1024];
    size_t n =
        (size_t)snprintf(mountinfo, sizeof mountinfo, "21 1 0:40 / / rw - overlay overlay rw,lowerdir=");
    memset(mountinfo + n, 'l', 40000);
    n += 40000;
    snprintf(mountinfo + n, sizeof mountinfo - n, "\n" V2_MOUNT);
    put_process("0::/app\n", mountinfo);
    put("/sys/fs/cgroup/app/memory.max", "104857600"); /* the last newline may be missing */
    assert_memory(100 * MIB);
}

static void a_group_whose_directory_no_path_can_name_falls_back_to_the_mount_point(void **state) {
    (void)state;
    static char cgroup[8192];
    static char mountinfo[8192];
    static char limit[8192];
    /* The kernel refuses the first; the second does not even fit our buffer. */
    snprintf(cgroup, sizeof cgroup, "0::/%04000d\n", 0);
    put_process(cgroup, V2_MOUNT);
    put("/sys/fs/cgroup/memory.max", "104857600\n");
    assert_memory(100 * MIB);
    snprintf(mountinfo, sizeof mountinfo,
             "30 22 0:27 / /%0250d/%0250d/%0250d/%0250d/%0250d/%0250d/%0250d/%0250d/%0250d rw"
             " - cgroup2 cgroup2 rw\n",
             0, 0, 0, 0, 0, 0, 0, 0, 0);
    put("/proc/self/mountinfo", mountinfo);
    snprintf(limit, sizeof limit,
             "/%0250d/%0250d/%0250d/%0250d/%0250d/%0250d/%0250d/%0250d/%0250d/memory.max", 0, 0, 0, 0, 0, 0,
             0, 0, 0);
    put(limit, "52428800\n");
    assert_memory(50 * MIB);
}

static void junk_is_no_limit(void **state) {
    (void)state;
    put_process("nonsense\n:\n::\n0::/app\n", "x\n1 2 3\n" V2_MOUNT);
    static const char *const junk[] = {"", "\n", "-5\n", "many\n", " max 5\n"};
    for (size_t i = 0; i < sizeof junk / sizeof junk[0]; i++) {
        put("/sys/fs/cgroup/app/memory.max", junk[i]);
        put("/sys/fs/cgroup/app/cpu.max", junk[i]);
        assert_no_memory_limit();
        assert_no_cpu_quota();
    }
    put("/sys/fs/cgroup/app/cpu.max", "100000 0\n");
    assert_no_cpu_quota();
    put("/sys/fs/cgroup/app/cpu.max", "100000\n");
    assert_no_cpu_quota();
}

static void the_real_system_can_be_asked(void **state) {
    (void)state;
    uint64_t bytes = 0;
    double cpus = 0;
    assert_true(!os_cgroup_memory_limit("", &bytes) || bytes > 0);
    assert_true(!os_cgroup_cpu_quota("", &cpus) || cpus > 0);
}

#define IN_A_TREE(test) cmocka_unit_test_setup_teardown(test, begin, end)

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_A_TREE(a_system_without_control_groups_has_no_limit),
        IN_A_TREE(version_2_limits_are_those_of_the_own_group),
        IN_A_TREE(max_means_no_limit),
        IN_A_TREE(the_tightest_ancestor_wins),
        IN_A_TREE(a_limit_at_the_mount_point_itself_counts),
        IN_A_TREE(version_1_limits_are_found_through_their_controllers),
        IN_A_TREE(version_1_writes_a_huge_number_or_minus_one_for_no_limit),
        IN_A_TREE(version_1_statistics_tell_of_ancestors_out_of_sight),
        IN_A_TREE(a_mixed_system_is_asked_in_both_hierarchies),
        IN_A_TREE(a_container_that_sees_only_its_own_group_finds_it_at_the_mount_point),
        IN_A_TREE(a_group_that_is_not_visible_falls_back_to_the_mount_point),
        IN_A_TREE(a_group_outside_the_namespace_does_not_lead_out_of_the_mount),
        IN_A_TREE(a_mount_of_another_group_counts_only_when_none_fits),
        IN_A_TREE(a_mount_point_may_have_blanks_in_its_name),
        IN_A_TREE(a_mount_line_longer_than_any_buffer_is_stepped_over),
        IN_A_TREE(a_group_whose_directory_no_path_can_name_falls_back_to_the_mount_point),
        IN_A_TREE(junk_is_no_limit),
        cmocka_unit_test(the_real_system_can_be_asked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
