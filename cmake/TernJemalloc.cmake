# The private jemalloc: Debian's libjemalloc_pic.a made into one object, jemalloc_private.o, which defines no name that a
# host program could meet. What it offers, each hidden: tern_je_mallocx, tern_je_rallocx, tern_je_xallocx, tern_je_sallocx,
# tern_je_dallocx, tern_je_sdallocx, tern_je_nallocx, tern_je_mallctl, tern_je_mallctlnametomib, tern_je_mallctlbymib, and the
# weak variable tern_je_malloc_conf (define it, `const char *tern_je_malloc_conf = "...";`, to choose options).
# How: cmake/jemalloc_private.c says which, cmake/jemalloc_private.cmake does the linking and renaming.
# Sets TERN_JEMALLOC_OBJECT.

find_library(TERN_JEMALLOC_ARCHIVE NAMES libjemalloc_pic.a DOC "Position-independent archive of jemalloc 5")
if(NOT TERN_JEMALLOC_ARCHIVE)
    message(FATAL_ERROR "libjemalloc_pic.a is missing: install libjemalloc-dev, or set TERN_JEMALLOC_ARCHIVE to its path")
endif()

# No sanitizer, no LTO: this is glue, and it must be a plain object for the linking below.
add_library(tern_jemalloc_glue OBJECT "${PROJECT_SOURCE_DIR}/cmake/jemalloc_private.c")
target_compile_options(tern_jemalloc_glue PRIVATE -Wall -Wextra -fPIC -fvisibility=hidden -fno-lto)

set(TERN_JEMALLOC_OBJECT "${PROJECT_BINARY_DIR}/core/jemalloc_private.o")
add_custom_command(
    OUTPUT "${TERN_JEMALLOC_OBJECT}"
    COMMAND "${CMAKE_COMMAND}"
        -DLINKER=${CMAKE_LINKER} -DNM=${CMAKE_NM} -DOBJCOPY=${CMAKE_OBJCOPY}
        -DARCHIVE=${TERN_JEMALLOC_ARCHIVE} -DGLUE=$<TARGET_OBJECTS:tern_jemalloc_glue>
        -DOUTPUT=${TERN_JEMALLOC_OBJECT}
        -P "${PROJECT_SOURCE_DIR}/cmake/jemalloc_private.cmake"
    DEPENDS "${TERN_JEMALLOC_ARCHIVE}" "${PROJECT_SOURCE_DIR}/cmake/jemalloc_private.cmake"
            tern_jemalloc_glue $<TARGET_OBJECTS:tern_jemalloc_glue>
    COMMENT "Making the private jemalloc"
    VERBATIM)
