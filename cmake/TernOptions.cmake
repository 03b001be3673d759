# Options a person may set, and the compiler flags that follow from them. Defines three interface targets:
#   tern_sanitize    the chosen sanitizer, for whatever links the library in this tree
#   tern_flags       that, and language level and warnings: everything compiled here, programs and tests too
#   tern_lib_flags   that, and code generation of the library itself

set(TERN_SANITIZE none CACHE STRING "Sanitizer: none, address (with undefined), thread")
set(TERN_ASSERT 0 CACHE STRING "Assertions: 0 always-on ones only, 1 cheap ones, 2 expensive ones (whole-structure checks)")
option(TERN_WERROR "Warnings are errors (CI)" OFF)
option(TERN_LTO "Optimise the library as a whole (gcc only)" ON)
option(TERN_TESTS "Build the tests" ${PROJECT_IS_TOP_LEVEL})

set_property(CACHE TERN_SANITIZE PROPERTY STRINGS none address thread)
set_property(CACHE TERN_ASSERT PROPERTY STRINGS 0 1 2)
if(NOT TERN_SANITIZE MATCHES "^(none|address|thread)$")
    message(FATAL_ERROR "TERN_SANITIZE=${TERN_SANITIZE}: accepted are none, address, thread")
endif()
if(NOT TERN_ASSERT MATCHES "^[012]$")
    message(FATAL_ERROR "TERN_ASSERT=${TERN_ASSERT}: accepted are 0, 1, 2")
endif()

if(NOT CMAKE_BUILD_TYPE)
    set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "Build type" FORCE)
endif()

# clang's LTO needs a linker plugin that Debian packs apart, and sanitizers want whole objects: both go without.
set(TERN_USE_LTO OFF)
if(TERN_LTO AND CMAKE_C_COMPILER_ID STREQUAL "GNU" AND TERN_SANITIZE STREQUAL "none" AND NOT CMAKE_BUILD_TYPE STREQUAL "Debug")
    set(TERN_USE_LTO ON)
endif()

set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

add_library(tern_sanitize INTERFACE)
if(TERN_SANITIZE STREQUAL "address")
    target_compile_options(tern_sanitize INTERFACE
        $<$<COMPILE_LANGUAGE:C>:-fsanitize=address,undefined;-fno-sanitize-recover=undefined>)
    target_link_options(tern_sanitize INTERFACE -fsanitize=address,undefined)
elseif(TERN_SANITIZE STREQUAL "thread")
    target_compile_options(tern_sanitize INTERFACE $<$<COMPILE_LANGUAGE:C>:-fsanitize=thread>)
    target_link_options(tern_sanitize INTERFACE -fsanitize=thread)
endif()

add_library(tern_flags INTERFACE)
target_link_libraries(tern_flags INTERFACE tern_sanitize)
target_compile_definitions(tern_flags INTERFACE _GNU_SOURCE)
target_compile_options(tern_flags INTERFACE
    $<$<COMPILE_LANGUAGE:C>:-Wall;-Wextra;-Wshadow;-Wconversion>
    -fno-omit-frame-pointer
    # Messages name files as they stand in the repository.
    "-fmacro-prefix-map=${PROJECT_SOURCE_DIR}/="
    $<$<COMPILE_LANGUAGE:ASM>:-Wa,--noexecstack>)
if(TERN_WERROR)
    target_compile_options(tern_flags INTERFACE $<$<COMPILE_LANGUAGE:C>:-Werror>)
    if(TERN_SANITIZE STREQUAL "thread" AND CMAKE_C_COMPILER_ID STREQUAL "GNU")
        # gcc warns of every fence, which ThreadSanitizer does not model; that is known, and no error.
        target_compile_options(tern_flags INTERFACE $<$<COMPILE_LANGUAGE:C>:-Wno-error=tsan>)
    endif()
endif()

add_library(tern_lib_flags INTERFACE)
target_link_libraries(tern_lib_flags INTERFACE tern_flags)
target_compile_definitions(tern_lib_flags INTERFACE TERN_ASSERT_LEVEL=${TERN_ASSERT})
target_compile_options(tern_lib_flags INTERFACE
    -fPIC
    -fvisibility=hidden
    -fstack-protector-strong
    # A thread's cache is reached without a call that could allocate or lock (glibc's lazy TLS may do both).
    -ftls-model=initial-exec
    # Our own public functions may be inlined into each other; nobody is meant to interpose them.
    -fno-semantic-interposition)
