# The library's three products, from one relocatable object (CMakeLists.txt has the picture).
#   tern         libtern.so, alias Tern::tern
#   tern_static  libtern.a, alias Tern::tern_static: what the workload programs link
#   tern_internal, tern_faulty   for tests that look inside; include paths from the repository root

file(GLOB TERN_SOURCES CONFIGURE_DEPENDS
    "${PROJECT_SOURCE_DIR}/gc/*.c"
    "${PROJECT_SOURCE_DIR}/gc/os/*.c"
    "${PROJECT_SOURCE_DIR}/gc/os/*.S"
    "${PROJECT_SOURCE_DIR}/runtime/*.c")

set(TERN_SYSTEM_LIBRARIES pthread m)

# tern_add_core(NAME [LTO] [DEFINITIONS ...]): NAME_objects -> core/NAME.o, and the interface target NAME to link a test with it.
function(tern_add_core name)
    cmake_parse_arguments(PARSE_ARGV 1 arg "LTO" "" "DEFINITIONS")
    add_library(${name}_objects OBJECT ${TERN_SOURCES})
    target_link_libraries(${name}_objects PRIVATE tern_lib_flags)
    target_compile_definitions(${name}_objects PRIVATE TERN_BUILD=1 ${arg_DEFINITIONS})
    target_include_directories(${name}_objects PRIVATE "${PROJECT_SOURCE_DIR}" "${PROJECT_SOURCE_DIR}/runtime/include")

    set(link_flags -r -nostdlib)
    if(arg_LTO)
        # The link compiles, so it wants the code generation flags again; nolto-rel gives machine code back.
        target_compile_options(${name}_objects PRIVATE -flto=auto -fno-fat-lto-objects)
        string(TOUPPER "${CMAKE_BUILD_TYPE}" config)
        separate_arguments(config_flags UNIX_COMMAND "${CMAKE_C_FLAGS} ${CMAKE_C_FLAGS_${config}}")
        list(APPEND link_flags -flto=auto -flinker-output=nolto-rel -fPIC -fno-omit-frame-pointer -fstack-protector-strong
             -ftls-model=initial-exec -fno-semantic-interposition ${config_flags})
    endif()

    set(object "${PROJECT_BINARY_DIR}/core/${name}.o")
    add_custom_command(
        OUTPUT "${object}"
        COMMAND "${CMAKE_C_COMPILER}" ${link_flags} -o "${object}" $<TARGET_OBJECTS:${name}_objects> "${TERN_JEMALLOC_OBJECT}"
        DEPENDS ${name}_objects $<TARGET_OBJECTS:${name}_objects> "${TERN_JEMALLOC_OBJECT}"
        COMMENT "Linking core/${name}.o"
        COMMAND_EXPAND_LISTS VERBATIM)
    add_custom_target(${name}_object DEPENDS "${object}")

    add_library(${name} INTERFACE)
    add_dependencies(${name} ${name}_object)
    target_include_directories(${name} INTERFACE "${PROJECT_SOURCE_DIR}" "${PROJECT_SOURCE_DIR}/runtime/include")
    target_compile_definitions(${name} INTERFACE TERN_ASSERT_LEVEL=${TERN_ASSERT} ${arg_DEFINITIONS})
    target_link_libraries(${name} INTERFACE tern_flags "${object}" ${TERN_SYSTEM_LIBRARIES})
endfunction()

if(TERN_USE_LTO)
    tern_add_core(tern_internal LTO)
else()
    tern_add_core(tern_internal)
endif()
if(TERN_TESTS)
    # A library with deliberate faults, each switched on by a test that shows that the checkers catch it. Never installed.
    tern_add_core(tern_faulty DEFINITIONS TERN_FAULTS=1)
endif()

# libtern.so. Never unloaded: threads, signal handlers and fork handlers point into it.
set(core "${PROJECT_BINARY_DIR}/core/tern_internal.o")
set_source_files_properties("${core}" PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
add_library(tern SHARED "${core}")
add_dependencies(tern tern_internal_object)
set_target_properties(tern PROPERTIES
    LINKER_LANGUAGE C
    VERSION "${PROJECT_VERSION}"
    SOVERSION "${PROJECT_VERSION_MAJOR}"
    LINK_DEPENDS "${PROJECT_SOURCE_DIR}/cmake/tern.map")
target_link_options(tern PRIVATE
    "LINKER:--version-script=${PROJECT_SOURCE_DIR}/cmake/tern.map"
    "LINKER:-z,relro" "LINKER:-z,now" "LINKER:-z,noexecstack" "LINKER:-z,text" "LINKER:-z,nodelete"
    "LINKER:-Bsymbolic-functions" "LINKER:--as-needed")
if(TERN_SANITIZE STREQUAL "none")
    target_link_options(tern PRIVATE "LINKER:--no-undefined")
endif()
target_link_libraries(tern PRIVATE $<BUILD_INTERFACE:tern_flags> ${TERN_SYSTEM_LIBRARIES})

# libtern.a: the same object; hidden names, and any other that is not of the API, become local to it.
set(public "${PROJECT_BINARY_DIR}/core/tern.o")
add_custom_command(
    OUTPUT "${public}"
    COMMAND "${CMAKE_OBJCOPY}" --localize-hidden "${core}" "${public}.hidden"
    COMMAND "${CMAKE_OBJCOPY}" --wildcard "--keep-global-symbol=tern_*" "${public}.hidden" "${public}"
    COMMAND "${CMAKE_COMMAND}" -E rm "${public}.hidden"
    DEPENDS "${core}" tern_internal_object
    COMMENT "Making core/tern.o"
    VERBATIM)
set_source_files_properties("${public}" PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
add_custom_target(tern_public_object DEPENDS "${public}")
add_library(tern_static STATIC "${public}")
add_dependencies(tern_static tern_public_object)
set_target_properties(tern_static PROPERTIES LINKER_LANGUAGE C OUTPUT_NAME tern)
target_link_libraries(tern_static PRIVATE ${TERN_SYSTEM_LIBRARIES})

foreach(target IN ITEMS tern tern_static)
    add_library(Tern::${target} ALIAS ${target})
    target_include_directories(${target} INTERFACE
        $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/runtime/include>
        $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
    target_link_libraries(${target} INTERFACE $<BUILD_INTERFACE:tern_sanitize>)
endforeach()
