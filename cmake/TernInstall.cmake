# cmake --install: headers, libtern.so, libtern.a, tern.pc, and the CMake package Tern (Tern::tern, Tern::tern_static).
include(CMakePackageConfigHelpers)

install(TARGETS tern tern_static EXPORT TernTargets
    ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}"
    LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
install(DIRECTORY "${PROJECT_SOURCE_DIR}/runtime/include/" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
    FILES_MATCHING PATTERN "*.h")

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/Tern")
install(EXPORT TernTargets NAMESPACE Tern:: DESTINATION "${package_dir}")
configure_package_config_file(cmake/TernConfig.cmake.in "${PROJECT_BINARY_DIR}/TernConfig.cmake"
    INSTALL_DESTINATION "${package_dir}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/TernConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/TernConfig.cmake" "${PROJECT_BINARY_DIR}/TernConfigVersion.cmake"
    DESTINATION "${package_dir}")

# The pkg-config file finds its prefix from its own place, so `cmake --install --prefix` and moved trees work.
file(RELATIVE_PATH TERN_PC_TO_PREFIX "${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig" "${CMAKE_INSTALL_PREFIX}")
string(REGEX REPLACE "/$" "" TERN_PC_TO_PREFIX "${TERN_PC_TO_PREFIX}")
configure_file(cmake/tern.pc.in "${PROJECT_BINARY_DIR}/tern.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/tern.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")

# The libraries contain jemalloc; its licence asks that its notice goes with them.
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${CMAKE_INSTALL_DOCDIR}")
if(EXISTS /usr/share/doc/libjemalloc-dev/copyright)
    install(FILES /usr/share/doc/libjemalloc-dev/copyright DESTINATION "${CMAKE_INSTALL_DOCDIR}" RENAME LICENSE.jemalloc)
endif()
