# cmake -DLINKER -DNM -DOBJCOPY -DARCHIVE -DGLUE -DOUTPUT -P jemalloc_private.cmake
#
# 1. In a copy of the archive, the two calls that read the host's configuration are turned to the glue's functions.
# 2. A relocatable link of the glue with that copy brings in all of jemalloc but its C++ operators, and every defined global
#    name without jemalloc's own je_ prefix (malloc, free, mallocx, ...) gets the prefix tern_je_.
# 3. All names but those that the glue marked hidden become local. malloc_conf stays weak, so gc/offheap.c can define it.

function(run)
    execute_process(COMMAND ${ARGV} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE errors)
    if(NOT status EQUAL 0)
        message(FATAL_ERROR "jemalloc_private: ${ARGV}\n${errors}")
    endif()
    set(output "${output}" PARENT_SCOPE)
endfunction()

run("${OBJCOPY}" --redefine-sym secure_getenv=tern_je_no_environment --redefine-sym readlink=tern_je_no_link
    "${ARCHIVE}" "${OUTPUT}.a")
run("${LINKER}" -r -o "${OUTPUT}.whole" "${GLUE}" "${OUTPUT}.a")

run("${NM}" --defined-only --extern-only --format=posix "${OUTPUT}.whole")
string(REGEX MATCHALL "[^\n]+" lines "${output}")
set(renames "")
set(cpp OFF)
foreach(line IN LISTS lines)
    string(REGEX REPLACE " .*" "" name "${line}")
    if(name MATCHES "^_Z")
        set(cpp ON)
    elseif(NOT name MATCHES "^(je_|tern_je_)")
        string(APPEND renames "${name} tern_je_${name}\n")
    endif()
endforeach()
if(cpp)
    message(FATAL_ERROR "jemalloc_private: ${ARCHIVE} brought in C++ operators new and delete; they must stay the host's")
endif()
file(WRITE "${OUTPUT}.renames" "${renames}")

set(keep)
foreach(name IN ITEMS mallocx rallocx xallocx sallocx dallocx sdallocx nallocx mallctl mallctlnametomib mallctlbymib malloc_conf)
    if(NOT renames MATCHES "(^|\n)${name} tern_je_${name}\n")
        message(FATAL_ERROR "jemalloc_private: ${ARCHIVE} defines no ${name}; jemalloc 5 without a prefix is needed")
    endif()
    list(APPEND keep "--keep-global-symbol=tern_je_${name}")
endforeach()

# Renaming and localising in one run would match old names in one place and new ones in the other: two runs.
run("${OBJCOPY}" "--redefine-syms=${OUTPUT}.renames" "${OUTPUT}.whole" "${OUTPUT}.renamed")
run("${OBJCOPY}" ${keep} "${OUTPUT}.renamed" "${OUTPUT}")
file(REMOVE "${OUTPUT}.a" "${OUTPUT}.whole" "${OUTPUT}.renamed" "${OUTPUT}.renames")
